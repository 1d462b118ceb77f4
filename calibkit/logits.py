"""``Logits``: the one file format between training and calibration."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from calibkit._checks import check_choice, check_integers, check_logits, expected
from calibkit._io import read_npz, write_npz

ARRAYS = ("val_logits", "val_labels", "test_logits", "test_labels")


@dataclass(frozen=True)
class Logits:
    """A trained network's logits on held-out data: calibrators fit on ``val`` and are judged on ``test``.

    Attributes:
        val_logits: (N, K) before softmax.
        val_labels: (N,) int64 in [0, K).
        test_logits: (M, K).
        test_labels: (M,).
        meta: JSON-like facts: dataset, model, loss, seed, epochs, recipe, split, accuracy, commit, torch, device.
        test_groups: (M,) integers: test samples of one number go together, as the pixels of an image, and are to be
            resampled together. None: each by itself.

    Raises:
        ValueError: shapes that do not fit, NaN, labels out of range.

    Example:
        >>> z = np.array([[2.0, 0.0], [0.0, 1.0]])
        >>> Logits(z, np.array([0, 1]), z, np.array([0, 0]), {"dataset": "toy"}).n_classes
        2
    """

    val_logits: np.ndarray
    val_labels: np.ndarray
    test_logits: np.ndarray
    test_labels: np.ndarray
    meta: dict = field(default_factory=dict)
    test_groups: np.ndarray | None = None

    def __post_init__(self) -> None:
        """Check the arrays."""
        check_logits(self.val_logits, self.val_labels)
        check_logits(self.test_logits, self.test_labels)
        if self.val_logits.shape[1] != self.test_logits.shape[1]:
            raise expected("test_logits", f"of shape (M, {self.n_classes})", f"shape {self.test_logits.shape}")
        if self.test_groups is not None:
            check_integers("test_groups", self.test_groups, len(self.test_logits))

    @property
    def n_classes(self) -> int:
        """K."""
        return self.val_logits.shape[1]

    @property
    def val(self) -> tuple[np.ndarray, np.ndarray]:
        """Held-out logits and labels, to fit on."""
        return self.val_logits, self.val_labels

    @property
    def test(self) -> tuple[np.ndarray, np.ndarray]:
        """Test logits and labels, to report on."""
        return self.test_logits, self.test_labels

    def save(self, path: str | os.PathLike) -> Path:
        """Write an npz without pickle, atomically; returns the path."""
        arrays = {name: getattr(self, name) for name in ARRAYS}
        if self.test_groups is not None:
            arrays["test_groups"] = self.test_groups
        return write_npz(path, {**arrays, "meta": np.asarray(json.dumps(self.meta, sort_keys=True))})


def load(path: str | os.PathLike) -> Logits:
    """Read a Logits file; other people's files may lack ``meta``.

    Raises:
        ValueError: an array is missing, or any of them is not what Logits wants.
        FileNotFoundError: no such file.
    """
    arrays = read_npz(path)
    missing = [name for name in ARRAYS if name not in arrays]
    if missing:
        raise expected("path", f"a Logits file with {', '.join(ARRAYS)}", f"{str(path)!r} without {', '.join(missing)}")
    meta = json.loads(str(arrays.get("meta", "{}")))
    return Logits(*(arrays[name] for name in ARRAYS), meta, arrays.get("test_groups"))


def zoo(folder: str | os.PathLike | None = None) -> dict[str, Path]:
    """Logits files by name, ``"<dataset>/<model>-<loss>-s<seed>"``.

    Args:
        folder: where they lie. Default: the book's own, ``book/results/logits``, beside the package in a checkout.
    """
    folder = Path(folder) if folder else Path(__file__).resolve().parents[1] / "book" / "results" / "logits"
    return {path.relative_to(folder).with_suffix("").as_posix(): path for path in sorted(folder.glob("*/*.npz"))}


def external() -> dict[str, Path]:
    """Logits files of other people's networks, ``$CALIBKIT_DATA/logits/*.npz``, by name."""
    from calibkit.data import cache

    return {path.stem: path for path in sorted((cache() / "logits").glob("*.npz"))}


def find(name: str) -> Logits:
    """The Logits of a zoo name, an external name, or a path to an npz.

    Raises:
        ValueError: none of the three; the message lists the known names.
    """
    if str(name).endswith(".npz"):
        return load(name)
    known = {**zoo(), **external()}
    return load(known[check_choice("logits", name, known)])
