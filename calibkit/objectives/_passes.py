"""Blocked passes over the logits: float64 arithmetic on cache-sized blocks of float32 or float64 rows.

Only (N,) vectors and a few blocks of ``BLOCK_BYTES`` live at a time, whatever N and K are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from calibkit._checks import BLOCK_BYTES, blocks

if TYPE_CHECKING:
    from calibkit.objectives._base import Objective

#: Calibrated logits of a block: ``forward(x, z) -> u``, a new tensor; z (n, K) is float64 and is left as it is.
Forward = Callable[[Tensor, Tensor], Tensor]
#: ``backward(x, z, g, grad)`` adds the block's gradient to ``grad`` (shape of x) in place, where g (n, K) is dL/du.
Backward = Callable[[Tensor, Tensor, Tensor, Tensor], None]


def row_blocks(logits: Tensor, itemsize: int = 8, n_rows: int | None = None) -> list[slice]:
    """Slices for a pass over all rows (or ``n_rows``): blocks that stay in cache on a CPU, of 16 MB on a GPU."""
    block_bytes = BLOCK_BYTES if logits.device.type == "cpu" else 16 << 20
    return blocks(len(logits) if n_rows is None else n_rows, logits.shape[1], itemsize, block_bytes)


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
    p = u.exp_()
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


def value_and_grad(
    objective: Objective,
    logits: Tensor,
    labels: Tensor,
    weights: Tensor,
    x: Tensor,
    forward: Forward,
    backward: Backward,
) -> tuple[float, Tensor, Tensor]:
    """Value, gradient by ``x`` and losses of ``sum_i weights_i * phi(ce_i)`` at ``x``, in one blocked pass.

    Args:
        objective: a smooth objective.
        logits: (N, K) float32 or float64.
        labels: (N,) int64.
        weights: (N,) float64, held fixed.
        x: float64 parameters, of any shape.
        forward: gives the calibrated logits of a block, a new tensor.
        backward: adds the gradient of a block.

    Returns:
        The value, its gradient in the shape of ``x``, and the (N,) cross-entropies.
    """
    value, grad, ce = weights.new_zeros(()), torch.zeros_like(x), torch.empty_like(weights)
    for rows in row_blocks(logits):
        z = logits[rows].double()
        ce[rows], g = cross_entropy_grad(forward(x, z), labels[rows], objective.smoothing)
        phi, slope, _ = objective.transform(ce[rows])
        value += weights[rows] @ phi
        g *= (weights[rows] * slope)[:, None]
        backward(x, z, g, grad)
    return float(value), grad, ce
