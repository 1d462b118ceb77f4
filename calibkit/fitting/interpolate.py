"""Pieces of calibrators: interpolation, of probabilities and of losses, knots, rows that sum to 1, and ties."""

from __future__ import annotations

import torch
from torch import Tensor

from calibkit._arrays import row_blocks
from calibkit.fitting.temperature import moments, softmax_at

#: Width of a cell, in log T. The worst row of 25,000 x 1,000 is right to 1e-8 nats, the mean of all rows to 1e-11.
CELL = 1 / 16


def interpolate(x: Tensor, nodes: Tensor, values: Tensor) -> Tensor:
    """Piecewise linear through (nodes, values), constant outside: (..., n) at x (..., n) for nodes (..., M) that rise.

    Of equal nodes the first counts.
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


class RowLosses:
    """The cross-entropy of each row and its slope, by log inverse temperature, to be asked for many times in a fit.

    A row's loss depends on its temperature alone. So it is computed at the two ends of the cell that the temperature
    lies in, with two derivatives, and inside the cell it is the polynomial of degree five through these. A pass over
    the K logits is left to the rows that come to another cell; as a fit moves on these are few. ``smoothing`` is that
    of the targets.
    """

    def __init__(self, logits: Tensor, labels: Tensor, smoothing: float = 0.0) -> None:
        self.logits, self.labels, self.smoothing = logits, labels, smoothing
        self.cell = torch.full((len(logits),), torch.nan, dtype=torch.float64, device=logits.device)
        self.polynomial = torch.empty(6, len(logits), dtype=torch.float64, device=logits.device)

    def __call__(self, x: Tensor, rows: slice = slice(None)) -> tuple[Tensor, Tensor]:
        """(n,) cross-entropies of ``exp(x) * logits`` for ``rows``, and their derivatives by x (n,) float64."""
        x = x / CELL
        cell = x.floor()
        moved = (cell != self.cell[rows]).nonzero()[:, 0]
        if len(moved):
            self._enter(moved + (rows.start or 0), cell[moved])
        x -= cell
        *lower, value = self.polynomial[:, rows]
        slope = torch.zeros_like(value)
        for coefficient in reversed(lower):
            slope = slope.mul_(x).add_(value)
            value = coefficient.addcmul(value, x)
        return value, slope.div_(CELL)

    def _enter(self, index: Tensor, cell: Tensor) -> None:
        """Put the rows of ``index`` in their new cells."""
        self.cell[index] = cell
        for part in row_blocks(self.logits, n_rows=len(index)):
            rows, left = index[part], cell[part]
            z, labels = self.logits[rows], self.labels[rows]
            (p, v, a), (q, w, b) = (self._at(z, labels, (left + end) * CELL) for end in (0, 1))
            rise = q - p
            third = 10 * rise - 6 * v - 4 * w - (3 * a - b) / 2
            fourth = -15 * rise + 8 * v + 7 * w + (3 * a - 2 * b) / 2
            fifth = 6 * rise - 3 * (v + w) - (a - b) / 2
            self.polynomial[:, rows] = torch.stack([p, v, a / 2, third, fourth, fifth])

    def _at(self, logits: Tensor, labels: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Losses at x (n,) and two derivatives by x, in units of a cell."""
        b = x.exp()
        ce, first, second = moments(logits, labels, b, self.smoothing)
        slope = b * first
        return ce, CELL * slope, CELL**2 * (slope + b * b * second)
