"""The pictures of a report, as SVG within figures with captions."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from html import escape

import numpy as np

from calibkit import plots
from calibkit._extras import needs
from calibkit.reporting.classes import ClassRow
from calibkit.reporting.methods import Trial
from calibkit.reporting.needs import BASE

with needs("plots"):
    import matplotlib as mpl
    from matplotlib.figure import Figure

SHOWN = 20  # classes in a picture


def reliability(probs: Mapping[str, np.ndarray], labels: np.ndarray) -> str:
    """Reliability diagrams before and after, beside each other."""

    def draw(figure: Figure) -> None:
        for ax, (name, p) in zip(figure.subplots(1, 2, sharey=True), probs.items(), strict=True):
            plots.reliability_diagram(p, labels, ax=ax)
            ax.set_title(name)

    caption = (
        "Is the network as often right as it says? Blue: accuracy among the samples of a bin of confidence; on the "
        "dashed line the two are equal. Grey: where a calibrated network would lie."
    )
    return _figure(draw, (8.0, 4.0), caption, "Reliability diagrams before and after calibration")


def forest(trial: Trial) -> str:
    """Differences in NLL to temperature scaling, with intervals."""
    rows = [(tried.need.name, tried.changes["nll"]) for key, tried in trial.measured.items() if key != BASE]
    rows = sorted(((name, x) for name, x in rows if np.isfinite(x).all()), key=lambda row: row[1].value)
    if not rows:
        return ""

    def draw(figure: Figure) -> None:
        ax, y = figure.subplots(), np.arange(len(rows))[::-1]
        value, low, high = np.array([x for _, x in rows]).T
        ax.axvline(0, color=plots.BLACK, linewidth=0.8)
        ax.hlines(y, low, high, color=plots.BLUE)
        ax.plot(value, y, "o", color=plots.BLUE)
        ax.set_yticks(y, [name for name, _ in rows])
        ax.set_xscale("symlog", linthresh=0.005)
        ax.set(xlabel="NLL less that of one temperature, nats", ylim=(-0.7, len(rows) - 0.3))

    caption = "Which methods are better than one temperature? Left of the line, those whose whole interval lies there."
    return _figure(draw, (8.0, 0.8 + 0.3 * len(rows)), caption, "Differences in NLL to temperature scaling")


def class_gaps(rows: Sequence[ClassRow]) -> str:
    """The gap of the worst classes, before and after."""
    shown = [row for row in rows if row.predicted][:SHOWN]

    def draw(figure: Figure) -> None:
        ax, y = figure.subplots(), np.arange(len(shown))[::-1]
        ax.axvline(0, color=plots.BLACK, linewidth=0.8)
        before, after = (100 * np.array([getattr(row, name) for row in shown]) for name in ("before", "after"))
        ax.hlines(y, before, after, color=plots.GREY, linewidth=0.8)
        ax.plot(before, y, "o", color=plots.RED, label="before")
        ax.plot(after, y, "s", color=plots.BLUE, label="after")
        ax.set_yticks(y, [row.name for row in shown])
        ax.set(xlabel="mean confidence less accuracy, points", ylim=(-0.7, len(shown) - 0.3))
        ax.legend(loc="best")

    caption = "Which classes is the network too sure of? Right of the line those of which it says too much."
    return _figure(draw, (8.0, 0.9 + 0.25 * len(shown)), caption, "Confidence less accuracy by predicted class")


def _figure(draw: Callable[[Figure], None], size: tuple[float, float], caption: str, alt: str) -> str:
    """What ``draw`` draws as SVG; the same input gives the same text."""
    with mpl.rc_context({**plots.STYLE, "svg.fonttype": "path"}):
        figure, stream = Figure(figsize=size), io.StringIO()
        draw(figure)
        figure.savefig(stream, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    svg = stream.getvalue()
    svg = svg[svg.index("<svg") :].replace("<svg ", f'<svg role="img" aria-label="{escape(alt)}" ', 1)
    return f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>"
