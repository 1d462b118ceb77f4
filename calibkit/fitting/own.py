"""A class of one's own that is no ``Calibrator``, as one."""

from __future__ import annotations

import inspect
import os
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from calibkit._checks import expected
from calibkit._files import read_npz
from calibkit.fitting.base import Calibrator, Fitted
from calibkit.fitting.file_header import classes_and_floor

OWN = "own_"  # before what is the object's: it may keep an ``n_classes``, too


def as_calibrator(cls: type) -> type[Fitted]:
    """``cls`` itself, or, of a class with ``fit(logits, labels)`` and ``transform(logits)``, a Calibrator by it.

    Example:
        >>> class Softmax:
        ...     def fit(self, logits, labels):
        ...         pass
        ...
        ...     def transform(self, logits):
        ...         return np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        >>> z = np.log([[0.5, 0.5], [0.75, 0.25]])
        >>> as_calibrator(Softmax)().fit(z, np.array([0, 1]))(z)[1].round(2).tolist()
        [0.75, 0.25]
    """
    if issubclass(cls, Fitted):
        return cls
    known = {"own": cls, "__module__": cls.__module__, "__doc__": cls.__doc__, "__signature__": inspect.signature(cls)}
    return type(cls.__name__, (Own,), known)


class Own(Calibrator):
    """By an object of the class ``own``, which gets copies of numpy arrays and gives (N, K) probabilities.

    Its state is the object's attributes: ``save`` writes them where they are numbers, text and arrays of them. Neither
    it nor what holds it can be pickled.
    """

    own: ClassVar[type]

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self._options, self._object = options, self.own(**options)

    def options(self) -> dict[str, object]:
        """Those that were given."""
        return self._options

    def _fit(self, logits: Tensor, labels: Tensor) -> None:
        self._object = self.own(**self._options)
        self._object.fit(logits.numpy(force=True).copy(), labels.numpy(force=True).copy())

    def _probs(self, logits: Tensor) -> Tensor:
        give = getattr(self._object, "transform", self._object)
        probs = np.asarray(give(logits.numpy(force=True).copy()))
        if probs.shape != logits.shape:
            raise expected("probs", f"of shape {tuple(logits.shape)}, as the logits", f"shape {probs.shape}")
        return torch.as_tensor(probs, dtype=logits.dtype, device=logits.device)

    def state_dict(self) -> dict[str, np.ndarray]:
        """The attributes of the object as numpy arrays, ``own_`` before their names."""
        return super().state_dict() | {OWN + name: np.asarray(value) for name, value in vars(self._object).items()}

    def load_state_dict(self, arrays: dict[str, np.ndarray]) -> Self:
        """Take the attributes that ``state_dict`` gave; returns self."""
        super().load_state_dict({"n_classes": arrays["n_classes"]})
        for name in arrays.keys() - {"n_classes"}:
            value = arrays[name].item() if arrays[name].ndim == 0 else arrays[name]
            setattr(self._object, name.removeprefix(OWN), value)
        return self

    @classmethod
    def of_file(cls, path: str | os.PathLike, header: dict[str, Any]) -> Self:
        """All arrays of the file but its header are the state."""
        result = cls(**header["options"])
        result.load_state_dict({name: array for name, array in read_npz(path).items() if name != "header"})
        result.classes, result.floor = classes_and_floor(header, result.n_classes)
        return result
