"""Gaps of classes by bins, as a map: for many classes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calibkit._checks import Array, check_int, check_real
from calibkit._extras import needs
from calibkit.metrics._sample import Sample
from calibkit.plots.classes import chance, class_bins, class_names, worst_classes
from calibkit.plots.style import BLUE, RED, axes_of, on_paper, paper

with needs("plots"):
    from matplotlib.axes import Axes
    from matplotlib.colors import LinearSegmentedColormap


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

    Red: the network gives the class more probability than it has (p_k above the frequency of label k), blue: less. A
    cell is left empty where no sample lies, and where the gap is no larger than chance makes it if the probabilities
    are true; at a level of 0.95 about one in twenty of those has a colour nevertheless.

    Args:
        probs: (N, K) probabilities.
        labels: (N,) integers in [0, K).
        ax: Axes to draw into; a new one if None.
        n_bins: equal-width bins.
        n_classes: classes shown at most; K may be 1,000 and more.
        names: (K,) of the classes; their numbers if None.
        level: what counts as chance; 0 shows every gap.

    Raises:
        ValueError: bad ``probs`` or ``labels``, ``n_bins`` or ``n_classes`` < 1, ``level`` not in [0, 1), not K names.
    """
    sample = Sample.of(probs, labels)
    n_bins, n_classes = check_int("n_bins", n_bins, 1), check_int("n_classes", n_classes, 1)
    names, level = class_names(names, sample.probs.shape[1]), check_real("level", level, 0.0, 0.999999)
    order, _ = worst_classes(sample, n_bins, n_classes)
    gaps = np.full((len(order), n_bins), np.nan)
    for row, k in zip(gaps, order, strict=True):
        bins = class_bins(sample, n_bins, k)
        gap = bins.confidence - bins.accuracy
        seen = np.abs(gap) > chance(bins, level)  # False in an empty bin, whose gap is NaN
        row[seen] = gap[seen]
    ax = axes_of(ax, (6.0, 0.9 + 0.19 * len(order)))
    most = np.nanmax(np.abs(gaps), initial=0.05)
    shown = {"cmap": _diverging(), "vmin": -100 * most, "vmax": 100 * most, "interpolation": "none"}
    image = ax.imshow(100 * gaps, aspect="auto", extent=(0, 1, len(order) - 0.5, -0.5), **shown)
    ax.set_yticks(range(len(order)), [names[k] for k in order], fontsize=8)
    ax.tick_params(axis="y", length=0)
    ax.grid(False)
    ax.set(xlabel="probability of the class", xlim=(0, 1))
    bar = ax.figure.colorbar(image, ax=ax, aspect=30, pad=0.02)
    bar.set_label("probability less frequency, points")
    bar.outline.set_visible(False)
    return ax


def _diverging() -> LinearSegmentedColormap:
    """Blue, the paper, red; what is no number is paper too."""
    colors = LinearSegmentedColormap.from_list("gaps", [on_paper(BLUE), paper(), RED])
    colors.set_bad(paper())
    return colors
