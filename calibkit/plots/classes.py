"""Single classes: their reliability in small panels, the worst first, and for many classes their gaps as a map."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist
from typing import Any

import numpy as np

from calibkit._checks import Array, check_bins, check_int, check_real, expected
from calibkit._extras import needs
from calibkit.metrics import ReliabilityBins, reliability_bins
from calibkit.metrics.classwise import class_sums
from calibkit.metrics.sample import Sample
from calibkit.plots.style import BLUE, GREY, RED, axes_of, figure_of, ink, literal, on_paper

with needs("plots"):
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap, LinearSegmentedColormap, to_rgb
    from matplotlib.figure import Figure


def worst_classes(sample: Sample, n_bins: int, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """The ``n_classes`` classes of largest calibration error, the largest first, and their errors.

    The error of class k is its term in ``classwise_ece``, the sum over bins of n_kb / N |acc_kb - conf_kb|.
    """
    errors = class_sums(sample, n_bins)[0].abs().sum(1).cpu().numpy() / len(sample)
    order = np.argsort(-errors, kind="stable")[:n_classes]
    return order, errors[order]


def chance(bins: ReliabilityBins, level: float) -> np.ndarray:
    """(n_bins,) half the range in which the frequency in a bin would lie if its probabilities were true.

    The normal approximation at the mean probability of the bin, whose variance is the largest that the bin can have.
    """
    quantile = NormalDist().inv_cdf(0.5 + level / 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        return quantile * np.sqrt(bins.confidence * (1 - bins.confidence) / bins.counts)


def class_names(names: Sequence[str] | None, n_classes: int) -> list[str]:
    """``names``, one a class, or their numbers, as matplotlib draws them: a dollar sign begins no formula."""
    if names is None:
        return [str(k) for k in range(n_classes)]
    if not np.iterable(names) or len(names := list(names)) != n_classes:
        raise expected("names", f"{n_classes} names, one a class", len(names) if np.iterable(names) else repr(names))
    return [literal(name) for name in names]


def class_reliability(
    probs: Array,
    labels: Array,
    *,
    fig: Figure | None = None,
    n_bins: int = 10,
    n_panels: int = 8,
    columns: int = 4,
    names: Sequence[str] | None = None,
    level: float = 0.95,
) -> Figure:
    """Frequency of each class against the probability given to it, the classes of largest error first.

    A panel is a reliability diagram of one class: the share of labels k among the samples to which the network gave
    class k about that probability. The larger a dot, the more samples; the line is the gap, the grey bar what chance
    would show if the probabilities were true. The number is the error of the class: its term of the class-wise ECE.

    Args:
        probs: (N, K) probabilities.
        labels: (N,) integers in [0, K).
        fig: an empty Figure to draw into; a new one if None.
        n_bins: equal-width bins.
        n_panels: classes shown at most.
        columns: panels a row.
        names: (K,) of the classes; their numbers if None.
        level: of the grey bars.

    Raises:
        ValueError: bad ``probs`` or ``labels``, numbers out of range, not K names.

    Example:
        >>> from matplotlib.figure import Figure
        >>> probs, labels = np.tile([0.7, 0.2, 0.1], (10, 1)), np.repeat([0, 1], 5)
        >>> figure = class_reliability(probs, labels, names=["cat", "dog", "fox"], fig=Figure())
        >>> [ax.get_title() for ax in figure.axes]
        ['dog  30.00%', 'cat  20.00%', 'fox  10.00%']
    """
    sample = Sample.of(probs, labels)
    n_bins, n_panels = check_bins(n_bins), check_int("n_panels", n_panels, 1)
    names, level = class_names(names, sample.probs.shape[1]), check_real("level", level, 0.0, 0.999999)
    order, errors = worst_classes(sample, n_bins, n_panels)
    columns = min(check_int("columns", columns, 1), len(order))
    rows = -(-len(order) // columns)
    fig = figure_of(fig, (1.72 * columns, 1.85 * rows + 0.2))
    panels = fig.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for ax, k, error in zip(panels.flat, order, errors, strict=False):
        bins = reliability_bins(sample, None, n_bins=n_bins, class_index=int(k))
        full = bins.counts > 0
        x, y, half = bins.confidence[full], bins.accuracy[full], chance(bins, level)[full]
        ax.vlines(x, np.clip(x - half, 0, 1), np.clip(x + half, 0, 1), color=GREY, linewidth=4, alpha=0.6)
        ax.plot([0, 1], [0, 1], color=ink(), linewidth=0.8, linestyle="--")
        ax.vlines(x, x, y, color=RED, linewidth=1.2)
        sizes = 4 + 40 * np.sqrt(bins.counts[full] / bins.counts.sum())
        ax.scatter(x, y, sizes, color=on_paper(BLUE), zorder=3, clip_on=False)
        ax.set_title(f"{names[k]}  {100 * error:.2f}%", fontsize=9)
        ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
        ax.set_xticklabels(["0", ".5", "1"])
        ax.set_yticklabels(["0", ".5", "1"])
    for ax in panels.flat[len(order) :]:
        ax.remove()
    for ax in panels.flat[max(len(order) - columns, 0) : len(order)]:
        ax.tick_params(labelbottom=True)
    fig.supxlabel("probability of the class", fontsize=9)
    fig.supylabel("frequency", fontsize=9)
    return fig


#: Points at both ends of the scale.
MOST = 50.0


def class_gaps(
    probs: Array,
    labels: Array,
    *,
    ax: Axes | None = None,
    n_bins: int = 15,
    n_classes: int = 30,
    names: Sequence[str] | None = None,
    level: float = 0.95,
) -> Axes:
    """Gap of each class in each bin of its probability, the classes of largest error on top.

    Vermilion: the network gives the class more probability than it has (p_k above the frequency of label k); blue:
    less. The scale is the same in every figure, and gaps beyond it have its last colour. A cell without samples is
    empty; one whose gap is no larger than chance makes it if the probabilities are true has a dot in place of a colour.
    At a level of 0.95, about one in twenty of those has a colour nevertheless.

    Args:
        probs: (N, K) probabilities.
        labels: (N,) integers in [0, K).
        ax: Axes to draw into; a new one if None.
        n_bins: equal-width bins.
        n_classes: classes shown at most; K may be 1,000 and more.
        names: (K,) of the classes; their numbers if None.
        level: what counts as chance; 0 shows every gap.

    Raises:
        ValueError: bad ``probs`` or ``labels``, numbers out of range, not K names.

    Example:
        >>> from matplotlib.figure import Figure
        >>> probs, labels = np.tile([0.7, 0.2, 0.1], (1000, 1)), np.repeat([0, 1], 500)
        >>> ax = class_gaps(probs, labels, n_bins=5, n_classes=2, ax=Figure().subplots())
        >>> [text.get_text() for text in ax.get_yticklabels()]
        ['1', '0']
        >>> [gap for gap in ax.get_images()[0].get_array().compressed().round(1).tolist()]
        [-30.0, 20.0]
    """
    sample = Sample.of(probs, labels)
    n_bins, n_classes = check_bins(n_bins), check_int("n_classes", n_classes, 1)
    names, level = class_names(names, sample.probs.shape[1]), check_real("level", level, 0.0, 0.999999)
    order, _ = worst_classes(sample, n_bins, n_classes)
    rows = [reliability_bins(sample, None, n_bins=n_bins, class_index=int(k)) for k in order]
    gaps = np.array([bins.confidence - bins.accuracy for bins in rows])  # NaN in an empty bin
    beyond = np.abs(gaps) > np.array([chance(bins, level) for bins in rows])
    ax = axes_of(ax, (6.0, 0.9 + 0.19 * len(order)))
    shown: dict[str, Any] = {"cmap": _diverging(), "vmin": -MOST, "vmax": MOST, "interpolation": "none"}
    extent = (0, 1, len(order) - 0.5, -0.5)
    image = ax.imshow(np.where(beyond, 100 * gaps, np.nan), aspect="auto", extent=extent, **shown)
    y, x = np.nonzero(~beyond & np.isfinite(gaps))
    ax.plot((x + 0.5) / n_bins, y, "o", color=GREY, markersize=1, alpha=0.6)
    ax.set_yticks(range(len(order)), [names[k] for k in order], fontsize=8)
    ax.tick_params(axis="y", length=0)
    ax.grid(False)
    ax.set(xlabel="probability of the class", ylabel="class", xlim=(0, 1))
    bar = ax.figure.colorbar(image, ax=ax, aspect=30, pad=0.02, extend="both")
    bar.set_label("probability less frequency, points")
    bar.outline.set_visible(False)
    return ax


def _diverging() -> Colormap:
    """Blue, clear, red; what is no number is clear too. A page that turns dark shows through."""
    blue, red = to_rgb(on_paper(BLUE)), to_rgb(RED)
    ends = [(0.0, (*blue, 1.0)), (0.5, (*blue, 0.0)), (0.5, (*red, 0.0)), (1.0, (*red, 1.0))]
    return LinearSegmentedColormap.from_list("gaps", ends).with_extremes(bad=(0, 0, 0, 0))
