"""Sphinx extension: two things to move by hand. ``{widget} temperature`` and ``{widget} margin``.

Each is a still picture, drawn when the book is built, with the data and the sliders that ``widgets.js`` turns into a
live one. Without JavaScript, and on paper, the still remains.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from scipy.special import softmax

from book.kit.sphinx.directives import extension, html
from book.kit.sphinx.frontpage import light_and_dark
from book.kit.sphinx.opening_figure import NETWORK
from calibkit import TemperatureScaling, plots
from calibkit._checks import check_choice
from calibkit.data import subset
from calibkit.networks import load_logits
from calibkit.plots.style import ink, on_paper

IMAGES = 2000  # of its test set, as many of each class: 40 kB of logits
MARGIN, WEIGHT, CLASSES = 6.0, 0.1, 10


class Widget(NamedTuple):
    """What a page needs: a title, a still and what it shows in words, a slider a parameter, and data."""

    title: str
    alt: str
    still: Callable[[Figure], object]
    size: tuple[float, float]
    controls: list[dict[str, object]]
    data: dict[str, object]


def slider(name: str, label: str, low: float, high: float, step: float, value: float) -> dict[str, object]:
    """A control."""
    return {"name": name, "label": label, "min": low, "max": high, "step": step, "value": value}


def temperature() -> Widget:
    """Reliability diagram, ECE and NLL at any temperature and number of bins."""
    data = load_logits(NETWORK)
    rows = subset(data.test_labels, IMAGES)
    logits = np.round(100 * data.test_logits[rows]).astype("<i2")  # in hundredths
    labels = data.test_labels[rows].astype("u1")
    fitted = round(TemperatureScaling().fit(*data.val).temperature, 2)
    shown = {"T = 1": 1.0, f"T = {fitted}, as fitted": fitted}

    def still(figure: Figure) -> None:
        probs = {title: softmax(logits / 100 / t, axis=1) for title, t in shown.items()}
        plots.before_after(probs, labels.astype(int), fig=figure)

    return Widget(
        title="Temperature and bins",
        alt=f"Reliability diagrams of {IMAGES:,} test images: over-confident at T = 1, close to the line at {fitted}.",
        still=still,
        size=(7.0, 3.4),
        controls=[
            slider("temperature", f"Temperature T (fitted: {fitted})", 0.3, 5, 0.01, 1),
            slider("bins", "Bins", 1, 50, 1, 15),
        ],
        data={
            "classes": logits.shape[1],
            "logits": base64.b64encode(logits.tobytes()).decode(),
            "labels": base64.b64encode(labels.tobytes()).decode(),
        },
    )


def margin() -> Widget:
    """The loss of one sample along its distance, and where it rests."""
    rest = max(MARGIN, float(np.log(CLASSES / WEIGHT - CLASSES + 1)))

    def still(figure: Figure) -> None:
        ax, d = figure.subplots(), np.linspace(0, 16, 401)
        entropy = np.log1p((CLASSES - 1) * np.exp(-d))
        penalty = WEIGHT * (CLASSES - 1) / CLASSES * np.maximum(0, d - MARGIN)
        ax.plot(d, entropy + penalty, color=on_paper(plots.BLUE), alpha=0.6, linewidth=4, label="loss")
        ax.plot(d, entropy, "--", color=on_paper(plots.GREEN), label="cross-entropy")
        ax.plot(d, penalty, "--", color=on_paper(plots.ORANGE), label="penalty")
        ax.axvline(rest, color=ink(), linestyle=":", linewidth=1)
        ax.set(xlabel="distance d to every other class", ylabel="loss", xlim=(0, 16), ylim=(0, None))
        ax.set_title(f"m = {MARGIN:g}, weight {WEIGHT:g}, K = {CLASSES}: rests at d* = {rest:.2f}")
        ax.legend()

    return Widget(
        title="Margin and confidence",
        alt=f"Loss of one sample against its distance: it falls, and rises from the margin m = {MARGIN:g} on.",
        still=still,
        size=(5.0, 3.2),
        controls=[
            slider("margin", "Margin m", 0, 15, 0.1, MARGIN),
            slider("weight", "Weight \u03bb", 0.01, 0.5, 0.01, WEIGHT),
            slider("classes", "Classes K", 3, 200, 1, CLASSES),
        ],
        data={},
    )


WIDGETS: dict[str, Callable[[], Widget]] = {"temperature": temperature, "margin": margin}


def live(name: str) -> str:
    """A widget as a page shows it."""
    widget = WIDGETS[check_choice("widget", name, WIDGETS)]()
    script = {"kind": name, "title": widget.title, "controls": widget.controls, "data": widget.data}
    still = light_and_dark(widget.still, widget.size, widget.alt)
    return (
        f'<div class="widget"><div class="still">{still}</div>'
        f'<script type="application/json">{json.dumps(script)}</script></div>'
    )


setup = extension(widget=html(live, required=1))
