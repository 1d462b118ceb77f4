"""What the calibrators with an affine map share: options, fit, and the choice of their penalties.

Vector scaling, matrix scaling and the ODIR methods map logits, and look for the strength of their penalty; structured
vector and matrix scaling map smoothed log-probabilities, under a penalty that needs no tuning.
"""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor

from calibkit._arrays import row_blocks
from calibkit._checks import check_int, check_real, expected
from calibkit.fitting import affine
from calibkit.fitting.affine import Ridge
from calibkit.fitting.affine_fit import OutOfFold, Strengths, fit_affine, search
from calibkit.fitting.base import Calibrator, Shape, as_vector
from calibkit.fitting.smooth import is_no_worse
from calibkit.fitting.temperature import fit_temperature
from calibkit.objectives import Objective, SmoothName, get

LARGEST = 2.0**50  # logit: those of masked classes can be too large to square, in float32 too; they come no nearer


class AffineMap(Calibrator):
    """``softmax(W f(z) + b)`` under an objective that has a gradient; W is diagonal or full."""

    diagonal: ClassVar[bool] = False

    def __init__(self, objective: SmoothName | Objective) -> None:
        super().__init__()
        self.objective = objective
        get(objective, smooth=True)

    def _features(self, logits: Tensor) -> Tensor:
        """What W is applied to, in the dtype of ``logits``."""
        raise NotImplementedError

    def _shapes(self, n_classes: int) -> dict[str, Shape]:
        arrays = {"weights": (n_classes,) * (1 if self.diagonal else 2), "bias": (n_classes,)}
        return {name: arrays.get(name, ()) for name in self.state if name not in self.reported}

    def _probs(self, logits: Tensor) -> Tensor:
        weights, bias = as_vector(self.weights, logits), as_vector(self.bias, logits)
        return affine.transform(self._features(logits), weights, bias).softmax(1)


class AffineCalibrator(AffineMap):
    """An affine map of the logits, shrunk to temperature scaling unless a subclass has a ridge of its own.

    For each name in ``penalties`` there is an option, None where cross-validation is to choose, and a fitted attribute
    ``chosen_<name>``. The search goes down from the ``strongest``.
    """

    state = ("weights", "bias", "chosen_lam", "fell_back", "cv_loss", "cv_loss_temperature")
    reported = state[2:]
    penalties: ClassVar[tuple[str, ...]] = ("lam",)
    strongest: ClassVar[Strengths]

    def __init__(self, objective: SmoothName | Objective = "nll", *, lam: float | None = 0.0, n_folds: int = 5) -> None:
        super().__init__(objective)
        self.n_folds = check_int("n_folds", n_folds, 2)
        self.lam = None if lam is None else check_real("lam", lam, 0.0)

    def _features(self, logits: Tensor) -> Tensor:
        """They themselves, within bounds that only masks exceed."""
        return logits.clamp(-LARGEST, LARGEST)

    def _strongest(self, n_classes: int) -> Strengths:
        """``strongest``, or for so many classes, of a class whose penalty depends on them."""
        return self.strongest

    def _ridge(self, strengths: Strengths, start: Tensor) -> Ridge | None:
        """``lam / K * (|T W - I|^2 + |b|^2)``, a relative distance from temperature scaling, which is ``start``."""
        (lam,) = strengths
        if lam == 0.0:
            return None
        strength = torch.full_like(start, lam / len(start))
        strength[:, :-1] /= float(start[0, 0]) ** 2
        return Ridge(strength, start)

    def _fit(self, logits: Tensor, labels: Tensor) -> None:
        given = tuple(getattr(self, name) for name in self.penalties)
        if None in given and len(labels) < self.n_folds:
            want = f"at least {self.n_folds} rows, to choose a penalty by cross-validation"
            raise expected("logits", want, len(labels))
        objective, z = get(self.objective), self._features(logits)
        temperature = fit_temperature(objective, z, labels)
        x = start = affine.scaled_identity(1 / temperature, z, diagonal=self.diagonal)
        strengths, self.fell_back, self.cv_loss, self.cv_loss_temperature = given, False, math.nan, math.nan
        if None in given:
            strongest = tuple(s if g is None else g for s, g in zip(self._strongest(z.shape[1]), given, strict=True))
            folds = OutOfFold(objective, z, labels, temperature, self._ridge, self.n_folds, diagonal=self.diagonal)
            strengths, self.cv_loss = search(folds.loss, strongest, tuple(g is None for g in given))
            self.cv_loss_temperature = folds.temperature_loss
            self.fell_back = folds.temperature_loss <= self.cv_loss
            x = torch.stack(folds.latest).mean(0)
        if not self.fell_back:
            x = fit_affine(objective, z, labels, x, self._ridge(strengths, start))
            self.fell_back = not is_no_worse(objective, z, labels, x, start, affine.apply)
        if self.fell_back:
            x, strengths = start, (math.inf,) * len(given)
        for name, value in zip(self.penalties, strengths, strict=True):
            setattr(self, f"chosen_{name}", value)
        self.weights, self.bias = affine.arrays(x)


class StructuredCalibrator(AffineMap):
    """An affine map of smoothed log-probabilities, shrunk to temperature scaling; see the subclasses."""

    state, reported = ("temperature", "smoothing", "weights", "bias", "fell_back"), ("fell_back",)

    def __init__(self, objective: SmoothName | Objective = "nll", *, lam: float = 1.0) -> None:
        super().__init__(objective)
        self.lam = check_real("lam", lam, 0.0)

    def _fit(self, logits: Tensor, labels: Tensor) -> None:
        objective = get(self.objective)
        self.temperature, self.smoothing = fit_temperature(objective, logits, labels), 1 / (len(labels) + 1)
        f = torch.empty_like(logits)
        for rows in row_blocks(logits):
            f[rows] = self._features(logits[rows].double())
        start = affine.scaled_identity(1.0, f, diagonal=self.diagonal)
        x = fit_affine(objective, f, labels, start, self._ridge(start, len(labels)))

        def calibrated(x: Tensor, z: Tensor) -> Tensor:
            """By the parameters of the map, or by a temperature alone."""
            return z / x if x.ndim == 0 else affine.apply(x, self._features(z))

        single = torch.tensor(self.temperature, dtype=torch.float64, device=logits.device)
        self.fell_back = not is_no_worse(objective, logits, labels, x, single, calibrated)
        self.smoothing = 0.0 if self.fell_back else self.smoothing
        self.weights, self.bias = affine.arrays(start if self.fell_back else x)

    def _features(self, logits: Tensor) -> Tensor:
        """Log-probabilities of temperature scaling, a share ``smoothing`` of them spread over all classes; finite."""
        s, least = self.smoothing, torch.finfo(logits.dtype).tiny
        return ((1 - s) * (logits / self.temperature).softmax(1) + s / logits.shape[1]).clamp(min=least).log()

    def _ridge(self, start: Tensor, n_rows: int) -> Ridge | None:
        """``lam K / N`` on diagonal and bias, K - 1 times that off the diagonal."""
        if self.lam == 0.0:
            return None
        k = len(start)
        strength = torch.full_like(start, self.lam * k / n_rows)
        if not self.diagonal:
            strength[:, :k] *= torch.full_like(start[:, :k], k - 1.0).fill_diagonal_(1.0)
        return Ridge(strength, start)
