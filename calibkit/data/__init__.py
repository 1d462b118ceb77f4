"""Data sets as arrays: ``load(name, split)`` reads the cache, ``prepare(name)`` fills it.

The cache is ``$CALIBKIT_DATA`` (default ``~/.cache/calibkit``) with ``<name>/<split>_images.npy``
(uint8, N x H x W x C) and ``<split>_labels.npy`` (int64), memory-mapped. ``digits`` needs no cache.
``python -m calibkit.data prepare NAME`` downloads one.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from calibkit._checks import check_choice


class Split(NamedTuple):
    """Inputs, images (N, H, W, C) uint8, and labels (N,) int64."""

    inputs: np.ndarray
    labels: np.ndarray


@dataclass(frozen=True)
class Dataset:
    """What a data set is, and how its splits are carved.

    Attributes:
        n_classes: K.
        shape: (H, W, C) of an image.
        mean: per channel, of the training images in [0, 1].
        std: per channel.
        n_val: images carved from the training files for ``val``; None where a validation file exists.
        base: name of the data set whose files are read; None: its own.
        rho: long-tailed profile: class i keeps ``int(n_0 * rho ** (i / (K - 1)))`` training images; None: all.
        augment: whether crop and flip keep the meaning of an image.
        kind: "image" (a class an image), "dense" (a class a pixel) or "text" (a class a sequence of tokens).
    """

    n_classes: int
    shape: tuple[int, int, int]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    n_val: int | None = 5000
    base: str | None = None
    rho: float | None = None
    augment: bool = True
    kind: str = "image"


_C10 = {"shape": (32, 32, 3), "mean": (0.4914, 0.4822, 0.4465), "std": (0.2470, 0.2435, 0.2616)}
_C100 = {"shape": (32, 32, 3), "mean": (0.5071, 0.4865, 0.4409), "std": (0.2673, 0.2564, 0.2762)}

DATASETS: dict[str, Dataset] = {
    "digits": Dataset(10, (8, 8, 1), (0.3053,), (0.3760,), n_val=300, augment=False),
    "cifar10": Dataset(10, **_C10),
    "cifar100": Dataset(100, **_C100),
    "cifar10_lt": Dataset(10, **_C10, n_val=10216, base="cifar10", rho=0.1),
    "cifar100_lt": Dataset(100, **_C100, n_val=9787, base="cifar100", rho=0.1),
}


def cache() -> Path:
    """``$CALIBKIT_DATA`` or ``~/.cache/calibkit``."""
    return Path(os.environ.get("CALIBKIT_DATA") or "~/.cache/calibkit").expanduser()


def available(name: str) -> bool:
    """Whether ``load(name, "train")`` and ``load(name, "test")`` would find their files."""
    base = DATASETS[check_choice("name", name, DATASETS)].base or name
    return base == "digits" or all((cache() / base / f"{split}_labels.npy").exists() for split in ("train", "test"))


def load(name: str, split: str, *, seed: int = 0) -> Split:
    """One split of a data set.

    ``val`` is carved from the training files: a permutation drawn with ``seed`` gives its first ``n_val`` images to
    ``val`` and the rest to ``train``, so the two never overlap. A long-tailed data set first keeps the first
    ``int(n_0 * rho ** (i / (K - 1)))`` images of class i in that order, and permutes them again; its test split stays
    balanced.

    Args:
        name: a key of ``DATASETS``.
        split: "train", "val" or "test".
        seed: of the carving. Default 0.

    Returns:
        Split: images uint8 (N, H, W, C), a memory map where nothing was carved; labels int64 (N,).

    Raises:
        ValueError: an unknown name or split.
        FileNotFoundError: the cache lacks the files; the message says the command that makes them.

    Example:
        >>> images, labels = load("digits", "test")
        >>> images.shape, labels[:4].tolist()
        ((497, 8, 8, 1), [2, 5, 4, 4])
    """
    spec = DATASETS[check_choice("name", name, DATASETS)]
    check_choice("split", split, ("train", "val", "test"))
    source = spec.base or name
    if source == "digits":
        return _digits(split, seed)
    if split == "test" or spec.n_val is None:
        return _read(source, split)
    images, labels = _read(source, "train")
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(labels))
    if spec.rho is not None:  # drawn anew: the first images of that order hold the tail's only ones
        order = rng.permutation(_long_tail(labels, order, spec))
    chosen = np.sort(order[: spec.n_val] if split == "val" else order[spec.n_val :])
    return Split(images[chosen], labels[chosen])


def _long_tail(labels: np.ndarray, order: np.ndarray, spec: Dataset) -> np.ndarray:
    """The images kept under the profile n_i = int(n_0 rho^{i / (K - 1)}), in the given order."""
    n_0 = np.bincount(labels).max()
    shuffled = labels[order]
    kept = np.zeros(len(order), bool)
    for i in range(spec.n_classes):
        kept[np.flatnonzero(shuffled == i)[: int(n_0 * spec.rho ** (i / (spec.n_classes - 1)))]] = True
    return order[kept]


def _read(name: str, split: str) -> Split:
    folder = cache() / name
    paths = [folder / f"{split}_{kind}.npy" for kind in ("images", "labels")]
    for path in paths:
        if not path.exists():
            raise FileNotFoundError(f"{path} is missing: run `python -m calibkit.data prepare {name}`")
    return Split(np.load(paths[0], mmap_mode="r"), np.load(paths[1]))


def _digits(split: str, seed: int) -> Split:
    """scikit-learn's 1,797 scans of handwritten digits: 1,000 / 300 / 497."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images = np.round(bunch.images * (255 / 16)).astype(np.uint8)[..., None]
    order = np.random.default_rng(seed).permutation(len(images))
    chosen = {"val": order[:300], "test": order[300:797], "train": order[797:]}[split]
    return Split(images[chosen], bunch.target[chosen].astype(np.int64))
