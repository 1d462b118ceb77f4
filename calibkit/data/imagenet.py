"""ImageNet, ILSVRC 2012 (Russakovsky et al. 2015): 1,281,167 training and 50,000 validation images of 1,000 classes.

The labels of the official test images are secret. Neural Clamping, SCTL and CTS (Table III) halve the validation images
into 25,000 for calibration and 25,000 for testing; so do these files, by a permutation with seed 0. (ACLS tests on
40,000 of them, its log says.) The shorter side is resized to 256, bilinear with antialiasing, and the central
224 x 224 are kept, training images too: 193 GB and hours of decoding for those, 7.5 GB for the rest, which
``--splits val test`` prepares alone. Classes are numbered in the alphabetical order of their WordNet ids.

The archives need a registration at https://image-net.org/download.php.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from calibkit._checks import expected
from calibkit._extras import needs
from calibkit.data._archive import Archive, File, crop_of, image_of

FILES = (
    File("ILSVRC2012_devkit_t12.tar.gz", None, "md5:fa75699e90414af021442c21a62c3abf"),
    File("ILSVRC2012_img_train.tar", None, "md5:1d675b47d978889d74fa0da5fadfb00e", ("train",)),
    File("ILSVRC2012_img_val.tar", None, "md5:29b22e2961454d5413ddabcf34fc5622", ("val", "test")),
)
DATA = "ILSVRC2012_devkit_t12/data"


def samples(name: str, paths: dict[str, Path], split: str) -> Iterator[tuple[np.ndarray, int]]:
    """Images (224, 224, 3) and classes of ``train`` or of one of the halves ``val`` and ``test``."""
    return _train(paths) if split == "train" else _half(paths, ("val", "test").index(split))


def _classes(path: Path) -> tuple[dict[str, int], list[int]]:
    """The class of each WordNet id, and that of each validation image."""
    with needs("train"):
        from scipy.io import loadmat

    with Archive(path) as archive:
        table = loadmat(io.BytesIO(archive.read(f"{DATA}/meta.mat")), squeeze_me=True)["synsets"]
        truth = [int(line) for line in archive.lines(f"{DATA}/ILSVRC2012_validation_ground_truth.txt")]
    rows = zip(table["ILSVRC2012_ID"], table["WNID"], table["num_children"], strict=True)
    ids = {int(number): str(wnid) for number, wnid, n_children in rows if n_children == 0}
    classes = {wnid: i for i, wnid in enumerate(sorted(ids.values()))}
    return classes, [classes[ids[number]] for number in truth]


def _train(paths: dict[str, Path]) -> Iterator[tuple[np.ndarray, int]]:
    classes, _ = _classes(paths[FILES[0].name])
    with Archive(paths[FILES[1].name]) as archive:
        for name in archive.in_order(f"{wnid}.tar" for wnid in classes):
            with Archive(io.BytesIO(archive.read(name))) as images:  # one class at a time, about 140 MB
                for image in images.names:
                    yield _crop(images.read(image)), classes[name.removesuffix(".tar")]


def _half(paths: dict[str, Path], half: int) -> Iterator[tuple[np.ndarray, int]]:
    _, truth = _classes(paths[FILES[0].name])
    chosen = np.array_split(np.random.default_rng(0).permutation(len(truth)), 2)[half]
    with Archive(paths[FILES[2].name]) as archive:
        if len(archive.names) != len(truth):
            raise expected("archive", f"one that holds {len(truth)} images", f"{len(archive.names)}")
        label = {f"ILSVRC2012_val_{i + 1:08d}.JPEG": truth[i] for i in chosen}
        for name in archive.in_order(label):
            yield _crop(archive.read(name)), label[name]


def _crop(raw: bytes) -> np.ndarray:
    image = image_of(raw)
    short = min(image.size)
    return crop_of(image, tuple(256 * side // short for side in image.size), 224)
