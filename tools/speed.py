"""Sphinx extension of the page on speed: ``{speed}`` is the table of ``book/results/bounds.csv`` and its picture.

``python benchmarks/bounds.py --csv book/results/bounds.csv`` writes the file.
"""

from __future__ import annotations

from functools import partial

import pandas as pd
from docutils import nodes
from docutils.statemachine import StringList
from frontpage import light_and_dark
from matplotlib.figure import Figure
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from calibkit import _folders, plots

OURS = "calibkit"


def table(rows: pd.DataFrame) -> list[str]:
    """The measured rows as Markdown: seconds, the bound, and the time in evaluations of the NLL."""
    lines = [
        "| task | who | samples x classes | seconds | bound | evaluations of the NLL |",
        "|---|---|--:|--:|--:|--:|",
    ]
    for row in rows.itertuples():
        within = "" if pd.isna(row.bound) else f"{row.bound:.2g}, {'met' if row.seconds <= row.bound else '**missed**'}"
        shape = f"{row.n:,} x {row.k:,}"
        lines.append(f"| {row.task} | {row.who} | {shape} | {row.seconds:.2g} | {within} | {row.passes:.0f} |")
    return lines


def bars(rows: pd.DataFrame, figure: Figure) -> None:
    """How many evaluations of the NLL each row takes: a bar a row, ours and the peers' apart."""
    ax, y = figure.subplots(), range(len(rows))[::-1]
    colors = [plots.BLUE if who == OURS else plots.GREY for who in rows["who"]]
    ax.barh(list(y), rows["passes"], color=colors, alpha=0.8)
    names = rows["task"] + ", " + rows["n"].map("{:,}".format) + " x " + rows["k"].map("{:,}".format)
    ax.set_yticks(list(y), [a if who == OURS else f"{who}" for a, who in zip(names, rows["who"], strict=True)])
    ax.axvline(1, linewidth=0.8, linestyle="--", color=plots.GREY)
    ax.set(xscale="log", xlabel="time over that of one evaluation of the NLL")


class Speed(SphinxDirective):
    """``{speed}``."""

    def run(self) -> list[nodes.Node]:
        """The picture, then the table."""
        rows = pd.read_csv(_folders.stored() / "bounds.csv").rename(columns={"x NLL": "passes"})
        alt = "A bar for each fit and metric: its time in evaluations of the likelihood, on a logarithmic axis"
        picture = f'<div class="opening">{light_and_dark(partial(bars, rows), (7.0, 0.8 + 0.3 * len(rows)), alt)}</div>'
        node = nodes.container()
        self.state.nested_parse(StringList(table(rows), self.name), self.content_offset, node)
        return [nodes.raw("", picture, format="html"), *node.children]


def setup(app: Sphinx) -> dict:
    """Register the directive."""
    app.add_directive("speed", Speed)
    return {"parallel_read_safe": True}
