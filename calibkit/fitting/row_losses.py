"""The cross-entropy of each row as a function of its own temperature, to be asked for many times in a fit.

A row's loss depends on its temperature alone. So it is computed at the two ends of the cell that the temperature lies
in, with two derivatives, and inside the cell it is the polynomial of degree five through these. A pass over the K
logits is left to the rows that come to another cell; as a fit moves on these are few.
"""

from __future__ import annotations

import torch
from torch import Tensor

from calibkit._blocks import row_blocks
from calibkit.fitting.temperature import moments

#: Width of a cell, in log T. The worst row of 25,000 x 1,000 is right to 1e-8 nats, the mean of all rows to 1e-11.
CELL = 1 / 16


class RowLosses:
    """Cross-entropies of rows and their slopes, by log inverse temperature; ``smoothing`` is that of the targets."""

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
