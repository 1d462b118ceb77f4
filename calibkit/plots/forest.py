"""Forest plot: one row a method, its estimate with its interval, and the numbers beside it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from calibkit._checks import Array, check_choice, check_flag, check_real, expected, to_array
from calibkit._extras import needs
from calibkit.metrics import METRICS
from calibkit.metrics.comparison import Comparison, Estimate
from calibkit.plots.style import BLUE, GREY, RED, axes_of, drawable, ink, on_paper

with needs("plots"):
    from matplotlib.axes import Axes


def forest_plot(
    rows: Comparison | Mapping[str, Estimate] | Iterable[tuple[str, float, float, float]],
    points: Mapping[str, Array] | None = None,
    *,
    ax: Axes | None = None,
    metric: str | None = None,
    base: str | None = None,
    reference: float | None = 0.0,
    linear: float | None = None,
    sort: bool = True,
    numbers: str | None = "+.2f",
) -> Axes:
    """A dot and its interval a row, the smallest on top; blue lies below the reference, vermilion above, black neither.

    Args:
        rows: name -> estimate; or (name, value, low, high) a row; or a ``Comparison``, of which ``metric`` is drawn, in
            percent where it is a fraction.
        points: name -> the values that the estimate is the mean of, small grey dots.
        ax: Axes to draw into; a new one if None.
        metric: of a ``Comparison``; its last one if None.
        base: of a ``Comparison``: the method from which the others are to differ; None draws each by itself.
        reference: a vertical line; None draws all rows in black.
        linear: the axis is linear to both sides of 0 as far as that, logarithmic beyond; None: linear.
        sort: by value; else in the given order.
        numbers: format of the numbers on the right, each value with its interval; None leaves them out.

    Raises:
        ValueError: no rows; a metric that was not measured, a base that was not added, or either beside estimates.

    Example:
        >>> ax = forest_plot({"a": Estimate(1, -1, 3), "b": Estimate(-2, -3, -1)}, {"b": [-1, -3]})
        >>> [text.get_text() for text in ax.get_yticklabels()], len(ax.lines)
        (['b', 'a'], 6)
        >>> ax.texts[0].get_text()
        '−2.00 [−3.00, −1.00]'
    """
    title = ""
    if isinstance(rows, Comparison):
        metric = rows.metrics[-1] if metric is None else metric
        if base is not None and (added := [*rows]):
            check_choice("base", base, added)
        rows, title = _of_comparison(rows, metric, base)
        if base is None:
            reference, numbers = None, numbers and numbers.replace("+", "")
    else:
        for name, given in (("metric", metric), ("base", base)):
            if given is not None:
                raise expected(name, "None beside estimates, which are drawn as they are", repr(given))
    rows = _estimates(rows)
    if not rows:
        raise expected("rows", "at least one estimate", "none")
    if check_flag("sort", sort):
        rows = dict(sorted(rows.items(), key=lambda row: row[1][0]))
    reference = None if reference is None else check_real("reference", reference)
    linear = None if linear is None else check_real("linear", linear, 0.0, open_low=True)
    if points is not None and not isinstance(points, Mapping):
        raise expected("points", "a mapping of names to numbers", type(points).__name__)
    ax = axes_of(ax, (6.5, 0.7 + 0.24 * len(rows)))
    if reference is not None:
        ax.axvline(reference, color=ink(), linewidth=0.8)
    below, above, neither = on_paper(BLUE), RED, ink()
    for y, (name, (value, low, high)) in enumerate(rows.items()):
        if points is not None and name in points:
            x = np.atleast_1d(to_array("points", points[name], "a mapping of names to numbers", float))
            ax.plot(x, np.full(len(x), y + 0.22), "o", color=GREY, markersize=2.5, alpha=0.7)
        side = reference is not None and (high < reference) - (low > reference)
        color = {1: below, -1: above, 0: neither}[side]
        ax.plot([low, high], [y, y], color=color, linewidth=2.2, solid_capstyle="butt")
        ax.plot([value], [y], "o", color=color, markersize=5)
    if numbers is not None:
        _write(ax, rows.values(), numbers)
    ax.set_yticks(range(len(rows)), [drawable(name).replace("_", " ") for name in rows])
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.grid(axis="y", visible=False)
    ax.set_xlabel(title)
    if linear is not None and max(map(abs, ax.get_xlim())) > linear:
        ax.set_xscale("symlog", linthresh=linear, linscale=1.2)
        ticks = _ticks(linear, max(map(abs, ax.get_xlim())))
        ax.set_xticks(ticks, [f"{x:g}".replace("-", "−") for x in ticks], minor=False)
        ax.minorticks_off()
    elif linear is not None:
        ax.locator_params(axis="x", nbins=4)
    return ax


def _estimates(rows: Any) -> dict[str, Estimate]:
    """The rows as estimates by name."""
    try:
        pairs = [*rows.items()] if isinstance(rows, Mapping) else [(name, each) for name, *each in rows]
        found = {str(name): Estimate(*map(float, each)) for name, each in pairs}
    except (TypeError, ValueError, OverflowError):
        raise expected("rows", "names, each with a value and the ends of its interval", repr(rows)) from None
    if len(found) < len(pairs):
        raise expected("rows", "of different names", ", ".join(str(name) for name, _ in pairs))
    return found


def _ticks(linear: float, reach: float) -> list[float]:
    """0 and, to both sides, powers of ten beyond where the axis is linear, two at most, or the end of that.

    Example:
        >>> _ticks(0.005, 0.3), _ticks(1, 5)
        ([-0.1, -0.01, 0, 0.01, 0.1], [-1, 0, 1])
    """
    low, high = math.ceil(math.log10(2 * linear)), math.floor(math.log10(reach))
    step = max(1, math.ceil((high - low + 1) / 2))
    beyond = [10.0**i for i in range(low, high + 1)][::-step][::-1] or [linear]
    return [*(-x for x in reversed(beyond)), 0, *beyond]


def _of_comparison(methods: Comparison, metric: str, base: str | None) -> tuple[dict[str, Estimate], str]:
    """Estimates of a metric by method, and what the axis says of them."""
    if base is None:
        found = {name: methods.of(name, metric) for name in methods}
    else:
        found = {name: methods.difference(name, base, metric) for name in methods if name != base}
    title = metric.replace("_", " ") if len(metric) > 4 else metric.upper()
    title = re.sub("ece$", "ECE", title)
    in_nats = METRICS[metric].unit == "nats"
    unit = "nats" if in_nats else "%" if base is None else "points"
    if not in_nats:
        found = {name: estimate.percent for name, estimate in found.items()}
    return found, f"{title}{f' less that of {base}'.replace('_', ' ') if base else ''}, {unit}"


def _write(ax: Axes, estimates: Iterable[Estimate], spec: str) -> None:
    """The numbers of each row to the right of the axes, in columns."""
    try:
        texts = [[format(x, spec).replace("-", "−") for x in estimate] for estimate in estimates]
    except (TypeError, ValueError):
        raise expected("numbers", "a format of numbers, or None", repr(spec)) from None
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    beside = ax.get_yaxis_transform()
    for y, row in enumerate(texts):
        value, low, high = (number.rjust(width) for number, width in zip(row, widths, strict=True))
        text = f"{value} [{low}, {high}]"
        ax.text(1.02, y, text, transform=beside, family="DejaVu Sans Mono", fontsize=8, va="center")
