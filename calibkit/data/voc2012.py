"""PASCAL VOC 2012 segmentation (Everingham et al. 2010): 1,464 training and 1,449 validation images, 20 objects + 0.

The labels of the official test images are secret: MbLS (App. B) and ACLS (Sec. 4) report the validation images, which
are the test split here; ``load`` carves 146 training images as ``val``. The 10,582 training images of ACLS come with
the masks of Hariharan et al. 2011, which are not read.

An image, 500 pixels wide or high at most, keeps its pixels: it is centred on 512 x 512, black outside. What lies
outside, and the contours between objects, have no class: 255 on disk, -100 as ``load`` gives it. (MbLS rescales to 640
and cuts random 512 x 512 when it trains, and rescales to 480 when it tests.)
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from calibkit._checks import expected
from calibkit._extras import needs
from calibkit.data._archive import Archive, File, image_of

_URL = "https://thor.robots.ox.ac.uk/pascal/VOC/voc2012/VOCtrainval_11-May-2012.tar"
FILES = (File("VOCtrainval_11-May-2012.tar", _URL, "md5:6cd6e144f989b92b3379bac3b3de84fd"),)
ROOT = "VOCdevkit/VOC2012"
SIZE = 512


def samples(name: str, paths: dict[str, Path], split: str) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Images (512, 512, 3) and masks (512, 512) uint8 of ``train`` or ``val``."""
    with needs("train"):
        from PIL import Image

    with Archive(paths[FILES[0].name]) as archive:
        for number in archive.lines(f"{ROOT}/ImageSets/Segmentation/{split}.txt"):
            image = np.asarray(image_of(archive.read(f"{ROOT}/JPEGImages/{number}.jpg")))
            mask = np.asarray(Image.open(io.BytesIO(archive.read(f"{ROOT}/SegmentationClass/{number}.png"))))
            if mask.shape != image.shape[:2] or max(mask.shape) > SIZE:
                raise expected("archive", f"images and masks of {SIZE} pixels at most", f"{image.shape}, {mask.shape}")
            yield _centre(image, 0), _centre(mask, 255)


def _centre(array: np.ndarray, fill: int) -> np.ndarray:
    whole = np.full((SIZE, SIZE, *array.shape[2:]), fill, np.uint8)
    top, left = ((SIZE - side) // 2 for side in array.shape[:2])
    whole[top : top + array.shape[0], left : left + array.shape[1]] = array
    return whole
