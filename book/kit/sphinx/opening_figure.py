"""What the opening figure of the front page draws: a network before and after one temperature; a map of proposals."""

from __future__ import annotations

from collections.abc import Iterable

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke

from calibkit import Estimate, TemperatureScaling, calibrator
from calibkit.metrics import reliability_bins
from calibkit.networks import load_logits
from calibkit.plots.ece_nll import better_in_both, cross
from calibkit.plots.method_style import color_of
from calibkit.plots.style import BLUE, COLORS, GREEN, GREY, RED, ink, on_paper, wash
from calibkit.plots.style import paper as sheet

NETWORK = "cifar10/resnet20-cross_entropy-s0"
FEWEST = 20  # images in a bin that is drawn
#: Where the names of two points that all but meet stand, in typographic points from them.
PLACES = {"MbLS, ours, balanced": ((-4, 5), "right"), "CTS, ours, long-tailed": ((4, -11), "left")}


def gap_closes(left: Axes) -> None:
    """Accuracy against confidence of a network before and after one temperature."""
    data = load_logits(NETWORK)
    for method, color in ((calibrator("identity"), RED), (TemperatureScaling(), BLUE)):
        probs = method.fit(*data.val)(data.test_logits)
        bins = reliability_bins(probs, data.test_labels)
        full = bins.counts >= FEWEST
        name = "uncalibrated" if color is RED else "one temperature"
        left.plot(bins.confidence[full], bins.accuracy[full], "o-", color=on_paper(color), markersize=3.5, label=name)
        if color is RED:
            ends = bins.accuracy[full], bins.confidence[full]
            left.fill_between(bins.confidence[full], *ends, color=RED, alpha=wash(0.2), linewidth=0)
    left.plot([0, 1], [0, 1], color=ink(), linewidth=0.8, linestyle="--")
    left.set(xlim=(0.2, 1), ylim=(0.2, 1), xlabel="confidence", ylabel="accuracy", aspect="equal")
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


def map_of_proposals(right: Axes, in_ece: dict[str, Estimate], in_nll: dict[str, Estimate]) -> None:
    """How far in ECE and in NLL each proposal is from one temperature, by its name and stratum."""
    colors = distinct(name.split(", ", 1)[0] for name in in_ece)
    for name, of in in_ece.items():
        short, kind = name.split(", ", 1)
        x, y, color = of.percent, in_nll[name], colors[short]
        marker = {"marker": "s" if "long-tailed" in kind else "o", "mfc": color if "published" in kind else sheet()}
        cross(right, x, y, color=color, **marker)
        beside = ((-4, -11), "right") if x.value < 0 else ((4, 4), "left")  # clear of both zero lines
        at, where = PLACES.get(name.rpartition(" (")[0], beside)
        label = right.annotate(
            short, (x.value, y.value), at, textcoords="offset points", ha=where, color=color, fontsize=8
        )
        label.set_path_effects([withStroke(linewidth=2.5, foreground=sheet())])
    (least, _), (low, high) = right.get_xlim(), right.get_ylim()
    better_in_both(right, 0, 0)
    right.text(least, low, " better in both", va="bottom", color=on_paper(GREEN))
    right.set_ylim(low, high + 0.2 * (high - low))  # room for the legend
    right.set(xlabel="ECE, points from one temperature", ylabel="NLL, nats")
    looks = {"filled: published": GREY, "hollow: ours": sheet()}
    keys = [Line2D([], [], ls="", marker="o", color=GREY, mfc=face, label=text) for text, face in looks.items()]
    kinds = {"o": "circle: balanced", "s": "square: long-tailed"}
    keys += [Line2D([], [], ls="", marker=marker, color=GREY, label=text) for marker, text in kinds.items()]
    right.legend(handles=keys, loc="upper left", ncols=2)
