"""The base of all objectives; see the package docstring for how calibrators use it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from calibkit._checks import Array, check_held_out
from calibkit.objectives import blocked_ce


@dataclass(frozen=True)
class Objective:
    """Base of all objectives: cross-entropy per sample, an elementwise map of it, and weights.

    Attributes:
        smooth: whether it has a gradient (False: searched on a grid).
        convex: whether it is convex in the calibrated logits, so that temperature scaling has one minimum.
        adaptive: whether ``weights`` depends on the losses, so that the fit is a fixed point.
        smoothing: share alpha of the target that is spread evenly over all classes.
    """

    smooth: ClassVar[bool] = True
    convex: ClassVar[bool] = True
    adaptive: ClassVar[bool] = False
    smoothing: ClassVar[float] = 0.0

    def transform(self, ce: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """phi(ce), phi'(ce) and phi''(ce), elementwise; the identity here."""
        return ce, torch.ones_like(ce), torch.zeros_like(ce)

    def weights(self, ce: Tensor, labels: Tensor, n_classes: int) -> Tensor:
        """(N,) non-negative weights at the losses ``ce``; 1/N here."""
        return torch.full_like(ce, 1.0 / len(ce))

    def shares(self, ce: Tensor, labels: Tensor, n_classes: int) -> Tensor:
        """``weights`` that sum to 1; 1/N where all of them are 0."""
        weights = self.weights(ce, labels, n_classes)
        total = weights.sum()
        return weights / total if total > 0 else torch.full_like(weights, 1 / len(weights))

    def value(self, logits: Array, labels: Array) -> float:
        """The objective of these logits as they are: ``sum_i weights_i * phi(ce_i)``."""
        z, y = check_held_out(logits, labels)
        ce = blocked_ce.losses(z, y, smoothing=self.smoothing)
        return float(self.weights(ce, y, z.shape[1]) @ self.transform(ce)[0])
