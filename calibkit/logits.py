"""``Logits``, the one file format between training and calibration; and what outputs are, logits or probabilities."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Self

import numpy as np

from calibkit._checks import ROUNDED, check_held_out, check_integers, expected, to_tensor
from calibkit._files import as_path, read_folder, read_json, read_npz, write_npz

Kind = Literal["logits", "probabilities"]
ARRAYS = ("val_logits", "val_labels", "test_logits", "test_labels")


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Logits and labels of one split. It unpacks into the two: ``calibrator.fit(*data.val)``.

    Attributes:
        logits: (N, K) before softmax.
        labels: (N,) int64 in [0, K).
        groups: (N,) integers, or None; see ``Logits.test_groups``.
        given: (N, K) probabilities, zeros too, where ``logits`` are their logarithms; else None.
    """

    logits: np.ndarray
    labels: np.ndarray
    groups: np.ndarray | None = None
    given: np.ndarray | None = None

    def __repr__(self) -> str:
        return f"HeldOut of {len(self.labels)} samples, {self.logits.shape[1]} classes"

    def __iter__(self) -> Iterator[np.ndarray]:
        """Logits, then labels."""
        return iter((self.logits, self.labels))

    def __getitem__(self, i: int) -> np.ndarray:
        """Logits (0) or labels (1)."""
        return (self.logits, self.labels)[i]

    @property
    def probs(self) -> np.ndarray:
        """(N, K) probabilities: those that were given, else the softmax of the logits in float64."""
        given = self.given
        return to_tensor("logits", self.logits).double().softmax(1).numpy() if given is None else given

    @property
    def units(self) -> tuple[int, str]:
        """How many are drawn independently of each other, and what they are: "samples" or "groups"."""
        return (len(self.labels), "samples") if self.groups is None else (len(np.unique(self.groups)), "groups")

    def is_of(self, other: HeldOut) -> bool:
        """Whether the samples are those of ``other``, by their labels and groups."""
        if self.groups is None or other.groups is None:
            return self.groups is other.groups and np.array_equal(self.labels, other.labels)
        return np.array_equal(self.labels, other.labels) and np.array_equal(self.groups, other.groups)


@dataclass(frozen=True, eq=False)
class Logits:
    """A trained network's logits on held-out data: calibrators fit on ``val`` and are judged on ``test``.

    Attributes:
        val_logits: (N, K) before softmax.
        val_labels: (N,) integers in [0, K).
        test_logits: (M, K).
        test_labels: (M,).
        meta: JSON-like facts: dataset, model, loss, seed, epochs, recipe, split, accuracy, commit, torch, device.
        test_groups: (M,) integers: test samples of one number go together, as the pixels of an image or of near
            frames, and are to be resampled together. None: each by itself.

    Lists, tensors and tables become arrays, labels of whatever integer type int64, and logits z (N,) of the second of
    two classes the columns 0 and z. Two objects are equal if they are the same one, whatever they hold.

    Raises:
        ValueError: shapes that do not fit, NaN, labels out of range, probabilities in place of logits.

    Example:
        >>> z = np.array([[2.0, 0.0], [0.0, 1.0]])
        >>> data = Logits(z, np.array([0, 1]), z, np.array([0, 0]), {"dataset": "toy"})
        >>> data
        Logits of 2 val and 2 test samples, 2 classes
        >>> data.test
        HeldOut of 2 samples, 2 classes
    """

    val_logits: np.ndarray
    val_labels: np.ndarray
    test_logits: np.ndarray
    test_labels: np.ndarray
    meta: dict = field(default_factory=dict)
    test_groups: np.ndarray | None = None

    def __post_init__(self) -> None:
        """Check what is given."""
        if not isinstance(self.meta, dict) or not all(isinstance(name, str) for name in self.meta):
            raise expected("meta", "a dict with text for keys", repr(self.meta))
        for names in (ARRAYS[:2], ARRAYS[2:]):
            checked = check_held_out(getattr(self, names[0]), getattr(self, names[1]), names)
            for name, tensor in zip(names, checked, strict=True):
                given, found = getattr(self, name), tensor.cpu().numpy()
                same = isinstance(given, np.ndarray) and given.shape == found.shape  # no list, tensor or one column
                if not same or (name.endswith("labels") and given.dtype != found.dtype):
                    object.__setattr__(self, name, found)
        if self.val_logits.shape[1] != self.test_logits.shape[1]:
            raise expected("test_logits", f"of shape (M, {self.n_classes})", f"shape {self.test_logits.shape}")
        if self.test_groups is not None:
            groups = check_integers("test_groups", self.test_groups, len(self.test_logits))
            if not isinstance(self.test_groups, np.ndarray):
                object.__setattr__(self, "test_groups", groups.cpu().numpy())

    def __repr__(self) -> str:
        sizes = f"{len(self.val_labels)} val and {len(self.test_labels)} test samples"
        return f"Logits of {sizes}, {self.n_classes} classes"

    @property
    def n_classes(self) -> int:
        """The number of classes K."""
        return self.val_logits.shape[1]

    @property
    def val(self) -> HeldOut:
        """Held-out logits and labels, to fit on."""
        return HeldOut(self.val_logits, self.val_labels)

    @property
    def test(self) -> HeldOut:
        """Test logits and labels, to report on."""
        return HeldOut(self.test_logits, self.test_labels, self.test_groups)

    def save(self, path: str | os.PathLike) -> Path:
        """Write an npz without pickle, atomically; returns the path."""
        arrays = {name: getattr(self, name) for name in ARRAYS}
        if self.test_groups is not None:
            arrays["test_groups"] = self.test_groups
        try:
            meta = json.dumps(self.meta, sort_keys=True, default=_plain)
        except (TypeError, ValueError, RecursionError) as error:
            raise expected("meta", "numbers, text, lists and dicts of them", error) from error
        return write_npz(path, {**arrays, "meta": np.asarray(meta)})

    @classmethod
    def load(cls, path: str | os.PathLike) -> Self:
        """Read a Logits file, or a folder with ``val_logits.npy`` and so on; other people's files may lack ``meta``.

        Raises:
            ValueError: a damaged file; an array is missing, or any of them is not what Logits wants.
            FileNotFoundError: no such file.
        """
        names = (*ARRAYS, "test_groups", "meta")
        arrays = read_folder(path, names) if as_path(path).is_dir() else read_npz(path, names)
        missing = [name for name in ARRAYS if name not in arrays]
        if missing:
            text = f"a Logits file or a folder of .npy files, with {', '.join(ARRAYS)}"
            raise expected("path", text, f"{str(path)!r} without {', '.join(missing)}")
        meta = read_json(path, arrays.get("meta", "{}"))
        return cls(**{name: arrays[name] for name in ARRAYS}, meta=meta, test_groups=arrays.get("test_groups"))


