"""Gaps of classes by bins, as a map: for many classes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calibkit._checks import Array, check_bins, check_int, check_real
from calibkit._extras import needs
from calibkit.metrics import Sample
from calibkit.plots.classes import chance, class_bins, class_names, worst_classes
from calibkit.plots.style import BLUE, GREY, RED, axes_of, on_paper

with needs("plots"):
    from matplotlib.axes import Axes
    from matplotlib.colors import LinearSegmentedColormap, to_rgb

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
        ValueError: bad ``probs`` or ``labels``, ``n_bins`` or ``n_classes`` < 1, ``level`` not in [0, 1), not K names.

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
    rows = [class_bins(sample, n_bins, k) for k in order]
    gaps = np.array([bins.confidence - bins.accuracy for bins in rows])  # NaN in an empty bin
    beyond = np.abs(gaps) > np.array([chance(bins, level) for bins in rows])
    ax = axes_of(ax, (6.0, 0.9 + 0.19 * len(order)))
    shown = {"cmap": _diverging(), "vmin": -MOST, "vmax": MOST, "interpolation": "none"}
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


def _diverging() -> LinearSegmentedColormap:
    """Blue, clear, red; what is no number is clear too. A page that turns dark shows through."""
    blue, red = to_rgb(on_paper(BLUE)), to_rgb(RED)
    ends = [(0.0, (*blue, 1.0)), (0.5, (*blue, 0.0)), (0.5, (*red, 0.0)), (1.0, (*red, 1.0))]
    return LinearSegmentedColormap.from_list("gaps", ends).with_extremes(bad=(0, 0, 0, 0))
