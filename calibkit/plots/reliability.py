"""Reliability: accuracy against confidence in bins, of one network, of several, by groups and periods; a histogram."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature
from typing import Any

import numpy as np

from calibkit._checks import Array, check_draws, check_flag, check_int, check_real, expected, scan_probs
from calibkit._extras import needs
from calibkit.metrics import ReliabilityBins, Sample, adaptive_ece, ece, reliability_bins
from calibkit.metrics.binning import BinCount, Scheme
from calibkit.metrics.calibrated import split_by_group
from calibkit.metrics.monitor import Monitor, Periods, keys_of
from calibkit.plots.style import BLUE, GREY, RED, axes_of, drawable, figure_of, ink, literal, on_paper, paper, wash

with needs("plots"):
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def reliability_diagram(
    probs: Array,
    labels: Array,
    *,
    ax: Axes | None = None,
    n_bins: BinCount = 15,
    scheme: Scheme = "width",
    counts: bool = True,
    interval: bool = True,
    n_resamples: int = 200,
    level: float = 0.95,
    seed: int = 0,
) -> Axes:
    """Accuracy against confidence, by bins of confidence, with consistency bars.

    A blue bar is the accuracy in a bin; the vermilion line from it to the diagonal is the gap that ECE averages. The
    grey bar is where the accuracy of a calibrated network with these confidences would lie (Bröcker & Smith 2007): a
    gap inside it is no evidence of miscalibration. The strip on top shows how many samples each bin holds.

    Args:
        probs: (N, K) probabilities.
        labels: (N,) integers in [0, K).
        ax: Axes to draw into; a new one if None.
        n_bins: number of bins; 15 as for ``ece``. "auto" as in ``adaptive_ece``.
        scheme: ``"width"`` for equal width, the bins of ``ece``; ``"mass"`` for equal mass, those of ``adaptive_ece``.
            The error that is written goes with it.
        counts: whether to draw the strip.
        interval: whether to draw the consistency bars.
        n_resamples: behind the bars.
        level: coverage of the bars, in [0, 1].
        seed: of the resampling, >= 0.

    Raises:
        ValueError: bad ``probs`` or ``labels``, an unknown scheme, numbers out of range.
    """
    counts = check_flag("counts", counts)
    resampling = {"n_resamples": n_resamples, "level": level, "seed": seed}
    numbers = _numbers(probs, labels, n_bins=n_bins, scheme=scheme, interval=interval, **resampling)
    ax = axes_of(ax, (3.6, 4.0) if counts else (3.6, 3.6))
    _draw(ax, *numbers, counts=counts)
    return ax


def _numbers(
    probs: Array, labels: Array, n_bins: BinCount = 15, scheme: Scheme = "width", interval: bool = True, **how: Any
) -> tuple[ReliabilityBins, str, tuple[np.ndarray, np.ndarray] | None]:
    """What a diagram shows: its bins, the error that is written, the consistency bars; all is checked here."""
    signature(consistency_interval).bind(probs, None, **how)  # TypeError of an unknown option
    interval = check_flag("interval", interval)
    bins = reliability_bins(probs, labels, n_bins=n_bins, scheme=scheme)
    name, error_of = ("ECE", ece) if scheme == "width" else ("AECE", adaptive_ece)
    error = f"{name} {100 * error_of(probs, labels, n_bins=len(bins.counts)):.2f}%"
    chance = consistency_interval(probs, bins, **how) if interval else None
    return bins, error, chance


def _draw(
    ax: Axes, bins: ReliabilityBins, error: str, chance: tuple[np.ndarray, np.ndarray] | None, *, counts: bool
) -> None:
    full, lower, width = bins.counts > 0, bins.edges[:-1], np.diff(bins.edges).clip(min=0.002)  # of one confidence: 0
    blue = on_paper(BLUE)
    bars: dict[str, Any] = {"align": "edge", "color": blue, "alpha": wash(0.35), "edgecolor": paper()}
    ax.bar(lower[full], bins.accuracy[full], width[full], **bars, label="accuracy")
    if chance is not None:
        low, high = (end[full] for end in chance)
        ax.vlines(bins.confidence[full], low, high, color=GREY, linewidth=5, alpha=0.6, label="if calibrated")
    ax.plot([0, 1], [0, 1], color=ink(), linewidth=0.8, linestyle="--")
    ax.vlines(bins.confidence[full], bins.accuracy[full], bins.confidence[full], color=RED, linewidth=1.2, label="gap")
    ax.plot(bins.confidence[full], bins.accuracy[full], "o", color=blue, markersize=3.5)
    ax.text(0.97, 0.05, error, transform=ax.transAxes, ha="right")
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="confidence", ylabel="accuracy", aspect="equal")
    ax.legend(loc="upper left")
    if counts:
        _strip(ax, bins, width)


def _strip(ax: Axes, bins: ReliabilityBins, width: np.ndarray) -> None:
    """The samples of each bin, on top of a diagram; its one tick is how many the fullest bin holds."""
    strip = ax.inset_axes((0, 1.03, 1, 0.13), sharex=ax)
    strip.bar(bins.edges[:-1], bins.counts, width, align="edge", color=GREY, edgecolor=paper())
    most = int(bins.counts.max())
    strip.set(ylim=(0, most), yticks=[most], yticklabels=[f"{most:,}"])
    strip.tick_params(bottom=False, labelbottom=False, labelsize=8)
    strip.spines["left"].set_visible(False)
    strip.grid(False)


def consistency_interval(
    probs: Array, bins: ReliabilityBins, *, n_resamples: int = 200, level: float = 0.95, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper accuracy (n_bins,) that a calibrated network would show in each bin; NaN in an empty one.

    The confidences are kept and the correctness of each sample drawn with its confidence as probability.

    Args:
        probs: (N, K) probabilities.
        bins: of the top label of ``probs``, by either scheme.
        n_resamples: 1 or more.
        level: coverage, in [0, 1].
        seed: of the resampling, >= 0.

    Raises:
        ValueError: bad ``probs``, ``bins`` of other samples or of a class, numbers out of range.
    """
    n_resamples, level = check_draws("n_resamples", n_resamples), check_real("level", level, 0.0, 1.0)
    if not isinstance(bins, ReliabilityBins):
        raise expected("bins", "what reliability_bins gives", type(bins).__name__)
    confidence = scan_probs(probs)[1].clamp(max=1.0).cpu().numpy()
    n_bins = len(bins.counts)
    index = np.searchsorted(bins.edges[1:-1], confidence, side="left")
    if not np.array_equal(np.bincount(index, minlength=n_bins), bins.counts):
        raise expected("bins", "those of the top label of `probs`", "bins of other samples or of a class")
    rng = np.random.default_rng(check_int("seed", seed, 0))
    accuracy = np.full((n_resamples, n_bins), np.nan)
    full = bins.counts > 0
    for row in accuracy:
        correct = np.bincount(index, weights=rng.random(len(confidence)) < confidence, minlength=n_bins)
        row[full] = correct[full] / bins.counts[full]
    tail = (1 - level) / 2
    low, high = np.full((2, n_bins), np.nan)
    low[full], high[full] = np.quantile(accuracy[:, full], (tail, 1 - tail), axis=0)
    return low, high


