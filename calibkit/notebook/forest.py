"""Forest plots: one row a method, its estimate with an interval, and what it is made of."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from calibkit import plots
from calibkit._checks import Array
from calibkit.metrics.comparison import Estimate

#: Below, above, and not told apart from the reference.
BETTER, WORSE, OPEN = plots.BLUE, plots.RED, plots.BLACK


def forest(
    rows: Mapping[str, Estimate],
    points: Mapping[str, Array] | None = None,
    *,
    ax: Axes | None = None,
    reference: float | None = 0.0,
    linear: float | None = None,
) -> Axes:
    """A dot and its interval a row, the first one on top; blue lies below the reference, red above, black neither.

    Args:
        rows: name -> estimate.
        points: name -> the values that the estimate is the mean of, small grey dots.
        ax: Axes to draw into; default: those of a new figure.
        reference: a vertical line; None draws all rows in black.
        linear: the axis is linear to both sides of 0 as far as that, logarithmic beyond; None: linear.

    Example:
        >>> ax = forest({"a": Estimate(-2, -3, -1), "b": Estimate(1, -1, 3)}, {"a": [-1, -3]})
        >>> [text.get_text() for text in ax.get_yticklabels()], len(ax.lines)
        (['a', 'b'], 6)
    """
    ax = plt.subplots()[1] if ax is None else ax
    if reference is not None:
        ax.axvline(reference, color=plots.BLACK, linewidth=0.8)
    for y, (name, (value, low, high)) in enumerate(rows.items()):
        if points is not None and name in points:
            x = np.asarray(points[name], float)
            ax.plot(x, np.full(len(x), y + 0.22), "o", color=plots.GREY, markersize=2.5, alpha=0.7)
        color = OPEN if reference is None else BETTER if high < reference else WORSE if low > reference else OPEN
        ax.plot([low, high], [y, y], color=color, linewidth=2.2, solid_capstyle="butt")
        ax.plot([value], [y], "o", color=color, markersize=5)
    ax.set_yticks(range(len(rows)), list(rows))
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.grid(axis="y", visible=False)
    if linear is not None:
        ax.set_xscale("symlog", linthresh=linear, linscale=1.2)
    return ax
