"""Fill the cache: download from the official source, check the checksum, write the arrays atomically."""

from __future__ import annotations

import hashlib
import os
import shutil
import urllib.request
from pathlib import Path

import numpy as np

from calibkit._checks import check_choice, expected
from calibkit._io import write_atomic
from calibkit.data import DATASETS, cache, cifar

#: name -> (URL, MD5, reader of the archive).
SOURCES = {name: (*source, cifar.read) for name, source in cifar.SOURCES.items()}


def prepare(name: str, archive: str | os.PathLike | None = None) -> Path:
    """Write ``<cache>/<name>/{train,test}_{images,labels}.npy``; returns that folder. What is there is left alone.

    Args:
        name: "cifar10" or "cifar100"; a long-tailed name prepares the data set it is cut from.
        archive: the official archive, where it is already on disk. Default: download it into the cache.

    Raises:
        ValueError: an unknown name; an archive with another checksum.
        OSError: the download fails.
    """
    name = DATASETS[name].base or name if name in DATASETS else name
    url, md5, read = SOURCES[check_choice("name", name, SOURCES)]
    folder = cache() / name
    wanted = [folder / f"{split}_{kind}.npy" for split in ("train", "test") for kind in ("images", "labels")]
    if all(path.exists() for path in wanted):
        return folder
    path = Path(archive) if archive else download(url, cache() / "archives" / url.rsplit("/", 1)[1])
    with open(path, "rb") as stream:
        found = hashlib.file_digest(stream, "md5").hexdigest()
    if found != md5:
        raise expected("archive", f"a file with MD5 {md5}", f"{found} in {path}; delete it and try again")
    for split, (images, labels) in read(name, path).items():
        for kind, array in (("images", images), ("labels", labels)):
            write_atomic(folder / f"{split}_{kind}.npy", lambda stream, array=array: np.save(stream, array))
    return folder


def download(url: str, path: Path) -> Path:
    """Fetch ``url`` to ``path`` unless it is there; a broken download leaves nothing."""
    if not path.exists():
        with urllib.request.urlopen(url) as response:
            write_atomic(path, lambda stream: shutil.copyfileobj(response, stream))
    return path
