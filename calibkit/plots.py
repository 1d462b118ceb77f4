"""Figures: each function draws into an Axes, a new one where none is given, and returns it.

Colours are those of Okabe and Ito, told apart by every kind of colour vision and in print.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calibkit._checks import Array, check_int, expected, scan_probs, to_tensor
from calibkit._extras import needs
from calibkit.metrics import ReliabilityBins, ece, reliability_bins

with needs("plots"):
    import matplotlib as mpl
    from matplotlib import pyplot
    from matplotlib.axes import Axes

BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, RED, PURPLE = (
    "#000000 #E69F00 #56B4E9 #009E73 #F0E442 #0072B2 #D55E00 #CC79A7".split()
)
GREY = "#999999"
COLORS = (BLUE, RED, GREEN, ORANGE, PURPLE, SKY, BLACK)

STYLE = {
    "figure.dpi": 100,
    "savefig.dpi": 100,
    "figure.figsize": (5.0, 3.2),
    "figure.constrained_layout.use": True,
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same figure everywhere
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.prop_cycle": mpl.cycler(color=COLORS),
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.4,
    "lines.markersize": 4,
    "legend.frameon": False,
    "svg.hashsalt": "calibkit",
}


def use_style() -> None:
    """Set matplotlib's defaults to the book's; call once, after the parameters of a notebook."""
    mpl.rcParams.update(STYLE)


def _axes(ax: Axes | None) -> Axes:
    """``ax``, or that of a new figure, which a notebook shows by itself."""
    return pyplot.subplots()[1] if ax is None else ax


def reliability_diagram(
    probs: Array,
    labels: Array,
    *,
    ax: Axes | None = None,
    n_bins: int = 15,
    interval: bool = True,
    n_resamples: int = 200,
    level: float = 0.95,
    seed: int = 0,
) -> Axes:
    """Accuracy against confidence, by bins of confidence (Guo et al. 2017, Fig. 1), with consistency bars.

    A blue bar is the accuracy in a bin; the red line from it to the diagonal is the gap that ECE averages. The grey bar
    is the range where the accuracy of a perfectly calibrated network with these confidences would lie
    (Bröcker & Smith 2007): a gap inside it is no evidence of miscalibration.

    Args:
        probs: (N, K) probabilities.
        labels: (N,) integers in [0, K).
        ax: Axes to draw into; a new one if None.
        n_bins: equal-width bins; 15 as in Guo et al.
        interval: whether to draw the consistency bars.
        n_resamples: resamples behind them.
        level: their coverage.
        seed: of the resampling.

    Raises:
        ValueError: bad ``probs`` or ``labels``, ``n_bins`` < 1.
    """
    bins = reliability_bins(probs, labels, n_bins=n_bins)
    options = {"n_resamples": n_resamples, "level": level, "seed": seed}
    low, high = consistency_interval(probs, bins, **options) if interval else (None, None)
    ax, full = _axes(ax), bins.counts > 0
    lower, width = bins.edges[:-1], np.diff(bins.edges)
    ax.bar(lower[full], bins.accuracy[full], width[full], align="edge", color=BLUE, alpha=0.35, edgecolor="white")
    if interval:
        ax.vlines(
            bins.confidence[full], low[full], high[full], color=GREY, linewidth=5, alpha=0.6, label="if calibrated"
        )
    ax.plot([0, 1], [0, 1], color=BLACK, linewidth=0.8, linestyle="--")
    ax.vlines(bins.confidence[full], bins.accuracy[full], bins.confidence[full], color=RED, linewidth=1.2, label="gap")
    ax.plot(bins.confidence[full], bins.accuracy[full], "o", color=BLUE, markersize=3.5, label="accuracy")
    ax.text(0.97, 0.05, f"ECE {100 * ece(probs, labels, n_bins=n_bins):.2f} %", transform=ax.transAxes, ha="right")
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="confidence", ylabel="accuracy", aspect="equal")
    ax.legend(loc="upper left")
    return ax


def consistency_interval(
    probs: Array, bins: ReliabilityBins, *, n_resamples: int = 200, level: float = 0.95, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper accuracy (n_bins,) that a calibrated network would show in each bin; NaN in an empty one.

    The confidences are kept and the correctness of each sample drawn with its confidence as probability.
    """
    n_resamples = check_int("n_resamples", n_resamples, 1)
    confidence = scan_probs(probs)[1].cpu().numpy()
    n_bins = len(bins.counts)
    index = np.searchsorted(bins.edges[1:-1], confidence, side="left")
    rng = np.random.default_rng(seed)
    accuracy = np.full((n_resamples, n_bins), np.nan)
    full = bins.counts > 0
    for row in accuracy:
        correct = np.bincount(index, weights=rng.random(len(confidence)) < confidence, minlength=n_bins)
        row[full] = correct[full] / bins.counts[full]
    tail = (1 - level) / 2
    low, high = np.full(n_bins, np.nan), np.full(n_bins, np.nan)
    low[full], high[full] = np.quantile(accuracy[:, full], (tail, 1 - tail), axis=0)
    return low, high


