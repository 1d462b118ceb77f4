"""What structured vector and matrix scaling share: log-probabilities to start from, a ridge that needs no tuning."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from calibkit._blocks import row_blocks
from calibkit._checks import check_real
from calibkit.fitting import affine
from calibkit.fitting.affine import Ridge
from calibkit.fitting.affine_descent import fit_affine
from calibkit.fitting.base import Calibrator, Shape, as_vector
from calibkit.fitting.never_worse import no_worse
from calibkit.fitting.temperature import fit_temperature
from calibkit.objectives import Objective, SmoothName, get


class StructuredCalibrator(Calibrator):
    """``softmax(W f(z) + b)`` on smoothed log-probabilities, shrunk to temperature scaling; see the subclasses."""

    state, reported = ("temperature", "smoothing", "weights", "bias", "fell_back"), ("fell_back",)
    diagonal: ClassVar[bool] = False

    def __init__(self, objective: SmoothName | Objective, lam: float) -> None:
        super().__init__()
        self.objective, self.lam = objective, check_real("lam", lam, 0.0)
        get(objective, smooth=True)

    def _shapes(self, n_classes: int) -> dict[str, Shape]:
        return {"temperature": (), "smoothing": (), **affine.shapes(n_classes, diagonal=self.diagonal)}

    def _fit(self, logits: Tensor, labels: Tensor) -> None:
        objective = get(self.objective, smooth=True)
        self.temperature, self.smoothing = fit_temperature(objective, logits, labels), 1 / (len(labels) + 1)
        f = torch.empty_like(logits)
        for rows in row_blocks(logits):
            f[rows] = self._features(logits[rows].double())
        start = affine.scaled_identity(1.0, f, diagonal=self.diagonal)
        x = fit_affine(objective, f, labels, start, self._ridge(start, len(labels)))

        def calibrated(x: Tensor, z: Tensor) -> Tensor:
            return z / self.temperature if x is start else affine.apply(x, self._features(z))

        x = no_worse(objective, logits, labels, x, start, calibrated)
        self.fell_back = x is start
        self.smoothing = 0.0 if self.fell_back else self.smoothing
        self.weights, self.bias = affine.arrays(x)

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

    def _probs(self, logits: Tensor) -> Tensor:
        weights, bias = as_vector(self.weights, logits), as_vector(self.bias, logits)
        return affine.transform(self._features(logits), weights, bias).softmax(1)
