"""The pictures of a report, as SVG within figures with captions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape

import numpy as np

from calibkit import plots
from calibkit._extras import needs
from calibkit.plots.classes import class_names
from calibkit.reporting.catalogue import BASE
from calibkit.reporting.classes import ClassRow
from calibkit.reporting.recommend import WORTH
from calibkit.reporting.trial import Trial

with needs("plots"):
    from matplotlib.figure import Figure

SHOWN = 20  # classes in a picture


def reliability(probs: Mapping[str, np.ndarray], labels: np.ndarray) -> str:
    """Reliability diagrams before and after, beside each other."""
    caption = (
        "Is the network as often right as it says? Blue: accuracy among the samples of a bin of confidence; on the "
        "dashed line the two are equal. Grey: where a calibrated network would lie."
    )
    alt = "Reliability diagrams before and after calibration"
    return _figure(lambda figure: plots.before_after(probs, labels, fig=figure), (8.0, 4.4), caption, alt)


def forest(trial: Trial) -> str:
    """Differences in NLL to temperature scaling, with intervals."""
    changes = {tried.need.name: tried.changes["nll"] for key, tried in trial.measured.items() if key != BASE}
    rows = {name: change for name, change in changes.items() if np.isfinite(change).all()}
    if not rows:
        return ""

    def draw(figure: Figure) -> None:
        ax = plots.forest_plot(rows, ax=figure.subplots(), linear=WORTH, numbers="+.4f")
        ax.set_xlabel("NLL less that of one temperature, nats")

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
        ax.set_yticks(y, class_names([row.name for row in shown], len(shown)))
        ax.set(xlabel="mean confidence less accuracy, points", ylim=(-0.7, len(shown) - 0.3))
        ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)  # above: within it may lie on a class

    caption = "Which classes is the network too sure of? Right of the line those of which it says too much."
    return _figure(draw, (8.0, 1.2 + 0.25 * len(shown)), caption, "Confidence less accuracy by predicted class")


def _figure(draw: Callable[[Figure], object], size: tuple[float, float], caption: str, alt: str) -> str:
    """What ``draw`` draws, with its caption."""
    return f"<figure>{plots.svg(draw, size, alt)}<figcaption>{escape(caption)}</figcaption></figure>"
