"""Confidence histogram: where the samples are, and whether they are as sure as they are right."""

from __future__ import annotations

import numpy as np

from calibkit._checks import Array
from calibkit._extras import needs
from calibkit.metrics import reliability_bins
from calibkit.plots.style import BLUE, RED, axes_of, ink, on_paper, paper, wash

with needs("plots"):
    from matplotlib.axes import Axes


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
    ax, share = axes_of(ax), bins.counts / bins.counts.sum()
    bars = {"align": "edge", "color": on_paper(BLUE), "alpha": wash(0.35), "edgecolor": paper()}
    ax.bar(bins.edges[:-1], share, np.diff(bins.edges), **bars)
    for name, value, color in (("mean confidence", bins.confidence, RED), ("accuracy", bins.accuracy, ink())):
        mean = float(np.nansum(share * value))
        ax.axvline(mean, color=color, linestyle="--", label=f"{name} {mean:.3f}")
    ax.set(xlim=(0, 1), xlabel="confidence", ylabel="share of samples")
    ax.legend(loc="upper left")
    return ax
