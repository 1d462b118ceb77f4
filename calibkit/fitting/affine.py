r"""Affine maps of the logits, ``u = W z + b`` with W diagonal or full: the objective, its gradient, a ridge penalty.

The parameters are one row a class: ``x[k] = (w_k, b_k)`` with a diagonal W, ``(w_k1, ..., w_kK, b_k)`` with a full one.
Passes over the logits run in float32 or float64 on blocks of rows; sums over rows are float64.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from calibkit._arrays import BLOCK_BYTES, blocks
from calibkit.objectives import Objective
from calibkit.objectives.base import LOG2_E, cross_entropy, cross_entropy_grad


@dataclass(frozen=True)
class Rows:
    """The rows of (N, K) logits that a fit sees: all, or those of ``index`` (n,); ``labels`` are theirs (n,)."""

    logits: Tensor
    labels: Tensor
    index: Tensor | None = None

    def passes(self, dtype: torch.dtype, block_bytes: int = BLOCK_BYTES) -> Iterator[tuple[slice, Tensor, Tensor]]:
        """Blocks of rows: their slice, logits in ``dtype``, not to be overwritten, and labels."""
        if self.logits.device.type != "cpu":
            block_bytes = 64 * BLOCK_BYTES
        for rows in blocks(len(self.labels), self.logits.shape[1], dtype.itemsize, block_bytes):
            z = self.logits[rows] if self.index is None else self.logits.index_select(0, self.index[rows])
            yield rows, z.to(dtype), self.labels[rows]


@dataclass(frozen=True)
class Ridge:
    """The penalty ``sum strength * (x - centre)^2``, both in the shape of x."""

    strength: Tensor
    centre: Tensor


def is_diagonal(x: Tensor) -> bool:
    """Whether x holds (w_k, b_k) for each class; K >= 2, so that a full row has three entries at least."""
    return x.shape[1] == 2


def apply(x: Tensor, z: Tensor) -> Tensor:
    """Calibrated logits of a block, a new tensor."""
    return transform(z, x[:, 0] if is_diagonal(x) else x[:, :-1], x[:, -1])


def transform(z: Tensor, weights: Tensor, bias: Tensor) -> Tensor:
    """``W z + b`` of each row of (n, K) logits, a new tensor; weights (K,) are those of a diagonal W.

    Example:
        >>> transform(torch.tensor([[1.0, 2.0]]), torch.tensor([2.0, 3.0]), torch.tensor([0.5, 0.0])).tolist()
        [[2.5, 6.0]]
    """
    return torch.addcmul(bias, z, weights) if weights.ndim == 1 else torch.addmm(bias, z, weights.T)


def arrays(x: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Weights (K,) or (K, K) and bias (K,) of the parameters, as the fitted attributes hold them.

    Example:
        >>> weights, bias = arrays(torch.tensor([[1.0, 2.0, 0.5], [3.0, 4.0, 0.0]]))
        >>> weights.tolist(), bias.tolist()
        ([[1.0, 2.0], [3.0, 4.0]], [0.5, 0.0])
    """
    columns = x.T.cpu().numpy()
    return (columns[0] if is_diagonal(x) else columns[:-1].T).copy(), columns[-1].copy()


def scaled_identity(scale: float, logits: Tensor, *, diagonal: bool) -> Tensor:
    """The parameters of ``u = scale * z``."""
    k = logits.shape[1]
    x = torch.zeros(k, 2 if diagonal else k + 1, dtype=torch.float64, device=logits.device)
    (x[:, 0] if diagonal else x.diagonal()).fill_(scale)
    return x


def losses(objective: Objective, sample: Rows, x: Tensor, dtype: torch.dtype = torch.float64) -> Tensor:
    """(n,) float64 cross-entropies of the calibrated logits, with passes in ``dtype``."""
    ce, x = torch.empty(len(sample.labels), dtype=torch.float64, device=x.device), x.to(dtype)
    for rows, z, labels in sample.passes(dtype):
        ce[rows] = cross_entropy(apply(x, z), labels, objective.smoothing).double()
    return ce


