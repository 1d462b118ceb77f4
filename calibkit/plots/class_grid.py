"""Class-wise reliability: a small panel a class, the worst first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calibkit._checks import Array, check_bins, check_int, check_real
from calibkit._extras import needs
from calibkit.metrics import Sample
from calibkit.plots.classes import chance, class_bins, class_names, worst_classes
from calibkit.plots.style import BLUE, GREY, RED, ink, on_paper

with needs("plots"):
    from matplotlib import pyplot
    from matplotlib.figure import Figure


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
    class k about that probability. The larger a dot, the more samples; the vermilion line is the gap, the grey bar what
    chance would show if the probabilities were true. The number is the error of the class, of which the class-wise ECE
    is the mean over all K.

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
        ValueError: bad ``probs`` or ``labels``, ``n_bins``, ``n_panels`` or ``columns`` < 1, a ``level`` that is not
            between 0 and 1, not K names.

    Example:
        >>> from matplotlib.figure import Figure
        >>> probs, labels = np.tile([0.7, 0.2, 0.1], (10, 1)), np.repeat([0, 1], 5)
        >>> figure = class_reliability(probs, labels, names=["cat", "dog", "fox"], fig=Figure())
        >>> [ax.get_title() for ax in figure.axes]
        ['dog  30.00 %', 'cat  20.00 %', 'fox  10.00 %']
    """
    sample = Sample.of(probs, labels)
    n_bins, n_panels = check_bins(n_bins), check_int("n_panels", n_panels, 1)
    names, level = class_names(names, sample.probs.shape[1]), check_real("level", level, 0.0, 0.999999)
    order, errors = worst_classes(sample, n_bins, n_panels)
    columns = min(check_int("columns", columns, 1), len(order))
    rows = -(-len(order) // columns)
    fig = fig or pyplot.figure(figsize=(1.72 * columns, 1.85 * rows + 0.2), layout="constrained")
    panels = fig.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for ax, k, error in zip(panels.flat, order, errors, strict=False):
        bins = class_bins(sample, n_bins, k)
        full = bins.counts > 0
        x, y, half = bins.confidence[full], bins.accuracy[full], chance(bins, level)[full]
        ax.vlines(x, np.clip(x - half, 0, 1), np.clip(x + half, 0, 1), color=GREY, linewidth=4, alpha=0.6)
        ax.plot([0, 1], [0, 1], color=ink(), linewidth=0.8, linestyle="--")
        ax.vlines(x, x, y, color=RED, linewidth=1.2)
        sizes = 4 + 40 * np.sqrt(bins.counts[full] / bins.counts.sum())
        ax.scatter(x, y, sizes, color=on_paper(BLUE), zorder=3, clip_on=False)
        ax.set_title(f"{names[k]}  {100 * error:.2f} %", fontsize=9)
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
