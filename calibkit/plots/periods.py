"""Calibration over time: the error of each period next to what chance alone would give."""

from __future__ import annotations

import numpy as np

from calibkit._checks import expected
from calibkit._extras import needs
from calibkit.metrics.monitor import Monitor, Periods, keys_of
from calibkit.plots.style import BLUE, GREY, RED, axes_of, literal, on_paper, wash

with needs("plots"):
    from matplotlib.axes import Axes

TICKS = 8  # periods that are named at most


def ece_by_period(monitor: Monitor, *, drifted: Periods = (), ax: Axes | None = None) -> Axes:
    """The ECE of each period of a monitor, above the band that a calibrated network stays in.

    The band ends at ``ece_null`` of :meth:`Monitor.report`: what the ECE of a calibrated network exceeds by chance in
    one period of twenty. A point inside it is no sign of miscalibration.

    Args:
        monitor: with at least one period.
        drifted: a period or several, texts or dates, that are marked, such as those that ``drift_by_period`` finds.
        ax: Axes to draw into; a new one if None.

    Raises:
        ValueError: a monitor without a period, or a period in ``drifted`` that it does not have.

    Example:
        >>> from matplotlib.figure import Figure
        >>> from calibkit.metrics import Monitor
        >>> monitor = Monitor()
        >>> for day, label in (("Monday", 0), ("Tuesday", 1)):
        ...     monitor.update([[0.9, 0.1]] * 50, [label] * 50, day)
        >>> ax = ece_by_period(monitor, drifted=["Tuesday"], ax=Figure().subplots())
        >>> ax.lines[0].get_ydata().round(1).tolist()
        [10.0, 90.0]
    """
    rows = monitor.report() if isinstance(monitor, Monitor) else []
    if not rows:
        raise expected("monitor", "one with a period", "none")
    names = [str(row["period"]) for row in rows]
    for name in (marks := keys_of(drifted)):
        if name not in names:
            raise expected("drifted", f"periods of the monitor, {names[0]} to {names[-1]}", repr(name))
    ax, x = axes_of(ax, (6.5, 2.6)), np.arange(len(rows))
    error, null = (100 * np.array([float(row[key]) for row in rows]) for key in ("ece", "ece_null"))
    ax.fill_between(x, 0, null, color=GREY, alpha=wash(0.3), linewidth=0, step="mid", label="calibrated, 19 in 20")
    ax.plot(x, error, "o-", color=on_paper(BLUE), markersize=4, linewidth=1, label="ECE")
    marked = [i for i, name in enumerate(names) if name in set(marks)]
    if marked:
        ax.plot(x[marked], error[marked], "o", color=RED, markersize=7, label="drifted")
    step = -(-len(rows) // TICKS)
    ax.set_xticks(x[::step], map(literal, names[::step]), rotation=30, ha="right", rotation_mode="anchor")
    ax.set(ylabel="ECE, %", ylim=(0, None))
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3)
    return ax