def log_probs(probs: np.ndarray, floor: float | None = None) -> tuple[np.ndarray, float]:
    """(N, K) logarithms of probabilities, and what a zero was taken for.

    A zero counts as ``floor``, by default half the smallest above 0; or as half the smallest above 0 of its row, if
    that is less: it stays the smallest.
    """
    zeros, tiny = probs == 0, float(np.finfo(probs.dtype).tiny)
    if floor is None:
        floor = max(float(probs[~zeros].min()) / 2, tiny)
    if zeros.any():
        below = np.where(zeros, np.inf, probs).min(1, keepdims=True) / 2
        probs = np.where(zeros, np.clip(below, tiny, floor), probs)
    return np.log(probs), floor


def _plain(value: object) -> object:
    """A number of numpy as JSON has it."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(type(value).__name__)


def read_meta(path: str | os.PathLike) -> dict:
    """The ``meta`` of a Logits file, without its arrays."""
    return read_json(path, read_npz(path, ("meta",)).get("meta", "{}"))


def agreed_kind(asked: Kind | None, *said: Kind | None) -> Kind | None:
    """The kind that was asked for, or the one that names or numbers of a split or two say; None: none do."""
    kinds = sorted({*said} - {None}, key=str)
    if {*kinds} - {asked or next(iter(kinds), None)}:
        want = "of both splits" if asked is None else f"of the names, {' and '.join(map(str, kinds))}"
        raise expected("kind", f"that {want}", " and ".join(map(str, kinds)) if asked is None else repr(asked))
    return asked or next(iter(kinds), None)


def kind_of(outputs: np.ndarray) -> Kind | None:
    """What numbers (N, K) show themselves to be: below 0 are no probabilities, and logits do not sum to 1 in each row.

    Example:
        >>> kind_of(np.array([[1.0, -2.0]])), kind_of(np.array([[0.9, 0.1], [0.5, 0.5]])), kind_of(np.ones((2, 2)))
        ('logits', 'probabilities', None)
    """
    if outputs.ndim not in (1, 2) or outputs.dtype.kind not in "fiu" or not outputs.size:
        return None
    if (outputs < 0).any():  # also beside NaN
        return "logits"
    if len(outputs) == 1 or outputs.ndim == 1 or outputs.shape[1] == 1:
        return None
    return "probabilities" if np.abs(outputs.sum(1, dtype=float) - 1).max() <= ROUNDED else None


def kind_of_fit(outputs: list[np.ndarray], fitted: Kind | None) -> Kind:
    """The kind that a calibrator was ``fitted`` to; ValueError of none, and of what as many logits are hardly ever."""
    if fitted is None:
        for x in outputs:  # of numbers that are not there nothing can be told
            if not len(x):
                raise expected("outputs", "of at least one row", f"shape {x.shape}")
            check_not_missing("outputs", x)
    numbers = all(x.dtype.kind in "fiu" for x in outputs)
    percent = numbers and all(kind_of(x / 100) == "probabilities" for x in outputs)
    shares = numbers and all(x.shape >= (20,) and bool(((x >= 0) & (x <= 1)).all()) for x in outputs)
    if fitted is None or (fitted == "logits" and (percent or shares)):
        want = "logits or probabilities (--kind), as neither names nor numbers say which"
        raise expected("kind", want, "nothing" + "; rows sum to 100: percent? divide them by 100" * percent)
    return fitted


def check_not_missing(name: str, outputs: np.ndarray) -> None:
    """Refuse NaN in outputs (N, ...); the first row that has one is told."""
    holes = np.isnan(outputs) if outputs.dtype.kind == "f" and outputs.ndim else np.zeros(1)
    if len(rows := np.unique(np.nonzero(holes)[0])):
        more = f" and {len(rows) - 1} others" * (len(rows) > 1)
        raise expected(name, "without missing values", f"NaN in row {rows[0]}, from 0{more}")