TICKS = 8  # periods that are named at most
#: Panels a row, and inches a panel: on a page of 7 inches more would be too small to read.
COLUMNS, SIZE = 3, {1: 3.4, 2: 3.2, 3: 2.3}


def before_after(methods: Mapping[str, Array], labels: Array, *, fig: Figure | None = None, **options: Any) -> Figure:
    """A reliability diagram a method, of the same samples, with shared axes and one legend.

    Args:
        methods: title -> (N, K) probabilities: two of them, such as before and after, or more.
        labels: (N,) integers in [0, K).
        fig: an empty Figure to draw into; a new one if None.
        options: of :func:`reliability_diagram`: n_bins, scheme, counts, interval, n_resamples, level, seed.

    Raises:
        ValueError: ``methods`` is empty; what :func:`reliability_diagram` refuses.

    Example:
        >>> sure, labels = np.tile([0.95, 0.05], (3, 1)), np.array([0, 0, 1])
        >>> figure = before_after({"before": sure, "after": 0.6 * sure + 0.2}, labels)
        >>> [ax.get_title() for ax in figure.axes]
        ['before', 'after']
    """
    if not isinstance(methods, Mapping) or not methods:
        got = "none" if isinstance(methods, Mapping) else type(methods).__name__
        raise expected("methods", "at least one name with its probabilities", got)
    samples = [Sample.of(probs, labels, f"methods[{name!r}]") for name, probs in methods.items()]
    return _panels([drawable(title).replace("_", " ") for title in methods], samples, fig, **options)


def reliability_by_group(
    probs: Array, labels: Array, groups: object, *, fig: Figure | None = None, **options: Any
) -> Figure:
    """A reliability diagram a group, such as ages or sites; which are beyond chance says ``calibration_by_group``.

    Args:
        probs: (N, K) probabilities.
        labels: (N,) integers in [0, K).
        groups: (N,) integers or strings.
        fig: an empty Figure to draw into; a new one if None.
        options: as in :func:`before_after`.

    Raises:
        ValueError: bad ``groups``; what :func:`reliability_diagram` refuses.

    Example:
        >>> sure, labels = np.tile([0.95, 0.05], (4, 1)), np.array([0, 0, 1, 0])
        >>> [ax.get_title() for ax in reliability_by_group(sure, labels, ["young", "old", "young", "old"]).axes]
        ['old', 'young']
    """
    found = split_by_group(Sample.of(probs, labels), groups)
    return _panels(list(map(literal, found)), list(found.values()), fig, **options)


