"""Data sets as arrays: ``load_split(name, split)`` reads the cache, ``calibkit.data.prepare.prepare(name)`` fills it.

The cache is ``$CALIBKIT_DATA`` (default ``~/.cache/calibkit``). By the ``kind`` of a data set it holds

- image: ``<name>/<split>_images.npy`` (uint8, N x H x W x C) and ``<split>_labels.npy`` (int64), memory-mapped;
- dense: ``<name>/<split>_images.npy`` and ``<split>_masks.npy`` (uint8, N x H x W);
- text: ``<name>/<split>.jsonl``, a line a message: ``{"group", "id", "text"}``.

``digits`` needs no cache. ``calibkit data prepare NAME`` makes the files; :mod:`calibkit.data.images` and ``texts``
say what they are made of, and where splits differ from a paper's. ``calibkit data prepare published``
fetches ``logits/*.npz`` and ``weights/*.npz`` of other people: see :mod:`calibkit.data.published`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import numpy as np

from calibkit._checks import check_choice, check_int, expected
from calibkit._extras import needs
from calibkit._folders import cache
from calibkit.data import texts
from calibkit.data.order import arranged, halves, subset
from calibkit.data.texts import word_vectors

__all__ = ["DATASETS", "Dataset", "Split", "available", "files", "halves", "load_split", "subset", "vocabulary"]
__all__ += ["word_vectors"]

#: The label of pixels without a class: what every loss leaves out by default (``ignore_index``).
IGNORE = -100
SplitName = Literal["train", "val", "test"]
Kind = Literal["image", "dense", "text"]


class Split(NamedTuple):
    """Inputs and labels, by the kind of the data set.

    image: uint8 (N, H, W, C) and int64 (N,); dense: uint8 (N, H, W, C) and int16 (N, H, W), -100 where there is no
    class; text: token ids int32 (N, L), 0 for padding and 1 for unknown words, and int64 (N,).
    """

    inputs: np.ndarray  #: images or token ids
    labels: np.ndarray  #: classes


@dataclass(frozen=True)
class Dataset:
    """What a data set is, and how its splits are carved.

    Attributes:
        n_classes: the number of classes.
        shape: (H, W, C) of an image, (L,) of a text.
        mean: per channel, of the training images in [0, 1]; of all images of digits; of those of ImageNet where its
            weights are the start.
        std: per channel.
        n_val: samples carved from the training files for ``val``; None where a validation file exists.
        base: name of the data set whose files are read; None: its own.
        rho: long-tailed profile: class i keeps ``int(n_0 * rho ** (i / (K - 1)))`` training images; None: all.
        augment: whether crop and flip keep the meaning of an image.
        kind: "image" (a class an image), "dense" (a class a pixel) or "text" (a class a sequence of tokens).
        stratified: whether ``val`` takes n_val / K samples of every class.
        n_test: text: messages drawn for ``test``, before ``val``, from all official files; None: the official split.
        test: the official files that are the test split: "val" where the labels of the official test set are secret.
        void: dense: the label on disk of pixels without a class.
        films: dense: where the test images are frames of films, the first of each film; neighbours are alike.
        n_tokens: text: V, the size of the vocabulary.
        closed_vocabulary: text: whether the vocabulary is that of all messages, and other words are left out; False:
            that of the training split, with a token for other words.
    """

    n_classes: int
    shape: tuple[int, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    n_val: int | None = 5000
    base: str | None = None
    rho: float | None = None
    augment: bool = True
    kind: Kind = "image"
    stratified: bool = False
    n_test: int | None = None
    test: SplitName = "test"
    void: int | None = None
    films: tuple[int, ...] = ()
    n_tokens: int | None = None
    closed_vocabulary: bool = False


_C10 = {"shape": (32, 32, 3), "mean": (0.4914, 0.4822, 0.4465), "std": (0.2470, 0.2435, 0.2616)}
_C100 = {"shape": (32, 32, 3), "mean": (0.5071, 0.4865, 0.4409), "std": (0.2673, 0.2564, 0.2762)}
_TINY = {"shape": (64, 64, 3), "stratified": True, "test": "val"}
_IMAGENET = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
_NEWS = {"n_val": 900, "augment": False, "kind": "text", "n_tokens": 20000}
_NEWS_AT_RANDOM = {**_NEWS, "base": "20newsgroups", "n_test": 3769}
_CAMVID = {"mean": (0.4136, 0.4273, 0.4339), "std": (0.3019, 0.3057, 0.3018)}

DATASETS: dict[str, Dataset] = {
    "digits": Dataset(10, (8, 8, 1), (0.3053,), (0.3760,), n_val=300, augment=False),
    "cifar10": Dataset(10, **_C10),
    "cifar100": Dataset(100, **_C100),
    "cifar10_lt": Dataset(10, **_C10, n_val=10216, base="cifar10", rho=0.1),
    "cifar100_lt": Dataset(100, **_C100, n_val=9787, base="cifar100", rho=0.1),
    "svhn": Dataset(10, (32, 32, 3), (0.4377, 0.4438, 0.4728), (0.1980, 0.2010, 0.1970), n_val=6000, augment=False),
    "tiny_imagenet": Dataset(200, mean=(0.4802, 0.4481, 0.3975), std=(0.2770, 0.2691, 0.2821), n_val=10000, **_TINY),
    "tiny_imagenet_20": Dataset(20, mean=(0.4926, 0.4458, 0.3958), std=(0.2801, 0.2742, 0.2841), n_val=1000, **_TINY),
    "imagenet": Dataset(1000, (224, 224, 3), **_IMAGENET, n_val=None),
    "cub200": Dataset(200, (224, 224, 3), **_IMAGENET, n_val=600, stratified=True),
    "voc2012": Dataset(21, (512, 512, 3), **_IMAGENET, n_val=146, kind="dense", test="val", void=255),
    "camvid": Dataset(11, (180, 240, 3), **_CAMVID, n_val=None, kind="dense", void=11, films=(0, 62)),
    "20newsgroups": Dataset(20, (1000,), (), (), **_NEWS),
    "20newsgroups_random": Dataset(20, (1000,), (), (), **_NEWS_AT_RANDOM),
    "20newsgroups_2000": Dataset(20, (1000,), (), (), **{**_NEWS_AT_RANDOM, "n_tokens": 2000}, closed_vocabulary=True),
}

_SUFFIXES = {"image": ("_images.npy", "_labels.npy"), "dense": ("_images.npy", "_masks.npy"), "text": (".jsonl",)}


def files(name: str) -> dict[str, list[Path]]:
    """The files of each official split in the cache; none of ``digits``, which comes with scikit-learn.

    Example:
        >>> [path.name for path in files("camvid")["val"]]
        ['val_images.npy', 'val_masks.npy']
        >>> list(files("tiny_imagenet"))
        ['train', 'val']
    """
    spec = DATASETS[check_choice("name", name, DATASETS)]
    splits = dict.fromkeys(("train", *(("val",) if spec.n_val is None else ()), spec.test)) if name != "digits" else ()
    return {
        split: [cache() / (spec.base or name) / f"{split}{end}" for end in _SUFFIXES[spec.kind]] for split in splits
    }


def available(name: str) -> bool:
    """Whether ``load_split(name, split)`` would find its files for every split."""
    return all(path.exists() for paths in files(name).values() for path in paths)


def load_split(name: str, split: SplitName, *, seed: int = 0) -> Split:
    """One split of a data set; images are a memory map where nothing was carved or brought into order.

    Where there is no validation file, ``val`` is carved from the training files: a permutation drawn with ``seed``
    gives its first ``n_val`` samples (``stratified``: the first n_val / K of every class) to ``val`` and the rest to
    ``train``, so the two never overlap. A long-tailed data set first keeps of each class as many images as ``rho``
    says, the first in that order, and permutes them again; its test split stays balanced. Where ``n_test`` is set, all
    official files are permuted together, and the last ``n_test`` messages are ``test``.

    Copies of CIFAR and of ``tiny_imagenet_20`` differ in the order of their images. They are first brought into the
    same one, so every lossless copy gives the same splits in the same order: see :mod:`calibkit.data.order`. The
    CIFAR-10 and CIFAR-100 test images are then sorted by class: take some of them with :func:`subset`.

    Raises:
        ValueError: an unknown name or split, a seed that is no integer >= 0, or files that lack official images or have
            others.
        FileNotFoundError: the cache lacks the files; the message says the command that makes them.

    Example:
        >>> images, labels = load_split("digits", "test")
        >>> images.shape, labels[:4].tolist()
        ((497, 8, 8, 1), [2, 5, 4, 4])
    """
    spec = DATASETS[check_choice("name", name, DATASETS)]
    check_choice("split", split, get_args(SplitName))
    seed = check_int("seed", seed, 0)
    if name == "digits":
        return _digits(split, seed)
    inputs, labels = _read(name, spec.test if split == "test" else "train" if spec.n_val else split)
    if spec.n_val and (split != "test" or spec.n_test):
        chosen = _carve(spec, labels, split, seed)
        inputs = [inputs[i] for i in chosen] if spec.kind == "text" else inputs[chosen]
        labels = labels[chosen]
    if spec.kind == "text":
        inputs = texts.encode(inputs, vocabulary(name, seed=seed), *spec.shape)
    if spec.kind == "dense":
        labels = np.where(labels == spec.void, np.int16(IGNORE), labels)
    return Split(inputs, labels)


def vocabulary(name: str, *, seed: int = 0) -> tuple[str, ...]:
    """The V = ``n_tokens`` words of the token ids of a text data set: padding, unknown, then the most frequent words.

    They are counted on the training split that ``seed`` carves, so nothing of ``val`` and ``test`` enters; where the
    data set has a ``closed_vocabulary``, on all messages, and there is no token for unknown words.

    Raises ValueError of a data set of another kind, and FileNotFoundError where the cache lacks the files.
    """
    if DATASETS[check_choice("name", name, DATASETS)].kind != "text":
        raise expected("name", "a data set of kind text", repr(name))
    return _vocabulary(name, check_int("seed", seed, 0), cache())


@lru_cache(maxsize=2)
def _vocabulary(name: str, seed: int, folder: Path) -> tuple[str, ...]:
    messages, labels = _read(name, "train")
    spec = DATASETS[name]
    if spec.closed_vocabulary:
        return texts.vocabulary(messages, spec.n_tokens, unknown=())
    return texts.vocabulary((messages[i] for i in _carve(spec, labels, "train", seed)), spec.n_tokens)


def _carve(spec: Dataset, labels: np.ndarray, split: str, seed: int) -> np.ndarray:
    """The rows of what ``_read`` gives that are ``split``, in their order there."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(labels))
    if spec.n_test:
        order, test = np.split(order, [-spec.n_test])
        if split == "test":
            return np.sort(test)
    k = spec.n_classes
    if spec.rho is not None:  # drawn anew: the first images of that order hold the tail's only ones
        n_0 = np.bincount(labels).max()
        order = rng.permutation(_first(labels, order, [int(n_0 * spec.rho ** (i / (k - 1))) for i in range(k)]))
    val = _first(labels, order, [spec.n_val // k] * k) if spec.stratified else order[: spec.n_val]
    return np.sort(val) if split == "val" else np.setdiff1d(order, val)


def _first(labels: np.ndarray, order: np.ndarray, counts: list[int]) -> np.ndarray:
    """The first ``counts[i]`` samples of every class i, in the given order."""
    shuffled = labels[order]
    kept = np.zeros(len(order), bool)
    for i, count in enumerate(counts):
        kept[np.flatnonzero(shuffled == i)[:count]] = True
    return order[kept]


def _read(name: str, split: str) -> tuple[np.ndarray | list[str], np.ndarray]:
    """What the files of an official split hold; those of all, where ``test`` is drawn from them."""
    spec, every = DATASETS[name], files(name)
    paths = [path for paths in every.values() for path in paths] if spec.n_test else every[split]
    for path in paths:
        if not path.exists():
            raise FileNotFoundError(f"{path} is missing: run `calibkit data prepare {spec.base or name}`")
    if spec.kind == "text":
        parts, labels = zip(*map(texts.messages, paths), strict=True)
        return [text for part in parts for text in part], np.concatenate(labels)
    return arranged(spec.base or name, split, paths)


def _digits(split: str, seed: int) -> Split:
    """scikit-learn's 1,797 scans of handwritten digits: 1,000 / 300 / 497."""
    with needs("sklearn"):
        from sklearn.datasets import load_digits

    bunch = load_digits()
    images = np.round(bunch.images * (255 / 16)).astype(np.uint8)[..., None]
    order = np.random.default_rng(seed).permutation(len(images))
    chosen = {"val": order[:300], "test": order[300:797], "train": order[797:]}[split]
    return Split(images[chosen], bunch.target[chosen].astype(np.int64))
