"""ECE on a grid of temperatures: the search of temperature scaling, and the start of the class-based one."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from numbers import Real

import torch
from torch import Tensor

from calibkit._arrays import row_blocks
from calibkit._checks import check_bins, check_real, expected
from calibkit.objectives import Objective
from calibkit.objectives.ece import bin_gaps

HIGHEST, FINEST = 10.0, 1e-4  # temperature, and step, of a grid that is given by its step
BINS = 15  # of the ECE where nothing is said: Guo et al. 2017
ROUNDING = 1e-12  # of an ECE, and more


def multiples(step: float) -> tuple[float, ...]:
    """The temperatures ``step``, ``2 step``, ... up to ``HIGHEST``."""
    return tuple(round(k * step, 12) for k in range(1, int(HIGHEST / step + 1e-9) + 1))


#: 0.1, 0.2, ..., 10.0: Mukhoti et al. 2020, and 0 to 10 in steps of 0.1 without the 0 in Frenkel & Goldberger 2021.
TEMPERATURES = multiples(0.1)


def check_grid(grid: Sequence[float] | float | None) -> tuple[float, ...] | float | None:
    """Positive rising temperatures, as a tuple of floats; or their step, a float; None stays None."""
    if grid is None:
        return None
    if isinstance(grid, Real) and not isinstance(grid, bool):
        return check_real("grid", grid, FINEST, HIGHEST)
    try:
        values = tuple(float(t) for t in (None if isinstance(grid, str | bytes) else grid))
    except (TypeError, ValueError):
        raise expected("grid", "a sequence of temperatures, or their step", repr(grid)) from None
    if not values or any(low >= high for low, high in zip(values, values[1:], strict=False)):
        raise expected("grid", "at least one temperature, rising", repr(grid))
    return tuple(check_real("grid", t, 0.0, open_low=True) for t in values)


def grid_temperatures(grid: tuple[float, ...] | float | None) -> tuple[float, ...]:
    """The temperatures of a checked grid: those given, the multiples of a step up to 10, or ``TEMPERATURES``."""
    if grid is None:
        return TEMPERATURES
    return multiples(grid) if isinstance(grid, float) else grid


def check_own_bins(n_bins: int, objective: str | Objective) -> int:
    """Bins of the objective ``"ece"``; beside an object, which has its own, any but the default are refused."""
    if isinstance(objective, Objective) and check_bins(n_bins) != BINS:
        raise expected("n_bins", "left out beside an objective object, which has its own options", n_bins)
    return check_bins(n_bins)


def lowest_ece(logits: Tensor, labels: Tensor, grid: Sequence[float], n_bins: int) -> float:
    """The temperature of the grid whose ECE is lowest; the smallest wins ties.

    The ECE is no less than ``|mean confidence - accuracy|``, and the mean confidence falls as T rises: so between two
    temperatures looked at it is no less than either says. The grid is halved where that is not above the lowest so far.
    A RuntimeWarning tells where it is the highest of several.
    """
    temperatures = torch.tensor(grid, dtype=torch.float64, device=logits.device)
    rows = row_blocks(logits, 8 * max(1, len(grid) // logits.shape[1]))  # (G, n) confidences fit in cache too
    eces, gaps = torch.full((2, len(grid)), torch.inf, dtype=torch.float64, device="cpu")
    wanted, between = [0, len(grid) - 1], [(0, len(grid) - 1)]
    while wanted:
        sums = gaps_of_temperatures(logits, labels, temperatures[wanted], n_bins, rows).cpu() / len(logits)
        eces[wanted], gaps[wanted] = sums.abs().sum(1), sums.sum(1)
        lowest = float(eces.min()) + ROUNDING
        between = [(a, b) for a, b in between if b - a > 1 and max(-gaps[a], gaps[b]) <= lowest]
        wanted = [(a + b) // 2 for a, b in between]
        between = [part for (a, b), c in zip(between, wanted, strict=True) for part in ((a, c), (c, b))]
    best = grid[int(eces.argmin())]
    if len(grid) > 1 and best == grid[-1]:
        text = f"the ECE is lowest at T = {best:g}, the end of the grid: it may be lower beyond"
        warnings.warn(text, RuntimeWarning, stacklevel=4)
    return best


def gaps_of_temperatures(
    logits: Tensor, labels: Tensor, temperatures: Tensor, n_bins: int, slices: Sequence[slice]
) -> Tensor:
    """(G, n_bins) sums of confidence - correct of ``softmax(logits / t)`` for each of G t, in one blocked pass."""
    gaps = torch.zeros(len(temperatures), n_bins, dtype=torch.float64, device=logits.device)
    scales = (1.0 / temperatures).tolist()
    e = torch.empty(slices[0].stop, logits.shape[1], dtype=torch.float64, device=logits.device)
    s = torch.empty_like(e)
    for rows in slices:
        n = rows.stop - rows.start
        top, index = logits[rows].max(1, keepdim=True)
        torch.sub(s[:n].copy_(logits[rows]), top, out=s[:n])
        totals = torch.stack([torch.mul(s[:n], b, out=e[:n]).exp_().sum(1) for b in scales])
        correct = (index[:, 0] == labels[rows]).double()
        gaps += bin_gaps(totals.reciprocal_(), correct, n_bins)
    return gaps
