"""Blocked passes over the logits: float64 arithmetic on cache-sized blocks of float32 or float64 rows.

Only (N,) vectors and a few blocks of ``BLOCK_BYTES`` live at a time, whatever N and K are.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from calibkit._blocks import row_blocks

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
