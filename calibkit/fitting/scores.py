"""Pieces of the calibrators that recalibrate single probabilities: interpolation, and rows that sum to 1 again."""

from __future__ import annotations

import torch
from torch import Tensor


def interpolate(x: Tensor, nodes: Tensor, values: Tensor) -> Tensor:
    """Piecewise linear through (nodes, values), constant outside: (..., n) at x (..., n) for nodes (..., M) that rise.

    Of equal nodes the first counts.

    Example:
        >>> interpolate(torch.tensor([0.0, 1.5, 9.0]), torch.tensor([1.0, 2.0]), torch.tensor([10.0, 30.0])).tolist()
        [10.0, 20.0, 30.0]
    """
    right = torch.searchsorted(nodes, x.contiguous()).clamp(max=nodes.shape[-1] - 1)
    left = (right - 1).clamp(min=0)
    start, end = nodes.gather(-1, left), nodes.gather(-1, right)
    share = torch.where(end > start, (x - start) / (end - start), 1.0).clamp(0.0, 1.0)
    return torch.lerp(values.gather(-1, left), values.gather(-1, right), share)


def normalize(scores: Tensor, probs: Tensor) -> Tensor:
    """Non-negative scores (n, K) divided by their row sums; a row of zeros gives way to that of ``probs``."""
    total = scores.sum(1, keepdim=True)
    return torch.where(total > 0, scores / total, probs)
