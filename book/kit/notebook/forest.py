"""Forest plots as the chapters show them: rows in the order of the text, and the numbers in a table beside."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.axes import Axes

from calibkit import plots
from calibkit._checks import Array
from calibkit.metrics.comparison import Estimate

#: Below, above, and not told apart from the reference.
BETTER, WORSE, OPEN = plots.BLUE, plots.RED, plots.BLACK


def forest(rows: Mapping[str, Estimate], points: Mapping[str, Array] | None = None, **options) -> Axes:
    """:func:`calibkit.plots.forest_plot`, unsorted and without numbers.

    Args:
        rows: name -> estimate.
        points: name -> the values that the estimate is the mean of.
        options: ``ax``, ``reference`` and ``linear``, as there.

    Example:
        >>> ax = forest({"a": Estimate(1, -1, 3), "b": Estimate(-2, -3, -1)})
        >>> [text.get_text() for text in ax.get_yticklabels()], len(ax.texts)
        (['a', 'b'], 0)
    """
    return plots.forest_plot(rows, points, sort=False, numbers=None, **options)
