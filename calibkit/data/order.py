"""One order of the samples on every copy of a data set, and some of them, drawn with the classes' shares.

``val`` is carved by position, and stored logits are in the order of the samples; but copies differ in their order. So
the package carries a hash of every sample of some data sets, in the order that everything stored rests on, and
:func:`arranged` brings a copy into it.

``orders/<name>.npz`` holds them, one array an official split: of CIFAR-10, CIFAR-100 and ``tiny_imagenet_20``. The
others keep the order of their files: of CamVid, the images are resized, and no two programs do so alike.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path

import numpy as np

from calibkit._checks import check_int, expected
from calibkit._files import read_npz
from calibkit._folders import PACKAGE

FOLDER = PACKAGE / "data" / "orders"


def hashes(images: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """What names each sample, (N,) uint32: the first 4 bytes of BLAKE2b, of 8, of its image and its label.

    Images are (N, H, W, C) uint8, labels (N,) integers, which belong to it, as CIFAR-100 has equal images of two
    classes. Within a split of the data sets above, samples of equal hashes are the same twice.

    Example:
        >>> twice = hashes(np.zeros((3, 2, 2, 1), np.uint8), np.array([0, 1, 0]))
        >>> (twice == twice[0]).tolist()
        [True, False, True]
    """
    named = (
        blake2b(image.tobytes() + label.tobytes(), digest_size=8).digest()[:4]
        for image, label in zip(images, labels.astype("<i8"), strict=True)
    )
    return np.frombuffer(b"".join(named), "<u4")


def arranged(name: str, split: str, paths: tuple[Path, Path]) -> tuple[np.ndarray, np.ndarray]:
    """Images and labels of an official split in the stored order; memory-mapped images where they lie so already.

    A copy is hashed once a process. ValueError tells of one that lacks samples, or has others.
    """
    images, labels = np.load(paths[0], mmap_mode="r"), np.load(paths[1])
    order = FOLDER / f"{name}.npz"
    if not order.exists():
        return images, labels
    rows = _rows(order, split, *paths, *(path.stat().st_mtime_ns for path in paths))
    return (images, labels) if rows is None else (images[rows], labels[rows])


@lru_cache(maxsize=8)
def _rows(order: Path, split: str, images: Path, labels: Path, *_: int) -> np.ndarray | None:
    """Which rows of a copy are the samples of the stored order; None where it has that order."""
    wanted = read_npz(order)[split]
    pixels, classes = np.load(images, mmap_mode="r"), np.load(labels)
    if (n := len(pixels)) != len(classes):
        raise expected(order.stem, "of one label an image", f"{n:,} images and {len(classes):,} labels in {split}")
    found = hashes(pixels, classes)
    if np.array_equal(found, wanted):
        return None
    of_copy, of_order = (np.argsort(array, kind="stable") for array in (found, wanted))
    if not np.array_equal(found[of_copy], wanted[of_order]):
        raise expected(order.stem, f"a lossless copy of its {len(wanted):,} {split} images", _fault(found, wanted))
    rows = np.empty_like(of_copy)
    rows[of_order] = of_copy
    return rows


def _fault(found: np.ndarray, wanted: np.ndarray) -> str:
    """What is wrong with a copy."""
    unknown = np.flatnonzero(~np.isin(found, wanted))
    if len(unknown):
        others = f" ({len(unknown):,} such)" if len(unknown) > 1 else ""
        return f"an image that is none of them, or not with its label, in row {unknown[0]}{others}"
    found, wanted = Counter(found.tolist()), Counter(wanted.tolist())
    return f"one that lacks {(wanted - found).total():,} and has {(found - wanted).total():,} twice"


def subset(labels: np.ndarray, n: int, *, seed: int = 0) -> np.ndarray:
    """The rows (n,), ascending, of ``n`` samples, drawn at random with the shares of the classes, rounded.

    The samples are shuffled, put in the order of their classes (N,), and taken at equal steps. ValueError tells of
    labels of another shape, of ``n`` outside 1 ... N, and of a seed that is no integer >= 0.

    Example:
        >>> labels = np.repeat([0, 1, 2], [60, 30, 10])
        >>> np.bincount(labels[subset(labels, 20)]).tolist()
        [12, 6, 2]
    """
    labels = _one_a_sample(labels)
    n = check_int("n", n, 1, len(labels) + 1)
    order = np.random.default_rng(check_int("seed", seed, 0)).permutation(len(labels))
    by_class = order[np.argsort(labels[order], kind="stable")]
    return np.sort(by_class[np.arange(n) * len(labels) // n])


def halves(labels: np.ndarray, *, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The rows of two halves with the same shares of the classes (N,), N >= 2; of an odd N the second has one more.

    Raises:
        ValueError: labels of another shape than (N,), fewer than two, or a seed that is no integer >= 0.

    Example:
        >>> first, second = halves(np.repeat([0, 1, 2], [4, 4, 2]))
        >>> len(first), sorted([*first, *second]) == list(range(10))
        (5, True)
    """
    if (n := len(_one_a_sample(labels))) < 2:
        raise expected("labels", "two or more, to be halved", n)
    first = subset(labels, n // 2, seed=seed)
    return first, np.setdiff1d(np.arange(n), first)


def _one_a_sample(labels: np.ndarray) -> np.ndarray:
    """(N,) classes, numbers or names."""
    labels = np.asarray(labels)
    if labels.ndim != 1:
        raise expected("labels", "of shape (N,), a class a sample", f"shape {labels.shape}")
    return labels
