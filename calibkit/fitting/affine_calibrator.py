"""What vector scaling, matrix scaling and the ODIR methods share: options, fit, and the choice of their penalties."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor

from calibkit._checks import check_int, check_real, expected
from calibkit.fitting import affine
from calibkit.fitting.affine import Ridge
from calibkit.fitting.affine_descent import fit_affine
from calibkit.fitting.base import Calibrator, Shape, as_vector
from calibkit.fitting.cross_validation import OutOfFold, Strengths, search
from calibkit.fitting.never_worse import no_worse
from calibkit.fitting.temperature import fit_temperature
from calibkit.objectives import Objective, SmoothName, get

LARGEST = 2.0**50  # logit: those of masked classes can be too large to square, in float32 too; they come no nearer


class AffineCalibrator(Calibrator):
    """``softmax(W f(z) + b)`` with a ridge penalty; see the subclasses.

    A subclass has one constructor argument for each name in ``penalties``, None where cross-validation is to choose,
    and one fitted attribute ``chosen_<name>`` for each.
    """

    state = ("weights", "bias", "chosen_lam", "fell_back", "cv_loss", "cv_loss_temperature")
    reported = state[2:]
    penalties: ClassVar[tuple[str, ...]] = ("lam",)
    diagonal: ClassVar[bool] = False

    def __init__(self, objective: SmoothName | Objective, n_folds: int, **penalties: float | None) -> None:
        super().__init__()
        self.objective, self.n_folds = objective, check_int("n_folds", n_folds, 2)
        for name, value in penalties.items():
            setattr(self, name, None if value is None else check_real(name, value, 0.0))
        get(objective, smooth=True)

    def _features(self, logits: Tensor) -> Tensor:
        """What W is applied to, in the dtype of ``logits``: they themselves, within bounds that only masks exceed."""
        return logits.clamp(-LARGEST, LARGEST)

    def _strongest(self, n_classes: int) -> Strengths:
        """The strongest penalties of the search."""
        raise NotImplementedError

    def _ridge(self, strengths: Strengths, start: Tensor) -> Ridge | None:
        """The penalty of these strengths; ``start`` are the parameters of temperature scaling."""
        raise NotImplementedError

    def _shapes(self, n_classes: int) -> dict[str, Shape]:
        return affine.shapes(n_classes, diagonal=self.diagonal)

    def _fit(self, logits: Tensor, labels: Tensor) -> None:
        given = tuple(getattr(self, name) for name in self.penalties)
        if None in given and len(labels) < self.n_folds:
            raise expected(
                "logits", f"at least {self.n_folds} rows, to choose a penalty by cross-validation", len(labels)
            )
        objective, z = get(self.objective, smooth=True), self._features(logits)
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
            self.fell_back = no_worse(objective, z, labels, x, start, affine.apply) is start
        if self.fell_back:
            x, strengths = start, (math.inf,) * len(given)
        for name, value in zip(self.penalties, strengths, strict=True):
            setattr(self, f"chosen_{name}", value)
        self.weights, self.bias = affine.arrays(x)

    def _probs(self, logits: Tensor) -> Tensor:
        weights, bias = as_vector(self.weights, logits), as_vector(self.bias, logits)
        return affine.transform(self._features(logits), weights, bias).softmax(1)


def ridge_to_temperature(lam: float, start: Tensor) -> Ridge | None:
    """``lam / K * (|T W - I|^2 + |b|^2)``, the relative distance from temperature scaling, that is from ``start``."""
    if lam == 0.0:
        return None
    strength = torch.full_like(start, lam / len(start))
    strength[:, :-1] /= float(start[0, 0]) ** 2
    return Ridge(strength, start)
