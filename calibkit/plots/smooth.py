"""Smooth reliability curve: accuracy against confidence without bins, with a band."""

from __future__ import annotations

import numpy as np
import torch

from calibkit._checks import Array, check_draws, check_int, check_real
from calibkit._extras import needs
from calibkit.metrics import Sample
from calibkit.metrics.ece_alternatives import GRID, MIN_WIDTH, reflected, smooth_ece
from calibkit.plots.style import BLUE, GREY, axes_of, drawable, ink, on_paper, wash

with needs("plots"):
    from matplotlib.axes import Axes

#: Points of the curve, and the fewest samples that the kernel must see for one of them.
POINTS, FEWEST = 257, 10.0


def smooth_reliability(
    probs: Array,
    labels: Array,
    *,
    ax: Axes | None = None,
    width: float | None = None,
    n_resamples: int = 200,
    level: float = 0.95,
    seed: int = 0,
    color: str = BLUE,
    label: str = "accuracy",
) -> Axes:
    r"""Kernel-smoothed accuracy against confidence, with a band from the bootstrap, and where the samples are.

    .. math:: a(t) = t - \frac{\sum_i K_\sigma(t, \kappa_i) (\kappa_i - 1[\hat y_i = y_i])}
                              {\sum_i K_\sigma(t, \kappa_i)}

    with the confidence kappa and the Gaussian K of standard deviation sigma, reflected at 0 and 1, of ``smooth_ece``
    (Blasiok & Nakkiran 2024). It is the gap that is smoothed: a calibrated network lies on the diagonal up to its ends,
    and the area between curve and diagonal, weighted with the density, is the smooth ECE. Below the diagonal the
    network is over-confident. The band holds 95% of the resampled curves at each confidence by itself. The curve ends
    where the kernel sees fewer than ten samples; the grey area is the density.

    Args:
        probs: (N, K) probabilities.
        labels: (N,) integers in [0, K).
        ax: Axes to draw into; a new one if None.
        width: sigma; None for the one that smooth ECE chooses, where width and error are equal.
        n_resamples: resamples behind the band.
        level: its coverage.
        seed: of the resampling.
        color: of curve and band.
        label: of the curve in the legend.

    Raises:
        ValueError: bad ``probs`` or ``labels``, ``width`` not in [0.001, 1], other numbers out of range.

    Example:
        >>> from matplotlib.figure import Figure
        >>> probs, labels = np.tile([0.9, 0.1], (400, 1)), np.repeat([0, 1], 200)
        >>> ax = smooth_reliability(probs, labels, ax=Figure().subplots())
        >>> ax.texts[0].get_text()
        'smooth ECE 40.00%'
    """
    sample = Sample.of(probs, labels)
    error = smooth_ece(sample, None)
    width = max(error, MIN_WIDTH) if width is None else check_real("width", width, MIN_WIDTH, 1.0)
    n_resamples, level = check_draws("n_resamples", n_resamples), check_real("level", level, 0.0, 1.0)
    all_, right = _node_counts(sample)
    density, accuracy = smooth_accuracy(all_, right, width)
    rng = np.random.default_rng(check_int("seed", seed, 0))
    curves = []
    for _ in range(n_resamples):  # as many samples of each kind at each node as resampling gives: about Poisson
        hits, misses = rng.poisson(right), rng.poisson(all_ - right)
        curves.append(smooth_accuracy(hits + misses, hits, width)[1])
    tail = (1 - level) / 2
    seen = density * 2 * np.sqrt(np.pi) * width >= FEWEST  # samples of equal weight with the variance of the kernel's
    low, high = np.full((2, POINTS), np.nan)
    if seen.any():
        low[seen], high[seen] = np.nanquantile(np.array(curves)[:, seen], (tail, 1 - tail), axis=0).clip(0, 1)
    color, t, ax = on_paper(color), np.linspace(0, 1, POINTS), axes_of(ax, (3.6, 3.6))
    ax.fill_between(t, 0, 0.15 * density / density.max(), color=GREY, alpha=wash(0.35), linewidth=0, label="density")
    ax.plot([0, 1], [0, 1], color=ink(), linewidth=0.8, linestyle="--")
    ax.fill_between(t, low, high, color=color, alpha=wash(0.2), linewidth=0, label=f"{100 * level:g}% band")
    ax.plot(t, np.where(seen, accuracy, np.nan).clip(0, 1), color=color, label=drawable(label))
    ax.text(0.97, 0.2, f"smooth ECE {100 * error:.2f}%", transform=ax.transAxes, ha="right")
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="confidence", ylabel="accuracy", aspect="equal")
    ax.legend(loc="upper left")
    return ax


def smooth_accuracy(counts: np.ndarray, right: np.ndarray, width: float) -> tuple[np.ndarray, np.ndarray]:
    """Density of the samples, in samples a unit of confidence, and their accuracy: (POINTS,) each, even on [0, 1].

    ``counts`` (GRID + 1,) are the samples at each node of confidence, ``right`` those of them that are right.
    """
    nodes = torch.arange(GRID + 1, dtype=torch.float64) / GRID
    damping = torch.exp(-0.5 * (torch.pi * torch.arange(GRID + 1, dtype=torch.float64) * width) ** 2)
    all_, hits = (torch.as_tensor(mass).double() for mass in (counts, right))
    smoothed = (
        torch.fft.irfft(torch.fft.rfft(reflected(nodes, mass)) * damping, 2 * GRID)
        for mass in (all_, all_ * nodes - hits)
    )
    density, gap = (GRID * values[: GRID + 1 : GRID // (POINTS - 1)].numpy() for values in smoothed)
    floor = 1e-9 * max(density.max(), 1.0)  # below lies the rounding of the transform
    accuracy = np.linspace(0, 1, POINTS) - gap / np.maximum(density, floor)
    return density, np.where(density > floor, accuracy, np.nan)


def _node_counts(sample: Sample) -> tuple[np.ndarray, np.ndarray]:
    """Samples, and right ones, at the nearest of GRID + 1 confidences."""
    node = (sample.confidence.double().clamp(max=1.0) * GRID).round().long().cpu()
    all_, right = (torch.bincount(of, minlength=GRID + 1).numpy() for of in (node, node[sample.correct.cpu()]))
    return all_, right