def confidence_histogram(probs: Array, labels: Array, *, ax: Axes | None = None, n_bins: int = 15) -> Axes:
    """Share of samples by confidence, with the mean confidence and the accuracy as lines.

    Where the line of confidence lies right of that of accuracy, the network is over-confident on average.

    Args:
        probs: (N, K) probabilities.
        labels: (N,) integers in [0, K).
        ax: Axes to draw into; a new one if None.
        n_bins: equal-width bins of confidence.

    Raises:
        ValueError: bad ``probs`` or ``labels``, ``n_bins`` < 1.
    """
    bins = reliability_bins(probs, labels, n_bins=n_bins)
    ax, share = _axes(ax), bins.counts / bins.counts.sum()
    ax.bar(bins.edges[:-1], share, np.diff(bins.edges), align="edge", color=BLUE, alpha=0.35, edgecolor="white")
    for name, value, color in (("mean confidence", bins.confidence, RED), ("accuracy", bins.accuracy, BLACK)):
        mean = float(np.nansum(share * value))
        ax.axvline(mean, color=color, linestyle="--", label=f"{name} {mean:.3f}")
    ax.set(xlim=(0, 1), xlabel="confidence", ylabel="share of samples")
    ax.legend(loc="upper left")
    return ax


def class_scatter(
    class_accuracy: Array,
    values: Array,
    *,
    ax: Axes | None = None,
    names: Sequence[str] | None = None,
    reference: float | None = None,
    color: str = BLUE,
    label: str | None = None,
) -> Axes:
    """One point a class: a value (class-wise ECE, temperature) against the accuracy of the class.

    Args:
        class_accuracy: (K,) accuracy of each class, a fraction.
        values: (K,) the value of each class.
        ax: Axes to draw into; a new one if None.
        names: (K,) class names to write beside the points.
        reference: a horizontal line, such as the one temperature of all classes.
        color: of the points.
        label: of the points in the legend.

    Raises:
        ValueError: arrays of different lengths, or not 1-D.
    """
    x, y = (to_tensor(name, a).cpu().numpy() for name, a in (("class_accuracy", class_accuracy), ("values", values)))
    if x.ndim != 1 or x.shape != y.shape:
        raise expected("values", f"of shape {x.shape} like `class_accuracy`, one value a class", f"shape {y.shape}")
    if names is not None and len(names) != len(x):
        raise expected("names", f"{len(x)} names, one a class", len(names))
    ax = _axes(ax)
    if reference is not None:
        ax.axhline(reference, color=BLACK, linewidth=0.8, linestyle="--")
    ax.plot(x, y, "o", color=color, alpha=0.75, label=label)
    for name, *point in zip(names or (), x, y, strict=False):
        ax.annotate(name, point, xytext=(4, 2), textcoords="offset points", fontsize=7)
    ax.set_xlabel("accuracy of the class")
    return ax
