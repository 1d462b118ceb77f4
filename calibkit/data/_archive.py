"""Official files: fetched whole or not at all, checked against what is published of them, and read where they are.

Of an archive the files come as bytes, and the images as arrays; nothing is unpacked on disk.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import shutil
import tarfile
import urllib.request
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import IO, BinaryIO
from urllib.error import HTTPError, URLError

import numpy as np

from calibkit._checks import expected
from calibkit._extras import needs
from calibkit._files import remove_strays, write_atomic
from calibkit._folders import cache

#: Seconds that a server may be silent.
TIMEOUT = 60.0

_BROKEN = (tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, EOFError, zlib.error)


@dataclass(frozen=True)
class File:
    """A file of the official source."""

    name: str
    url: str | None  #: None: behind a registration
    digest: str | None  #: "md5:...", "sha256:..." or "git:..." (SHA-1 of a git blob); None: nobody publishes one
    splits: tuple[str, ...] | None = None  #: those that need it; None: all
    size: int | None = None  #: in bytes; None: nobody says


def official(file: File, archive: str | os.PathLike | None = None, n_files: int = 1) -> Path:
    """The path of an official file, with the published size and checksum.

    ``archive`` is the file, or the folder that holds it under its name, which several, ``n_files``, need; a wrong one
    stays there. Default: the folder ``archives`` of the cache, into which a missing or wrong one is fetched.
    """
    if archive is not None:
        path = Path(archive)
        if path.is_dir():
            path = path / file.name
        elif n_files > 1:
            raise expected("archive", f"a folder that holds {file.name} and the others", path)
        check(file, path, "; delete it and try again")
        return path
    path = cache() / "archives" / file.name
    if path.exists():
        try:
            check(file, path, "; delete it and try again")
            return path
        except ValueError:
            if file.url is None:
                raise
    elif file.url is None:
        raise FileNotFoundError(f"{file.name} needs a registration: fetch it, and give its folder as --archive")
    remove_strays(path.parent)
    return fetch(file, path)


def check(file: File, path: Path, cure: str = "") -> None:
    """Refuse a file of another size or checksum than the official one."""
    size = path.stat().st_size
    if file.size not in (None, size):
        raise expected("archive", f"a file of {file.size:,} bytes", f"{size:,} in {path}{cure}")
    if file.digest is None:
        return
    algorithm, digest = file.digest.split(":")
    with open(path, "rb") as stream:
        if algorithm == "git":
            found = hashlib.sha1(b"blob %d\0" % size + stream.read(), usedforsecurity=False).hexdigest()
        else:
            found = hashlib.file_digest(stream, algorithm).hexdigest()
    if found != digest:
        raise expected("archive", f"a file with {algorithm.upper()} {digest}", f"{found} in {path}{cure}")


def fetch(file: File, path: Path) -> Path:
    """Download a file; one that breaks, is silent for ``TIMEOUT`` or is not the official one leaves nothing."""

    def write(stream: IO[bytes]) -> None:
        shutil.copyfileobj(response, stream)
        if left := getattr(response, "length", None):
            raise OSError(f"{file.url}: the connection ended {left} bytes early")
        stream.flush()
        check(file, Path(stream.name), f", from {file.url}")

    try:
        with urllib.request.urlopen(file.url, timeout=TIMEOUT) as response:
            return write_atomic(path, write)
    except HTTPError as error:
        with error:  # it holds the connection
            raise OSError(f"{file.url}: {error}") from None
    except (URLError, HTTPException, TimeoutError) as error:
        kind = TimeoutError if isinstance(error, TimeoutError) else OSError
        raise kind(f"{file.url}: {getattr(error, 'reason', None) or error or repr(error)}") from error


class Archive:
    """The regular files of a zip or tar archive by name; whatever else its names say, nothing is written anywhere."""

    def __init__(self, source: Path | BinaryIO):
        self.source = source
        with self._whole(), ExitStack() as stack:
            stream = stack.enter_context(open(source, "rb")) if isinstance(source, Path) else source
            if zipfile.is_zipfile(stream):
                self._archive = stack.enter_context(zipfile.ZipFile(stream))
                members = [(info.filename, info) for info in self._archive.infolist() if not info.is_dir()]
            else:
                stream.seek(0)
                self._archive = stack.enter_context(tarfile.open(fileobj=stream))
                members = [(member.name, member) for member in self._archive.getmembers() if member.isfile()]
            self._closing = stack.pop_all()
        self._members = {name.removeprefix("./"): member for name, member in members}

    @property
    def names(self) -> list[str]:
        """Names in the order of the archive."""
        return list(self._members)

    def read(self, name: str) -> bytes:
        """The bytes of one file; ValueError where it is missing or cut short."""
        self.in_order([name])
        with self._whole():
            if isinstance(self._archive, zipfile.ZipFile):
                return self._archive.read(self._members[name])
            return self._archive.extractfile(self._members[name]).read()

    def in_order(self, names: Iterable[str]) -> list[str]:
        """``names`` in the order of the archive, which a compressed tar reads fast; ValueError where one is missing."""
        names = set(names)
        if missing := sorted(names - self._members.keys()):
            text = f"one without {', '.join(missing[:3])}{' ...' if missing[3:] else ''}"
            raise expected("archive", f"one that holds {len(names)} file(s)", f"{text}, in {self.source}")
        return [name for name in self._members if name in names]

    def lines(self, name: str) -> list[str]:
        """The lines of a text file that are not empty."""
        return [line.strip() for line in self.read(name).decode().splitlines() if line.strip()]

    @contextmanager
    def _whole(self) -> Iterator[None]:
        try:
            yield
        except _BROKEN as error:
            raise expected("archive", "whole", f"{str(error) or type(error).__name__} in {self.source}") from None

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *_) -> None:
        self._closing.close()


def image_of(raw: bytes):
    """The encoded image ``raw`` as a PIL image in RGB."""
    with needs("train"):
        from PIL import Image

    return Image.open(io.BytesIO(raw)).convert("RGB")


def crop_of(image, size: tuple[int, int], crop: int) -> np.ndarray:
    """``image`` resized to ``size`` (width, height), bilinear with antialiasing, and its central square."""
    with needs("train"):
        from PIL import Image

    left, top = (round((side - crop) / 2) for side in size)
    return np.asarray(image.resize(size, Image.Resampling.BILINEAR).crop((left, top, left + crop, top + crop)))