def _panels(titles: list[str], parts: list[Sample], fig: Figure | None, counts: bool = True, **options: Any) -> Figure:
    """A diagram a sample, with shared axes and one legend."""
    check_flag("counts", counts)
    numbers = [_numbers(of.probs, of.labels, **options) for of in parts]  # or it raises, without a figure
    columns = min(len(parts), COLUMNS)
    rows, size = -(-len(parts) // columns), SIZE[columns]
    fig = figure_of(fig, (size * columns, (0.85 * size + 0.42 + 0.25 * counts) * rows + 0.3))
    panels = fig.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for ax, title, of in zip(panels.flat, titles, numbers, strict=False):
        _draw(ax, *of, counts=counts)
        handles = ax.get_legend_handles_labels()
        ax.get_legend().remove()
        ax.set_title(title)
        if columns > 2:
            ax.set(xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
        ax.label_outer()
    for ax in panels.flat[len(parts) :]:
        ax.remove()
    for ax in panels.flat[max(len(parts) - columns, 0) : len(parts)]:  # the lowest of each column
        ax.set_xlabel("confidence")
        ax.tick_params(labelbottom=True)
    fig.legend(*handles, loc="outside upper center", ncols=len(handles[0]), borderpad=0.8, frameon=False)
    if isinstance(fig, Figure):  # a part of a figure is laid out with the whole
        fig.draw_without_rendering()  # strips move the axes once: the first picture that is saved would be cut
    return fig


def confidence_histogram(probs: Array, labels: Array, *, ax: Axes | None = None, n_bins: int = 15) -> Axes:
    """Share of samples by confidence, with the mean confidence and the accuracy as lines.

    Where the line of confidence lies right of that of accuracy, the network is over-confident on average. Arguments as
    in :func:`reliability_diagram`, with bins of equal width.

    Raises:
        ValueError: bad ``probs`` or ``labels``, ``n_bins`` < 1.
    """
    bins = reliability_bins(probs, labels, n_bins=n_bins)
    ax, share = axes_of(ax), bins.counts / bins.counts.sum()
    bars: dict[str, Any] = {"align": "edge", "color": on_paper(BLUE), "alpha": wash(0.35), "edgecolor": paper()}
    ax.bar(bins.edges[:-1], share, np.diff(bins.edges), **bars)
    for name, value, color in (("mean confidence", bins.confidence, RED), ("accuracy", bins.accuracy, ink())):
        mean = float(np.nansum(share * value))
        ax.axvline(mean, color=color, linestyle="--", label=f"{name} {mean:.3f}")
    ax.set(xlim=(0, 1), xlabel="confidence", ylabel="share of samples")
    ax.legend(loc="upper left")
    return ax


def ece_by_period(monitor: Monitor, *, drifted: Periods = (), ax: Axes | None = None) -> Axes:
    """The ECE of each period of a monitor, above a band: a point inside is no sign of miscalibration.

    The band ends at ``ece_null`` of :meth:`Monitor.report`: what the ECE of a calibrated network exceeds by chance in
    one period of twenty.

    Args:
        monitor: with at least one period.
        drifted: a period or several, texts or dates, that are marked, such as those that ``drift_by_period`` finds.
        ax: Axes to draw into; a new one if None.

    Raises:
        ValueError: a monitor without a period, or a period in ``drifted`` that it does not have.

    Example:
        >>> from matplotlib.figure import Figure
        >>> from calibkit.metrics import Monitor
        >>> monitor = Monitor()
        >>> for day, label in (("Monday", 0), ("Tuesday", 1)):
        ...     monitor.update([[0.9, 0.1]] * 50, [label] * 50, day)
        >>> ax = ece_by_period(monitor, drifted=["Tuesday"], ax=Figure().subplots())
        >>> ax.lines[0].get_ydata().round(1).tolist()
        [10.0, 90.0]
    """
    rows = monitor.report() if isinstance(monitor, Monitor) else []
    if not rows:
        raise expected("monitor", "one with a period", "none")
    names = [str(row["period"]) for row in rows]
    for name in (marks := keys_of(drifted)):
        if name not in names:
            raise expected("drifted", f"periods of the monitor, {names[0]} to {names[-1]}", repr(name))
    ax, x = axes_of(ax, (6.5, 2.6)), np.arange(len(rows))
    error, null = (100 * np.array([float(row[key]) for row in rows]) for key in ("ece", "ece_null"))
    ax.bar(x, null, 1, color=GREY, alpha=wash(0.3), linewidth=0, label="calibrated, 19 in 20")
    ax.plot(x, error, "o-", color=on_paper(BLUE), markersize=4, linewidth=1, label="ECE")
    marked = [i for i, name in enumerate(names) if name in set(marks)]
    if marked:
        ax.plot(x[marked], error[marked], "o", color=RED, markersize=7, label="drifted")
    step = -(-len(rows) // TICKS)
    ax.set_xticks(x[::step], map(literal, names[::step]), rotation=30, ha="right", rotation_mode="anchor")
    ax.set(ylabel="ECE, %", ylim=(0, None))
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3)
    return ax
