"""Caltech-UCSD Birds-200-2011 (Wah et al. 2011): 5,994 training and 5,794 test images of 200 species.

MbLS (App. B) has no validation images: its code picks the epoch on the test images. Here ``load`` carves 3 training
images a species as ``val``. Images are resized to 256 x 256 and cropped to the central 224 x 224, as MbLS does when it
tests; it trains on random 224 x 224 crops.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from calibkit.data._archive import Archive, File, crop_of, image_of

_URL = "https://data.caltech.edu/records/65de6-vp158/files/"
ROOT = "CUB_200_2011"
FILES = (File(f"{ROOT}.tgz", f"{_URL}{ROOT}.tgz", "md5:97eceeb196236b17998738112f37df78"),)


def samples(name: str, paths: dict[str, Path], split: str) -> Iterator[tuple[np.ndarray, int]]:
    """Images (224, 224, 3) and species of ``train`` or ``test``."""
    flag = "1" if split == "train" else "0"
    with Archive(paths[FILES[0].name]) as archive:
        tables = ("images", "image_class_labels", "train_test_split")
        file, label, training = (dict(map(str.split, archive.lines(f"{ROOT}/{table}.txt"))) for table in tables)
        owner = {f"{ROOT}/images/{file[i]}": int(label[i]) - 1 for i in file if training[i] == flag}
        for name in archive.in_order(owner):
            yield crop_of(image_of(archive.read(name)), (256, 256), 224), owner[name]
