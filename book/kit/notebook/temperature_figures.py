"""Figures of the chapters on temperatures: the ECE of every temperature, and temperatures that were found twice."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from calibkit import plots
from calibkit._checks import Array, expected, to_tensor
from calibkit.metrics import ece
from calibkit.plots.style import axes_of


def chosen_temperatures(logits: Array, labels: Array, choices: Mapping[str, float], *, n_bins: int = 15) -> Figure:
    """ECE of every temperature, in percent, and below it a row for each temperature that somebody chose, by name.

    Of logits (N, K) and labels (N,). The curve goes from a tenth below the lowest choice to a tenth above the highest.
    ValueError tells of no choice, and of a temperature that is not positive.
    """
    if not choices or min(choices.values()) <= 0:
        raise expected("choices", "temperatures larger than 0", choices)
    z, y = to_tensor("logits", logits).double(), torch.as_tensor(labels)
    grid = np.linspace(0.9 * min(choices.values()), 1.1 * max(choices.values()), 80)
    figure, (above, below) = plt.subplots(
        2, 1, sharex=True, figsize=(6.5, 2.6 + 0.22 * len(choices)), height_ratios=(2.0, 0.22 * len(choices))
    )
    errors = {t: 100 * ece((z / t).softmax(1), y, n_bins=n_bins) for t in (*grid, *choices.values())}
    above.plot(grid, [errors[t] for t in grid], color=plots.BLACK)
    for row, t in enumerate(choices.values()):
        above.plot(t, errors[t], "o", color=plots.BLUE)
        below.plot(t, row, "o", color=plots.BLUE)
        below.annotate(f"{t:.3f}", (t, row), xytext=(6, 0), textcoords="offset points", va="center", fontsize=8)
    above.set(ylabel="test ECE (%)", ylim=(0, None))
    below.set_yticks(range(len(choices)), list(choices))
    below.set(xlabel="temperature", ylim=(len(choices) - 0.5, -0.5))
    return figure


def twice(x: Array, y: Array, *, ax: Axes | None = None, color: str = plots.BLUE) -> Axes:
    """Positive numbers that were found twice, against each other on equal logarithmic axes, with the diagonal."""
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if x.shape != y.shape or not len(x) or min(x.min(), y.min()) <= 0:
        raise expected("y", f"positive numbers of shape {x.shape}, as `x`", f"shape {y.shape}")
    ax = axes_of(ax)
    ends = [0.9 * min(x.min(), y.min()), 1.1 * max(x.max(), y.max())]
    ax.plot(x, y, "o", color=color, alpha=0.4)
    ax.plot(ends, ends, color=plots.BLACK, linewidth=0.8, linestyle="--")
    ax.set(xscale="log", yscale="log")
    ticks = [t for t in (0.1, 0.2, 0.5, 1, 1.5, 2, 3, 5, 10) if ends[0] <= t <= ends[1]]
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_ticks(ticks, [f"{t:g}" for t in ticks])
        axis.set_ticks([], minor=True)
    return ax
