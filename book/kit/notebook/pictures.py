"""Figures that more than one chapter draws, from numbers that are computed elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from calibkit import plots
from calibkit._checks import Array, expected
from calibkit.plots.reliability import COLUMNS, SIZE
from calibkit.plots.style import axes_of


def reliability_row(
    samples: Mapping[str, tuple[Array, Array]],
    *,
    n_bins: int = 15,
    interval: bool = True,
    histogram: bool = False,
    curves: Mapping[str, tuple[Array, Array]] | None = None,
) -> Figure:
    """A reliability diagram of each sample, at most three a row, with one legend for all of them.

    Samples are (probs, labels) by their title, ``curves`` by title the points (x, y) of the true calibration curve,
    where it is known. Each shows where its samples are: as a strip on top or, with ``histogram``, in a panel below with
    its mean confidence and the accuracy. ``interval`` says whether to draw the consistency bars. ValueError tells of no
    sample, of one that :func:`calibkit.plots.reliability_diagram` refuses, and of more than three with ``histogram``.
    """
    if not samples or histogram and len(samples) > COLUMNS:
        raise expected("samples", f"one to {COLUMNS} (probs, labels)", f"{len(samples)}")
    columns = 2 if len(samples) == 4 else min(len(samples), COLUMNS)
    n_rows = -(-len(samples) // columns)
    size = min(SIZE[columns], 3.2 if n_rows == 1 else 2.5)
    height = (1.4 if histogram else 0.96) * size * n_rows + 0.5
    ratios = (3, 1) if histogram else (1,) * n_rows
    figure, axes = plt.subplots(
        len(ratios), columns, figsize=(size * columns, height), height_ratios=ratios, sharex=True, squeeze=False
    )
    for i, (title, (probs, labels)) in enumerate(samples.items()):
        ax = axes.flat[i]
        plots.reliability_diagram(probs, labels, ax=ax, n_bins=n_bins, counts=not histogram, interval=interval)
        if curves and title in curves:
            ax.plot(*curves[title], color=plots.GREEN, linewidth=2, label="truth")
        handles = ax.get_legend_handles_labels()
        ax.get_legend().remove()
        ax.set(title=title.replace("_", " "), xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
        if histogram:
            below = plots.confidence_histogram(probs, labels, ax=axes[1, i], n_bins=n_bins)
            below.get_legend().remove()
            below.set_ylabel("share")
        ax.label_outer()
    for ax in axes.flat[len(samples) if not histogram else axes.size :]:
        ax.remove()
    if not histogram:
        for ax in axes.flat[max(len(samples) - columns, 0) : len(samples)]:  # the lowest of each column
            ax.set_xlabel("confidence")
            ax.tick_params(labelbottom=True)
    figure.legend(*handles, loc="outside upper center", ncols=len(handles[0]))
    return figure


def grouped_bars(
    names: Sequence[object],
    values: Mapping[str, Array],
    *,
    ax: Axes | None = None,
    colors: Sequence[str] = plots.COLORS,
    width: float = 0.8,
) -> Axes:
    """Bars side by side in each group: one group a name, one bar a series (G,), by its label, in a colour of its own.

    ``width`` is that of a whole group, where 1 leaves no gap. ValueError tells of a series that has not one value a
    group, and of more series than colours.
    """
    wrong = [label for label, of_series in values.items() if np.shape(of_series) != (len(names),)]
    if wrong:
        raise expected("values", f"{len(names)} values a series, one a name", f"others for {wrong[0]!r}")
    if len(colors) < len(values):
        raise expected("colors", f"at least {len(values)} colours", len(colors))
    ax = axes_of(ax)
    each = width / max(len(values), 1)
    for i, (label, of_series) in enumerate(values.items()):
        at = np.arange(len(names)) + each * (i - (len(values) - 1) / 2)
        ax.bar(at, np.asarray(of_series), each, color=colors[i], label=label)
    ax.set_xticks(range(len(names)), [str(name) for name in names])
    ax.legend()
    return ax


def band(
    x: Array,
    middle: Array,
    low: Array,
    high: Array,
    *,
    ax: Axes | None = None,
    color: str = plots.BLUE,
    label: str | None = None,
    line: str = "o-",
) -> Axes:
    """A line ``middle`` and the range from ``low`` to ``high`` about it, each (N,), at ``x`` (N,); else ValueError."""
    x, middle, low, high = (np.asarray(values) for values in (x, middle, low, high))
    for name, values in (("middle", middle), ("low", low), ("high", high)):
        if values.shape != x.shape or x.ndim != 1:
            raise expected(name, "1-D, one value for each of `x`", f"shape {values.shape} for {x.shape}")
    ax = axes_of(ax)
    ax.plot(x, middle, line, color=color, label=label)
    ax.fill_between(x, low, high, color=color, alpha=0.15, linewidth=0)
    return ax


def mean_band(x: Array, draws: Array, **style) -> Axes:
    """The mean over draws (N, D), D >= 2, with two standard errors of it on both sides, at ``x`` (N,); else ValueError.

    ``style`` is ``ax``, ``color``, ``label`` and ``line`` of :func:`band`.
    """
    draws = np.asarray(draws)
    if draws.ndim != 2 or draws.shape[1] < 2:
        raise expected("draws", "of shape (N, D) with D >= 2", f"shape {draws.shape}")
    half = 2 * draws.std(1, ddof=1) / np.sqrt(draws.shape[1])
    mean = draws.mean(1)
    return band(x, mean, mean - half, mean + half, **style)


def image(
    pixels: Array, *, ax: Axes | None = None, title: str = "", low: float | Array = 0.0, high: float | Array = 1.0
) -> Axes:
    """A picture without ticks: (H, W), or (C, H, W) with C = 1 or 3 as a network takes them; ValueError of another.

    ``low`` is the value that is black and ``high`` the one that is white: a number, or one a channel.
    """
    pixels = np.asarray(pixels)
    if pixels.ndim == 2:
        pixels = pixels[None]
    if pixels.ndim != 3 or len(pixels) not in (1, 3):
        raise expected("pixels", "of shape (H, W), (1, H, W) or (3, H, W)", f"{pixels.shape}")
    low, high = (np.broadcast_to(np.asarray(end, float), len(pixels))[:, None, None] for end in (low, high))
    scaled = np.clip((pixels - low) / (high - low), 0, 1).transpose(1, 2, 0)
    ax = axes_of(ax)
    ax.imshow(scaled[..., 0] if len(pixels) == 1 else scaled, cmap="gray", vmin=0, vmax=1)
    ax.set(title=title.replace("_", " "), xticks=[], yticks=[])
    ax.grid(False)
    return ax
