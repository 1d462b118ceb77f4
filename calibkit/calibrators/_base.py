"""What all calibrators share: the border checks, the fitted state, and saving it without pickle."""

from __future__ import annotations

import inspect
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import ClassVar, Self
from zipfile import BadZipFile

import numpy as np
import torch
from torch import Tensor

from calibkit._checks import Array, check_logits, expected, like
from calibkit._io import read_npz, write_npz
from calibkit.objectives import OBJECTIVES
from calibkit.objectives._passes import row_blocks


class Calibrator:
    """Base of all post-hoc calibrators: ``fit(logits, labels)``, then ``calibrator(logits) -> probs``.

    A subclass names its fitted attributes in ``state`` and implements ``_fit(logits, labels)`` on checked tensors and
    ``_probs(logits)`` on a block of rows in float64. Constructor arguments are stored under their own names; fitted
    attributes are ``None`` before ``fit``.
    """

    state: ClassVar[tuple[str, ...]] = ()

    def __init__(self) -> None:
        self._n_classes: int | None = None
        for name in self.state:
            setattr(self, name, None)

    def fit(self, logits: Array, labels: Array) -> Self:
        """Fit on held-out logits (N, K) and labels (N,); returns self."""
        z, y = check_logits(logits, labels)
        self._fit(z, y)
        self._n_classes = z.shape[1]
        return self

    def __call__(self, logits: Array) -> Array:
        """Calibrated probabilities (N, K) in float64, in the container and on the device of ``logits``."""
        if self._n_classes is None:
            raise RuntimeError(f"Expected `{type(self).__name__}` to be fitted, but got no call of fit() before")
        z, _ = check_logits(logits)
        if z.shape[1] != self._n_classes:
            raise expected("logits", f"of shape (N, {self._n_classes}) as in fit()", f"shape {tuple(z.shape)}")
        probs = torch.empty(z.shape, dtype=torch.float64, device=z.device)
        for rows in row_blocks(z):
            probs[rows] = self._probs(z[rows].double())
        return like(probs, logits)

    def _fit(self, logits: Tensor, labels: Tensor) -> None:
        """Set the fitted attributes from (N, K) float32 or float64 logits and (N,) int64 labels."""
        raise NotImplementedError

    def _probs(self, logits: Tensor) -> Tensor:
        """Probabilities (n, K) of a block of rows (n, K) in float64, which is not to be overwritten."""
        raise NotImplementedError

    # ------------------------------------------------------------------------------------------------ state
    def options(self) -> dict[str, object]:
        """Constructor arguments and their values."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def state_dict(self) -> dict[str, np.ndarray]:
        """Fitted state as numpy arrays; raises RuntimeError before ``fit``."""
        if self._n_classes is None:
            raise RuntimeError(f"Expected `{type(self).__name__}` to be fitted, but got no call of fit() before")
        arrays = {"n_classes": np.asarray(self._n_classes)}
        for name in self.state:
            value = getattr(self, name)
            arrays[name] = value.cpu().numpy() if isinstance(value, Tensor) else np.asarray(value)
        return arrays

    def load_state_dict(self, arrays: dict[str, np.ndarray]) -> Self:
        """Take the state that ``state_dict`` gave; returns self."""
        wanted = {"n_classes", *self.state}
        if set(arrays) != wanted:
            raise expected("arrays", f"a state with the entries {sorted(wanted)}", sorted(arrays))
        self._n_classes = int(arrays["n_classes"])
        for name in self.state:
            value = np.asarray(arrays[name])
            setattr(self, name, value.item() if value.ndim == 0 else value.copy())
        return self

    def save(self, path: str | os.PathLike) -> Path:
        """Write options and state to ``path`` (npz, no pickle), atomically; returns the path."""
        from calibkit.calibrators import CALIBRATORS

        name = next(key for key, cls in CALIBRATORS.items() if cls is type(self))
        header = json.dumps({"calibrator": name, "options": self.options()}, default=_objective_to_json)
        return write_npz(path, {"header": np.asarray(header), **self.state_dict()})


def load(path: str | os.PathLike) -> Calibrator:
    """The calibrator that ``save`` wrote to ``path``."""
    from calibkit.calibrators import CALIBRATORS

    try:
        arrays = read_npz(path)
        header = json.loads(str(arrays.pop("header")), object_hook=_objective_from_json)
        cls = CALIBRATORS[header["calibrator"]]
    except (KeyError, ValueError, BadZipFile):
        raise expected("path", "a file that Calibrator.save wrote", f"{str(path)!r}") from None
    return cls(**header["options"]).load_state_dict(arrays)


def _objective_to_json(option: object) -> dict[str, object]:
    """An objective object as its name and its arguments."""
    for name, cls in OBJECTIVES.items():
        if type(option) is cls:
            return {"objective": name, "arguments": asdict(option)}
    raise expected("options", "numbers, strings, sequences of them or objectives of OBJECTIVES", repr(option))


def _objective_from_json(entry: dict[str, object]) -> object:
    return OBJECTIVES[entry["objective"]](**entry["arguments"]) if "arguments" in entry else entry


def as_vector(value: object, like_tensor: Tensor) -> Tensor:
    """A fitted numpy attribute as a float64 tensor on the device of ``like_tensor``."""
    return torch.as_tensor(value, dtype=torch.float64, device=like_tensor.device)
