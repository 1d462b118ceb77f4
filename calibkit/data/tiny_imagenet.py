"""Tiny-ImageNet (Le and Yang 2015): 200 classes, 64 x 64 pixels; and every tenth of its classes.

500 training and 50 validation images a class; the labels of the official test images are secret. So the official
validation images are the test split of all papers. MbLS (App. B) carves 50 training images a class as ``val``, and so
does ``load``; Mukhoti et al. 2020, whose networks CTS takes, fit the temperature on the test images themselves.
Classes are numbered in the alphabetical order of their WordNet ids.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from calibkit.data._archive import Archive, File, image_of

ROOT = "tiny-imagenet-200"
FILES = (File(f"{ROOT}.zip", f"http://cs231n.stanford.edu/{ROOT}.zip", "md5:90528d7ca1a48142e341f4ef8d21d0de"),)


def samples(name: str, paths: dict[str, Path], split: str) -> Iterator[tuple[np.ndarray, int]]:
    """Images (64, 64, 3) and classes of ``train`` or ``val``; "tiny_imagenet_20" takes the classes 0, 10, ..., 190."""
    step = 10 if name == "tiny_imagenet_20" else 1
    with Archive(paths[FILES[0].name]) as archive:
        ids = sorted(archive.lines(f"{ROOT}/wnids.txt"))[::step]
        if split == "train":
            folders = {f"{ROOT}/train/{wnid}/images": wnid for wnid in ids}
            owner = {file: folders[folder] for file in archive.names if (folder := file.rpartition("/")[0]) in folders}
            archive.in_order(f"{folder}/{wnid}_0.JPEG" for folder, wnid in folders.items())
        else:
            rows = (line.split("\t") for line in archive.lines(f"{ROOT}/val/val_annotations.txt"))
            owner = {f"{ROOT}/val/images/{row[0]}": row[1] for row in rows if row[1] in ids}
        for file in archive.in_order(owner):
            yield np.asarray(image_of(archive.read(file))), ids.index(owner[file])
