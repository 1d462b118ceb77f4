"""Pieces of calibrators: interpolation, knots, rows that sum to 1 again, and of equal ones the predicted one first."""

from __future__ import annotations

import torch
from torch import Tensor

from calibkit.fitting.temperature import softmax_at


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


def knots_of_equal_weight(logits: Tensor, temperature: float, shares: Tensor) -> Tensor:
    """(M,) logits below which lie shares (M,) of the weight of all N * K, :math:`p_k (1 - p_k)` at a temperature."""
    p = softmax_at(logits.double(), temperature)
    z, order = logits.double().flatten().sort()
    weight = (p * (1 - p)).flatten()[order].cumsum(0)
    return z[torch.searchsorted(weight, shares * weight[-1]).clamp(max=len(z) - 1)]


def normalize(scores: Tensor, probs: Tensor) -> Tensor:
    """Non-negative scores (n, K) divided by their row sums; a row of zeros gives way to that of ``probs``."""
    total = scores.sum(1, keepdim=True)
    return torch.where(total > 0, scores / total, probs)


def are_tied(probs: Tensor) -> bool:
    """Whether the largest probability of some row (n, K) is that of two classes; far cheaper than an argmax.

    The comparison is written as floats, four times as fast as booleans.
    """
    return bool(torch.eq(probs, probs.amax(1, keepdim=True), out=torch.empty_like(probs)).sum() > len(probs))


def first_by_logits(probs: Tensor, logits: Tensor) -> Tensor:
    """The probabilities (n, K), where several are the largest with that of the largest logit ahead, by rounding.

    Of equal ones the first would be predicted. Two logits can be nearer to each other than any probabilities, the more
    the higher the temperature.

    Example:
        >>> logits = torch.tensor([[0.0, 1e-9], [0.0, 0.0]])
        >>> logits.softmax(1).argmax(1).tolist(), first_by_logits(logits.softmax(1), logits).argmax(1).tolist()
        ([0, 0], [1, 0])
    """
    index, (largest, first) = logits.max(1, keepdim=True)[1], probs.max(1, keepdim=True)
    own = probs.gather(1, index)
    ahead = own * (1.0 + torch.finfo(probs.dtype).eps)
    return probs.scatter(1, index, torch.where((index != first) & (own == largest), ahead, own))
