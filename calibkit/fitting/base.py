"""What all calibrators share: the border checks, the fitted state, and saving it without pickle."""

from __future__ import annotations

import inspect
import os
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import ClassVar, Self, overload

import numpy as np
import torch
from torch import Tensor

from calibkit._arrays import as_given, row_blocks
from calibkit._checks import Array, check_held_out, check_int, check_logits, expected, like
from calibkit._files import read_npz, write_npz
from calibkit._progress import progress
from calibkit.fitting import file_header
from calibkit.fitting.interpolate import are_tied, first_by_logits

#: Of an entry of a fitted state: lengths, and names for a length >= 1 that entries of one name share.
Shape = tuple[int | str, ...]

#: Below it floats have ever fewer digits; and how much more than 1 the rounding of a fit may make a fraction.
LEAST_TEMPERATURE, ROUNDING = float(np.finfo(np.float64).tiny), 1e-6
SHOWN = 4  # entries of a fitted vector that ``repr`` writes out


class Fitted:
    """What is fitted and kept: constructor arguments under their own names, and the attributes in ``state``.

    A subclass names its fitted attributes in ``state``; they are ``None`` before its ``fit``, which sets ``n_classes``.
    Those in ``reported`` only tell how the fit went. Its file has the name by which ``save`` and the registry know it.
    ``classes`` are the names of the columns that it was fitted to, where these had some, without a prefix, or that of
    one column that stood for two classes; ``floor`` is what it took a probability of 0 for, where it was given
    probabilities in place of logits. Both go into its file.
    Entries in ``fractions`` are between 0 and 1. ``keeps_predictions`` says whether the class with the largest
    probability stays the one with the largest logit, whatever is fitted, also where rounding makes several equal.
    ``signed`` says that a fit, which replays what public code does, may come to temperatures and shares of any sign.

    It implements ``_probs(logits)``, the calibrated probabilities (n, K) of logits (n, K), which are not to be
    overwritten: torch operations in their dtype, on their device, and on each row by itself. They are float64, and
    what is deployed also runs them in float32, with fitted attributes that are tensors; ``as_vector`` reads either.
    It may declare ``shapes`` of entries, "K" being the number of classes, so that a state of others is not loaded.
    """

    state: ClassVar[tuple[str, ...]] = ()
    shapes: ClassVar[dict[str, Shape]] = {}
    reported: ClassVar[tuple[str, ...]] = ()
    fractions: ClassVar[tuple[str, ...]] = ()
    keeps_predictions: ClassVar[bool] = False
    signed: bool = False
    #: Whether what is deployed computes in float64: float32 does not tell apart what it looks up, or is off by 1e-6.
    looks_up: ClassVar[bool] = False

    def __init__(self) -> None:
        self._set_data(None)
        for name in self.state:
            setattr(self, name, None)

    def _set_data(self, n_classes: int | None, classes: tuple[str, ...] = ()) -> None:
        """How many classes the data of the fit have, and their names; of their kind nothing is known any more."""
        self.n_classes: int | None = n_classes
        self.classes: tuple[str, ...] = classes
        self.floor: float | None = None

    @classmethod
    def key(cls) -> str:
        """The name in ``CALIBRATORS``: that of its file."""
        return cls.__module__.rpartition(".")[2]

    def options(self) -> dict[str, object]:
        """Constructor arguments and their values."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def __repr__(self) -> str:
        """The class with the options that are not the default, and once fitted its state but for NaN.

        Example:
            >>> from calibkit import TemperatureScaling
            >>> TemperatureScaling("ece"), TemperatureScaling().fit(np.array([[2.0, 0.0]] * 4), np.array([0, 0, 0, 1]))
            (TemperatureScaling(objective='ece'), TemperatureScaling(temperature=1.82))
        """
        parameters = inspect.signature(type(self)).parameters
        given = {n: v for n, v in self.options().items() if n not in parameters or not _same(v, parameters[n].default)}
        parts = [f"{name}={value!r}" for name, value in given.items()]
        if self.n_classes is not None:
            shown = {name: _short(getattr(self, name)) for name in self.state}
            parts += [f"{name}={value}" for name, value in shown.items() if value != "nan"]
        return f"{type(self).__name__}({', '.join(parts)})"

    def check_fitted(self) -> None:
        """Raise RuntimeError before ``fit``."""
        if self.n_classes is None:
            raise RuntimeError(f"Expected `{type(self).__name__}` to be fitted, but got no call of fit() before")

    def state_dict(self) -> dict[str, np.ndarray]:
        """Fitted state as numpy arrays, less the ``classes`` and ``floor`` of ``save``; RuntimeError before ``fit``."""
        self.check_fitted()
        arrays = {"n_classes": np.asarray(self.n_classes)}
        for name in self.state:
            value = getattr(self, name)
            arrays[name] = value.cpu().numpy() if isinstance(value, Tensor) else np.asarray(value)
        return arrays

    def load_state_dict(self, arrays: dict[str, np.ndarray]) -> Self:
        """Take the state that ``state_dict`` gave; returns self.

        ValueError tells of other entries, of arrays that are not finite or of another shape than ``n_classes`` and the
        options ask for, and of numbers that no fit gives. What was fitted before stays.
        """
        wanted = {"n_classes", *self.state}
        if not isinstance(arrays, dict) or arrays.keys() != wanted:
            got = sorted(arrays) if isinstance(arrays, dict) else type(arrays).__name__
            raise expected("arrays", f"a state with the entries {sorted(wanted)}", got)
        values = {name: _numbers(name, arrays[name]) for name in self.state}
        n_classes = check_int("n_classes", np.asarray(arrays["n_classes"]).tolist(), 2)
        shapes, lengths = self._shapes(n_classes), {}
        for name, value in values.items():
            if name in shapes:
                check_shape(name, value, shapes[name], lengths)
            self._check_state(name, value)
        self._set_data(n_classes)
        for name, value in values.items():
            setattr(self, name, value.item() if value.ndim == 0 else value)
        return self

    def save(self, path: str | os.PathLike) -> Path:
        """Write options and state to ``path`` (npz, no pickle), atomically; returns the path.

        :meth:`load` reads it, and :func:`calibkit.load_calibrator` whatever class of ``CALIBRATORS`` wrote it.
        """
        known = {name: value for name in ("classes", "floor") if (value := getattr(self, name))}
        header = {"calibrator": self.key(), "class": type(self).__name__, "options": self.options()} | known
        return write_npz(path, {"header": np.asarray(file_header.header_text(header)), **self.state_dict()})

    @classmethod
    def load(cls, path: str | os.PathLike) -> Self:
        """What :meth:`save` of this class wrote to ``path``, of a class of one's own too; no pickle is read.

        ValueError tells of another file, also of another class's, and FileNotFoundError of none.

        Example:
            >>> from tempfile import TemporaryDirectory
            >>> from calibkit import TemperatureScaling
            >>> class Mine(TemperatureScaling):
            ...     pass
            >>> fitted = Mine().fit(np.array([[2.0, 0.0]] * 4), np.array([0, 0, 0, 1]))
            >>> with TemporaryDirectory() as folder:
            ...     Mine.load(fitted.save(f"{folder}/mine.npz"))
            Mine(temperature=1.82)
        """
        with file_header.reading(path, cls.__name__):
            if (header := file_header.read_header(path))["class"] != cls.__name__:
                raise ValueError(f"that of {header['class']}")
            return cls.of_file(path, header)

    @classmethod
    def of_file(cls, path: str | os.PathLike, header: dict[str, object]) -> Self:
        """The calibrator of a file whose header says that this class wrote it."""
        result = cls(**header["options"])
        result.load_state_dict(read_npz(path, ["n_classes", *result.state]))
        result.classes, result.floor = file_header.classes_and_floor(header, result.n_classes)
        return result

    def _probs(self, logits: Tensor) -> Tensor:
        """Calibrated probabilities (n, K) of logits (n, K), row by row."""
        raise NotImplementedError

    def _shapes(self, n_classes: int) -> dict[str, Shape]:
        """``shapes`` for so many classes; of a class whose options enter, a method of its own."""
        return {name: tuple(n_classes if n == "K" else n for n in of) for name, of in self.shapes.items()}

    def _check_state(self, name: str, value: np.ndarray) -> None:
        """Raise unless an entry holds what a fit gives; single numbers of ``reported`` may be NaN."""
        temperature = name in ("temperature", "temperatures")
        if (value.ndim > 0 or name not in self.reported) and not np.isfinite(value).all():
            raise expected(name, "finite", "NaN or infinity")
        if self.signed:
            return
        if temperature and not (value >= LEAST_TEMPERATURE).all():
            want = f"at least {LEAST_TEMPERATURE:.1e}" if (value > 0).all() else "positive"
            raise expected(name, want, float(value.min()))
        if name in self.fractions and not ((value >= 0) & (value <= 1 + ROUNDING)).all():
            raise expected(name, "in [0, 1]", f"{value.min():.6g} to {value.max():.6g}")


class Calibrator(Fitted):
    """Base of all calibrators on logits: ``fit(logits, labels)``, then ``calibrator(logits) -> probs``.

    ValueError tells of bad input, and of an option that is unknown or out of the range that its text states;
    RuntimeError of a call before ``fit``. A subclass implements ``_fit(logits, labels)`` on checked tensors and
    ``_probs(logits)`` on a block of rows.
    """

    def fit(self, logits: Array, labels: Array) -> Self:
        """Fit on held-out logits (N, K) and labels (N,); returns self. On a terminal a long fit shows how far it is.

        Logits z (N,) are those of class 1 of two, and stand for the columns 0 and z. A fit that fails or is interrupted
        leaves what was fitted before. Inside ``torch.inference_mode`` and ``torch.autocast`` it is the same as outside.
        """
        z, y = check_held_out(logits, labels)
        before = vars(self).copy()
        try:
            with (
                torch.inference_mode(False),
                without_autocast(z.device.type),
                progress(f"{type(self).__name__} on {len(z):,} x {z.shape[1]:,}"),
            ):
                z, y = (x.clone() if x.is_inference() else x for x in (z, y))
                self._fit(z, y)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise
        self._set_data(z.shape[1], file_header.names_of(getattr(logits, "columns", ()), z.shape[1]))
        return self

    @overload
    def __call__(self, logits: np.ndarray) -> np.ndarray: ...
    @overload
    def __call__(self, logits: Tensor) -> Tensor: ...
    def __call__(self, logits: Array) -> Array:
        """Calibrated probabilities (N, K) in float64, in the container and on the device of ``logits``.

        Logits (N,) of class 1 get the probabilities (N,) of class 1, and (N, 1) likewise. Columns of a table that are
        called as ``classes`` must stand in their order.

        Example:
            >>> from calibkit import TemperatureScaling
            >>> z, y = np.array([2.0, 2.0, 2.0, 2.0]), np.array([1, 1, 1, 0])
            >>> TemperatureScaling().fit(z, y)(z).round(6).tolist()
            [0.75, 0.75, 0.75, 0.75]
        """
        z = self._checked(logits)
        probs = torch.empty(z.shape, dtype=torch.float64, device=z.device)
        for rows in row_blocks(z):
            block = z[rows].double()
            p = self._probs(block if self.floor is None else block.log_softmax(1))  # like those of the fit
            probs[rows] = first_by_logits(p, block) if self.keeps_predictions and are_tied(p) else p
        return like(as_given(probs, logits), logits)

    def _checked(self, logits: Array) -> Tensor:
        """Logits (N, K) of as many classes as in ``fit``, which must have been called."""
        self.check_fitted()
        z = check_logits(logits)
        file_header.check_order(getattr(logits, "columns", ()), self.classes)
        if z.shape[1] != self.n_classes:
            raise expected("logits", f"of shape (N, {self.n_classes}) as in fit()", f"shape {tuple(np.shape(logits))}")
        return z

    def _fit(self, logits: Tensor, labels: Tensor) -> None:
        """Set the fitted attributes from (N, K) float32 or float64 logits and (N,) int64 labels."""
        raise NotImplementedError


def without_autocast(device: str) -> AbstractContextManager:
    """No autocast, which multiplies matrices in half precision; not even its end is in an export that had none."""
    return torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else nullcontext()


def _numbers(name: str, entry: object) -> np.ndarray:
    """An entry to compute with: a new array of float64, whatever numbers it was; single whole numbers as they are."""
    value = np.asarray(entry)
    if value.dtype.kind not in "biuf":
        raise expected(name, "numbers", f"dtype {value.dtype}")
    with np.errstate(over="ignore"):  # an extended one may be infinite then
        return value.astype(np.float64) if value.ndim or value.dtype.kind == "f" else value


def check_shape(name: str, value: np.ndarray | Tensor, shape: Shape, lengths: dict[str, int]) -> None:
    """Raise unless an entry has its shape; ``lengths`` takes what names in it stand for, for the entries to come."""
    if value.ndim == len(shape):
        sizes = zip(shape, value.shape, strict=True)
        shape = tuple(lengths.setdefault(n, max(size, 1)) if isinstance(n, str) else n for n, size in sizes)
    if tuple(value.shape) != shape:
        raise expected(name, f"of shape ({', '.join(map(str, shape))})", f"shape {tuple(value.shape)}")


def _same(value: object, default: object) -> bool:
    """Whether an option has its default value."""
    return type(value) is type(default) and bool(np.all(value == default))


def _short(value: object) -> str:
    """A fitted attribute in a few characters."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if not isinstance(value, np.ndarray):
        return repr(value)
    if value.size > SHOWN:
        return f"<{' x '.join(map(str, value.shape))} array>"
    return repr([float(f"{x:.4g}") for x in value.ravel()])


def as_vector(value: object, like_tensor: Tensor) -> Tensor:
    """A fitted attribute, numpy or tensor, in the dtype and on the device of ``like_tensor``."""
    return torch.as_tensor(value, dtype=like_tensor.dtype, device=like_tensor.device)
