"""Sphinx extension of the page on speed: tables of what was measured, captioned by the content of the directive.

``{speed} bounds`` is ``book/results/bounds.csv`` with its picture, ``{speed} fits`` is ``fits.csv``, ``{speed} steps``
is ``steps.csv``; ``python benchmarks/bounds.py --csv FILE`` and the like write them.
"""

from __future__ import annotations

from functools import partial

import pandas as pd
from docutils import nodes
from matplotlib.figure import Figure
from sphinx.util.docutils import SphinxDirective

from book.kit.notebook.display_names import shown
from book.kit.notebook.table import Table, table
from book.kit.sphinx.directives import extension
from book.kit.sphinx.frontpage import figure
from calibkit import _folders, plots
from calibkit._checks import check_choice
from calibkit.plots import style

OURS = "calibkit"
#: What a task is called, where that is not its name in the file. Some name their number of classes, which is a column.
NAMES = {"vector": "vector scaling", "evaluate": "all metrics", "temperature": "temperature scaling"}


def name(row: pd.Series) -> str:
    """What a row measures: our task, or who else does the same."""
    task = row["task"].partition(",")[0]
    return NAMES.get(task, task) if row["who"] == OURS else f"the same by {row['who']}"


def bounds(rows: pd.DataFrame, **words: str) -> Table:
    """A row for each task, below its shape: its time, its bound and whether that is met."""
    within = (rows["seconds"] <= rows["bound"]).map({True: "yes", False: "no"})
    columns = {
        "ms": rows["seconds"].map(milliseconds),
        "at most": rows["bound"].map(milliseconds),
        "met": within.where(rows["bound"].notna(), ""),
        "evaluations of the NLL": rows["x NLL"].round().astype(int),
    }
    shapes = [f"{row.n:,} samples, {row.k:,} classes" for row in rows.itertuples()]
    labels = pd.MultiIndex.from_arrays([shapes, rows.apply(name, axis=1)])
    return table(pd.DataFrame(columns).set_axis(labels), **words)


def milliseconds(seconds: float) -> str:
    """A time, or nothing where there is none."""
    return "" if pd.isna(seconds) else f"{1000 * seconds:,.{1 if seconds < 0.01 else 0}f}"


def steps(rows: pd.DataFrame, **words: str) -> Table:
    """Images a second: a row for each precision, below how many trainings run, and a column for each layout."""
    layout = rows["layout"].where(rows["torch.compile"] == "no", rows["layout"] + ", compiled")
    rows = rows.assign(layout=layout, trainings=rows["processes"].map(trainings))
    frame = rows.pivot_table("images a second", ["trainings", "precision"], "layout", sort=False)
    return table(frame.rename_axis(index=[None, None], columns=None), digits=0, **words)


def trainings(processes: str) -> str:
    """The words for a number of processes.

    Example:
        >>> trainings("1, 2 threads"), trainings("2, a thread each")
        ('1 training, 2 threads', '2 trainings, a thread each')
    """
    number, how = processes.split(", ")
    return f"{number} training{'s' * (number != '1')}, {how}"


def fits(rows: pd.DataFrame, **words: str) -> Table:
    """Seconds of one fit: a row a calibrator, a column a shape."""
    frame = rows.set_index(rows["method"].map(shown)).drop(columns="method").astype(str)
    frame.columns = frame.columns.str.replace(" x ", " \N{MULTIPLICATION SIGN} ")
    return table(frame.rename_axis(None), **words)


def dots(rows: pd.DataFrame, figure: Figure) -> None:
    """How many evaluations of the NLL each task takes: a row for it, the fastest of a shape on top, peers beside us."""
    ours = rows[rows["who"] == OURS].sort_values(["n", "k", "x NLL"], ascending=[False, False, True])
    ax = figure.subplots()
    places = {task: -i for i, task in enumerate(ours["task"])}
    for who, of in rows.groupby("who", sort=False):
        y, color = of["task"].map(places), style.on_paper(plots.BLUE if who == OURS else plots.GREY)
        if who == OURS:
            ax.hlines(y, 1, of["x NLL"], color=color, linewidth=1)
        ax.plot(of["x NLL"], y, "o" if who == OURS else "s", color=color, markersize=6, label=who)
    shapes = ours["n"].map(", {:,}".format) + " \N{MULTIPLICATION SIGN} " + ours["k"].map("{:,}".format)
    ax.set_yticks([*places.values()], ours.apply(name, axis=1) + shapes)
    ax.axvline(1, linewidth=1.2, linestyle="--", color=style.on_paper(plots.GREY))
    ax.set(xscale="log", xlabel="time over that of one evaluation of the NLL")
    ax.legend(loc="lower right")  # of the fastest shapes below, where no dot lies


#: Directive's argument -> its table.
TABLES = {"bounds": bounds, "fits": fits, "steps": steps}


class Speed(SphinxDirective):
    """``{speed} bounds``, ``{speed} fits``, ``{speed} steps``."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        """The picture, where there is one, then the table."""
        file = str(check_choice("file", self.arguments[0], TABLES))
        rows = pd.read_csv(_folders.stored() / f"{file}.csv")
        numbers = TABLES[file](rows, caption=" ".join(self.content), name=f"tbl-speed-{file}")
        html = [numbers._repr_html_()]
        if file == "bounds":
            alt = "A dot for each fit and metric: its time in evaluations of the likelihood, on a logarithmic axis"
            picture = figure(partial(dots, rows), (7.0, 0.8 + 0.3 * rows["task"].nunique()), alt)
            words = (
                "A fit takes from a few evaluations of the NLL (dashed line) to hundreds. Time, by samples × classes."
            )
            html.insert(0, f"<figure>{picture}<figcaption>{words}</figcaption></figure>")
        return [nodes.raw("", text, format="html") for text in html]


setup = extension(speed=Speed)
