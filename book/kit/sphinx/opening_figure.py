"""What the opening figure of the front page draws: a network before and after one temperature; a map of proposals."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.lines import Line2D

from calibkit import Estimate, TemperatureScaling, calibrator
from calibkit.metrics import reliability_bins
from calibkit.networks import load_logits
from calibkit.plots.class_values import label_points
from calibkit.plots.methods import better_in_both, color_of, cross
from calibkit.plots.style import BLUE, COLORS, GREEN, GREY, ink, on_paper, wash
from calibkit.plots.style import paper as sheet

NETWORK = "cifar10/resnet20-cross_entropy-s0"
FEWEST = 20  # images in a bin that is drawn
MARGIN = 0.25  # points of ECE beyond the last interval


def gap_closes(left: Axes) -> None:
    """Accuracy against confidence of a network before and after one temperature."""
    data = load_logits(NETWORK)
    for method, color in ((calibrator("identity"), GREY), (TemperatureScaling(), BLUE)):
        probs = method.fit(*data.val)(data.test_logits)
        bins = reliability_bins(probs, data.test_labels)
        full = bins.counts >= FEWEST
        name = "uncalibrated" if color is GREY else "one temperature"
        left.plot(bins.confidence[full], bins.accuracy[full], "o-", color=on_paper(color), markersize=3.5, label=name)
        if color is GREY:
            ends = bins.accuracy[full], bins.confidence[full]
            left.fill_between(bins.confidence[full], *ends, color=GREY, alpha=wash(0.2), linewidth=0)
    left.plot([0, 1], [0, 1], color=ink(), linewidth=0.8, linestyle="--", label="calibrated")
    left.set(xlim=(0.2, 1), ylim=(0.2, 1), xlabel="confidence", ylabel="accuracy", aspect="equal", title="one network")
    left.legend(loc="upper left")


def distinct(names: Iterable[str]) -> dict[str, str]:
    """A colour for each method: its own, or a free one where a method before it has the same. Green is the corner's.

    Example:
        >>> len({*distinct(["CTS", "CLS", "NC", "MbLS", "ACLS"]).values()})
        5
    """
    found, taken = {name: color_of(name) for name in names}, set()
    free = (color for color in map(on_paper, COLORS) if color not in {on_paper(GREEN), *found.values()})
    for name, color in found.items():
        found[name] = next(free, color) if color in taken else color
        taken.add(color)
    return found


def map_of_proposals(figure: FigureBase, in_ece: dict[str, Estimate], in_nll: dict[str, Estimate]) -> None:
    """How far in ECE and in NLL each proposal is from one temperature, one panel for each kind of data."""
    across = {}
    for kind in ("balanced", "long-tailed"):
        ends = [end for name, of in in_ece.items() if kind in name for end in (of.percent.low, of.percent.high)]
        across[kind] = min(0, *ends) - MARGIN, max(0, *ends) + MARGIN
    widths = [right - left for left, right in across.values()]  # a point of ECE is as wide in both
    panels = dict(zip(across, figure.subplots(1, 2, sharey=True, width_ratios=widths), strict=True))
    colors = distinct(name.split(", ", 1)[0] for name in in_ece)
    points: dict[str, list] = {kind: [] for kind in panels}
    for name, of in in_ece.items():
        short, whose, kind = name.rpartition(" (")[0].split(", ")
        x, y, color = of.percent, in_nll[name], colors[short]
        cross(panels[kind], x, y, color=color, marker="o", mfc=color if whose == "published" else sheet())
        points[kind].append((short, x.value, y.value))
    for kind, panel in panels.items():
        panel.set(title=f"{kind} data", xlim=across[kind])
    low, high = panels["balanced"].get_ylim()
    for panel in panels.values():
        better_in_both(panel, 0, 0)
        panel.text(panel.get_xlim()[0], low, " better\n in both", va="bottom", style="italic")
    panels["balanced"].set(ylim=(low, high), ylabel="NLL minus one temperature’s, nats")
    figure.supxlabel("ECE minus one temperature’s, points", fontsize="medium")
    looks = {"published networks": GREY, "our networks": sheet()}
    keys = [Line2D([], [], ls="", marker="o", color=GREY, mfc=face, label=text) for text, face in looks.items()]
    panels["long-tailed"].legend(handles=keys, loc="upper right")
    for kind, panel in panels.items():
        names, x, y = zip(*points[kind], strict=True)
        label_points(panel, np.array(x), np.array(y), names, crosses=True)
