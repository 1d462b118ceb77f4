"""The cross-entropy of every row, and the base of all objectives.

Passes over the logits are blocked: float64 arithmetic on cache-sized blocks of float32 or float64 rows, so that only
(N,) vectors and a few blocks live at a time, whatever N and K are. The package's text says how calibrators use them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from calibkit._arrays import row_blocks
from calibkit._checks import Array, check_held_out

LOG2_E = 1 / math.log(2)  # torch's powers of 2 are faster than those of e

#: Calibrated logits of a block: ``forward(x, z) -> u``, a new tensor; z (n, K) is float64 and is left as it is.
Forward = Callable[[Tensor, Tensor], Tensor]


def cross_entropy(u: Tensor, labels: Tensor, smoothing: float = 0.0) -> Tensor:
    """(n,) ``logsumexp(u) - t . u`` for targets ``(1 - smoothing) onehot + smoothing / K``."""
    target = u.gather(1, labels[:, None])[:, 0]
    if smoothing:
        target = torch.lerp(target, u.mean(1), smoothing)
    return torch.logsumexp(u, 1) - target


def cross_entropy_grad(u: Tensor, labels: Tensor, smoothing: float = 0.0) -> tuple[Tensor, Tensor]:
    """The cross-entropies (n,) and their gradients by u, ``softmax(u) - t``, which overwrite ``u``."""
    u -= u.amax(1, keepdim=True)
    target = u.gather(1, labels[:, None])
    if smoothing:
        target = torch.lerp(target, u.mean(1, keepdim=True), smoothing)
    p = u.mul_(LOG2_E).exp2_()
    total = p.sum(1, keepdim=True)
    p /= total
    if smoothing:
        p -= smoothing / p.shape[1]
    p.scatter_add_(1, labels[:, None], p.new_full((len(p), 1), smoothing - 1.0))
    return (total.log_() - target)[:, 0], p


def losses(
    logits: Tensor, labels: Tensor, x: Tensor | None = None, forward: Forward | None = None, smoothing: float = 0.0
) -> Tensor:
    """(N,) cross-entropies of the calibrated logits ``forward(x, z)``, or of ``logits`` as they are."""
    ce = torch.empty(len(logits), dtype=torch.float64, device=logits.device)
    for rows in row_blocks(logits):
        z = logits[rows].double()
        ce[rows] = cross_entropy(z if forward is None else forward(x, z), labels[rows], smoothing)
    return ce


@dataclass(frozen=True)
class Objective:
    """Base of all objectives: cross-entropy per sample, an elementwise map of it, and weights."""

    smooth: ClassVar[bool] = True  #: whether it has a gradient; else it is searched on a grid
    convex: ClassVar[bool] = True  #: in the calibrated logits, so that temperature scaling has one minimum
    adaptive: ClassVar[bool] = False  #: whether ``weights`` depends on the losses, so that the fit is a fixed point
    smoothing: ClassVar[float] = 0.0  #: share alpha of the target that is spread evenly over all classes

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
        return torch.where(total > 0, weights / total, 1 / len(weights))

    def value(self, logits: Array, labels: Array) -> float:
        """The objective of these logits as they are: ``sum_i weights_i * phi(ce_i)``."""
        z, y = check_held_out(logits, labels)
        ce = losses(z, y, smoothing=self.smoothing)
        return float(self.weights(ce, y, z.shape[1]) @ self.transform(ce)[0])
