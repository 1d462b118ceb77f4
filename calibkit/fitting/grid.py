"""ECE on a grid of temperatures: the search of temperature scaling, and the start of the class-based one."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from calibkit._blocks import row_blocks
from calibkit._checks import check_real, expected
from calibkit.objectives.ece import bin_gaps

#: 0.1, 0.2, ..., 10.0: Mukhoti et al. 2020, and 0 to 10 in steps of 0.1 without the 0 in Frenkel & Goldberger 2021.
TEMPERATURES = tuple(k / 10 for k in range(1, 101))


def check_grid(grid: Sequence[float] | None) -> tuple[float, ...] | None:
    """Positive rising temperatures, as a tuple of floats; None, which stands for ``TEMPERATURES``, stays None."""
    if grid is None:
        return None
    try:
        values = tuple(float(t) for t in grid)
    except (TypeError, ValueError):
        raise expected("grid", "a sequence of temperatures", repr(grid)) from None
    if not values or any(low >= high for low, high in zip(values, values[1:], strict=False)):
        raise expected("grid", "at least one temperature, rising", repr(grid))
    return tuple(check_real("grid", t, 0.0, open_low=True) for t in values)


def lowest_ece(logits: Tensor, labels: Tensor, grid: Sequence[float], n_bins: int) -> float:
    """The temperature of the grid whose ECE is lowest; the smallest wins ties."""
    temperatures = torch.tensor(grid, dtype=torch.float64, device=logits.device)
    return grid[int(ece_of_temperatures(logits, labels, temperatures, n_bins).argmin())]


def ece_of_temperatures(logits: Tensor, labels: Tensor, grid: Tensor, n_bins: int) -> Tensor:
    """(G,) ECE of ``softmax(logits / t)`` for each t of ``grid``: float64, one blocked pass."""
    gaps = torch.zeros(len(grid), n_bins, dtype=torch.float64, device=logits.device)
    scales = (1.0 / grid).tolist()
    for rows in row_blocks(logits, 8 * max(1, len(grid) // logits.shape[1])):  # (G, n) confidences fit in cache too
        top, index = logits[rows].max(1, keepdim=True)
        s = logits[rows].double() - top
        e = torch.empty_like(s)
        totals = torch.stack([torch.mul(s, b, out=e).exp_().sum(1) for b in scales])
        correct = (index[:, 0] == labels[rows]).double()
        gaps += bin_gaps(totals.reciprocal_(), correct, n_bins)
    return gaps.abs().sum(1) / len(logits)