def value_and_grad(
    objective: Objective, sample: Rows, weights: Tensor, x: Tensor, ridge: Ridge | None, dtype: torch.dtype
) -> tuple[float, Tensor, Tensor]:
    """Value, gradient by x, and the (n,) cross-entropies of ``sum weights * phi(ce) + ridge`` in one blocked pass."""
    value, grad, ce = (_diagonal if is_diagonal(x) else _full)(objective, sample, weights, x, dtype)
    free = grad[:, 1:] if is_diagonal(x) else grad  # what all classes share changes nothing: all but its rounding is 0
    free -= free.mean(0)
    if ridge is not None:
        move = x - ridge.centre
        value += (ridge.strength * move.square()).sum()
        grad += 2 * ridge.strength * move
    return float(value), grad, ce


def _full(
    objective: Objective, sample: Rows, weights: Tensor, x: Tensor, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    """``value_and_grad`` without a penalty for a full W."""
    value, grad, ce = weights.new_zeros(()), torch.zeros_like(x), torch.empty_like(weights)
    x_block = x.to(dtype)
    for rows, z, labels in sample.passes(dtype, 8 * BLOCK_BYTES):
        ce[rows], g = cross_entropy_grad(apply(x_block, z), labels, objective.smoothing)
        phi, slope, _ = objective.transform(ce[rows])
        value += weights[rows] @ phi
        omega = (weights[rows] * slope).to(dtype)
        grad[:, -1] += omega @ g
        grad[:, :-1] += g.mul_(omega[:, None]).T @ z
    return value, grad, ce


def _diagonal(
    objective: Objective, sample: Rows, weights: Tensor, x: Tensor, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    """``value_and_grad`` without a penalty for a diagonal W.

    Its arithmetic is a few operations a number, so passes over memory count: the exponentials, powers of 2, are not
    divided by their sums, the weights of the rows are; and the targets are taken off at the end.
    """
    k, smoothing = len(x), objective.smoothing
    grad, ce, omega, own = torch.zeros_like(x), *torch.empty(3, len(weights), dtype=torch.float64, device=x.device)
    (scale, bias), buffer = (x.T * LOG2_E).to(dtype).contiguous(), None
    for rows, z, labels in sample.passes(dtype, 2 * BLOCK_BYTES):
        buffer = torch.empty_like(z) if buffer is None else buffer
        u = torch.addcmul(bias, z, scale, out=buffer[: len(z)])
        target = u.sub_(u.amax(1, keepdim=True)).gather(1, labels[:, None])[:, 0]
        if smoothing:
            target = torch.lerp(target, u.mean(1), smoothing)
        total = u.exp2_().sum(1)
        ce[rows] = total.log() - target / LOG2_E
        omega[rows] = weights[rows] * objective.transform(ce[rows])[1]
        own[rows] = z.gather(1, labels[:, None])[:, 0].double()
        share = (omega[rows] / total).to(dtype)
        grad[:, 1] += share @ u
        grad[:, 0] += share @ u.mul_(z)
        if smoothing:
            grad[:, 0] -= smoothing / k * (omega[rows].to(dtype) @ z)
    grad[:, 1] -= smoothing / k * omega.sum()
    targets = torch.stack([omega * own, omega], 1).mul_(1 - smoothing)
    return weights @ objective.transform(ce)[0], grad.index_add_(0, sample.labels, targets, alpha=-1), ce


def own_weights(objective: Objective, sample: Rows, x: Tensor) -> Tensor:
    """(n,) weights of the objective at x, that sum to 1."""
    ce = losses(objective, sample, x) if objective.adaptive else sample.labels.double()
    return objective.shares(ce, sample.labels, sample.logits.shape[1])
