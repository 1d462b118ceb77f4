"""Numbers that exist several times, a row each: how far apart they lie is seen at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from calibkit import plots
from calibkit._checks import expected

#: Told apart by shape as well as by colour, and by size where they coincide.
MARKS = (
    {"marker": "s", "markersize": 7, "markerfacecolor": "none", "color": plots.BLACK},
    {"marker": "o", "markersize": 4, "color": plots.ORANGE},
    {"marker": "D", "markersize": 4, "color": plots.BLUE},
)


def dumbbells(
    panels: Mapping[str, pd.DataFrame], columns: Sequence[str], *, xlabel: str = "", colors: Sequence[str] = ()
) -> Figure:
    """A panel side by side for each table, by its title, a row for each of its rows, a mark for each of the columns.

    The tables have the same index, of one level, or of a group and a name in it. The up to three columns are of
    positive numbers; a line joins the lowest and the highest, and NaN is not drawn. The axis is logarithmic and the
    same for all panels. ``colors``, one a column, are for what has a colour in other figures, too. ValueError tells of
    no panel, of different rows, of more columns than marks, of another number of colours.
    """
    if not 0 < len(columns) <= len(MARKS):
        raise expected("columns", f"1 to {len(MARKS)} names", columns)
    if len(colors) not in (0, len(columns)):
        raise expected("colors", f"{len(columns)} colours, or none", colors)
    indices = [table.index for table in panels.values()]
    if not indices or not all(index.equals(indices[0]) for index in indices):
        raise expected("panels", "at least one table, all with the same rows", list(panels))
    y, names = _rows(indices[0])
    own = [mark["color"] for mark in MARKS]
    figure, axes = plt.subplots(
        1, len(panels), figsize=(7, 1.2 + 0.19 * (y[-1] + 1)), sharex=True, sharey=True, squeeze=False
    )
    for ax, (title, table) in zip(axes[0], panels.items(), strict=True):
        values = table[list(columns)].to_numpy(float)
        known = np.isfinite(values).any(axis=1)
        ax.hlines(y[known], np.nanmin(values[known], axis=1), np.nanmax(values[known], axis=1), color=plots.GREY)
        for column, mark, color in zip(columns, MARKS, colors or own, strict=False):
            ax.plot(table[column], y, linestyle="none", label=column, **mark | {"color": color})
        ax.set(title=title, xlabel=xlabel, xscale="log")
    low, high = axes[0, 0].get_xlim()
    ticks = [tick for tick in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50) if low <= tick <= high]
    axes[0, 0].set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes[0, 0].set_xticks([], minor=True)
    axes[0, 0].set_yticks(y, names)
    axes[0, 0].set_ylim(y[-1] + 0.7, -0.7)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=len(columns))
    return figure


def _rows(index: pd.Index) -> tuple[np.ndarray, list[str]]:
    """Where the rows lie, with a gap between groups, and what is written beside them."""
    if index.nlevels == 1:
        return np.arange(len(index), dtype=float), [str(name) for name in index]
    groups = index.get_level_values(0)
    gaps = np.cumsum([i > 0 and groups[i] != groups[i - 1] for i in range(len(index))])
    return np.arange(len(index)) + 0.8 * gaps, [", ".join(map(str, names)) for names in index]
