"""Diagrams side by side: a network before and after, or any methods that are to be compared by eye."""

from __future__ import annotations

from collections.abc import Mapping

from calibkit._checks import Array, expected
from calibkit._extras import needs
from calibkit.metrics import reliability_bins
from calibkit.metrics.binning import Scheme
from calibkit.plots.reliability import reliability_diagram

with needs("plots"):
    from matplotlib import pyplot
    from matplotlib.figure import Figure

#: Panels a row, and inches a panel: on a page of 7 inches more would be too small to read.
COLUMNS, SIZE = 3, {1: 3.4, 2: 3.2, 3: 2.3}


def before_after(
    methods: Mapping[str, Array],
    labels: Array,
    *,
    fig: Figure | None = None,
    n_bins: int = 15,
    scheme: Scheme = "width",
    counts: bool = True,
    interval: bool = True,
) -> Figure:
    """A reliability diagram a method, of the same samples, with shared axes and one legend.

    Args:
        methods: title -> (N, K) probabilities: two of them, such as before and after, or more.
        labels: (N,) integers in [0, K).
        fig: an empty Figure to draw into; a new one if None.
        n_bins: as in :func:`reliability_diagram`, as are ``scheme``, ``counts`` and ``interval``.
        scheme: see there.
        counts: see there.
        interval: see there.

    Raises:
        ValueError: ``methods`` is empty; what :func:`reliability_diagram` refuses.

    Example:
        >>> import numpy as np
        >>> sure, labels = np.tile([0.95, 0.05], (3, 1)), np.array([0, 0, 1])
        >>> figure = before_after({"before": sure, "after": 0.6 * sure + 0.2}, labels)
        >>> [ax.get_title() for ax in figure.axes]
        ['before', 'after']
    """
    if not methods:
        raise expected("methods", "at least one name with its probabilities", "none")
    for probs in methods.values():  # all are checked before a figure is made
        reliability_bins(probs, labels, n_bins=n_bins, scheme=scheme)
    columns = min(len(methods), COLUMNS)
    rows, size = -(-len(methods) // columns), SIZE[columns]
    figsize = (size * columns, (0.85 * size + 0.42 + 0.25 * counts) * rows + 0.3)
    fig = fig or pyplot.figure(figsize=figsize, layout="constrained")
    panels = fig.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for ax, (title, probs) in zip(panels.flat, methods.items(), strict=False):
        reliability_diagram(probs, labels, ax=ax, n_bins=n_bins, scheme=scheme, counts=counts, interval=interval)
        handles = ax.get_legend_handles_labels()
        ax.get_legend().remove()
        ax.set_title(title.replace("_", " "))
        if columns > 2:
            ax.set(xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
        ax.label_outer()
    for ax in panels.flat[len(methods) :]:
        ax.remove()
    for ax in panels.flat[max(len(methods) - columns, 0) : len(methods)]:  # the lowest of each column
        ax.set_xlabel("confidence")
        ax.tick_params(labelbottom=True)
    fig.legend(*handles, loc="outside upper center", ncols=len(handles[0]), borderpad=0.8, frameon=False)
    return fig
