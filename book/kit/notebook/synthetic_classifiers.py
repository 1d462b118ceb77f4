"""Classifiers that are built, not trained, so that the truth about them is known."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from scipy.optimize import brentq

from calibkit._checks import check_real, expected
from calibkit.metrics.binning import width_bins


def draw_labels(truth: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A label (N,) for each row of true probabilities (N, K).

    Example:
        >>> draw_labels(np.array([[1.0, 0.0], [0.0, 1.0]]), np.random.default_rng(0)).tolist()
        [0, 1]
    """
    below = truth.cumsum(1) < rng.random((len(truth), 1))
    return below.sum(1).clip(max=truth.shape[1] - 1)


def top_label(
    confidence: np.ndarray, right: np.ndarray, n_classes: int = 2, dtype: type = np.float64
) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities (N, K) that predict class 0 with these confidences (N,), the rest in equal parts; and labels: 0
    where that is ``right`` (N,), else 1. ValueError tells of a confidence that another class would exceed.

    Example:
        >>> probs, labels = top_label([0.7, 0.4], [True, False], n_classes=4)
        >>> probs.round(2).tolist(), labels.tolist()
        ([[0.7, 0.1, 0.1, 0.1], [0.4, 0.2, 0.2, 0.2]], [0, 1])
    """
    c, right = np.asarray(confidence, dtype), np.asarray(right, int)
    if c.ndim != 1 or c.shape != right.shape:
        raise expected("right", f"of shape {c.shape} like `confidence`", f"shape {right.shape}")
    if c.min() * n_classes < 1:
        raise expected("confidence", f"at least 1/{n_classes}", c.min())
    probs = np.repeat(((1 - c) / (n_classes - 1))[:, None], n_classes, axis=1)
    probs[:, 0] = c
    return probs, 1 - right


def binned_error(confidence: np.ndarray, truth: np.ndarray, n_bins: int = 15) -> float:
    r"""The ECE of a population, :math:`\sum_m |\sum_{i \in B_m} (\hat p_i - r_i)| / N`: no labels, no chance.

    ``truth`` (N,) is the probability r that the prediction is right; bins are of equal width.

    Example:
        >>> round(binned_error(np.array([0.9, 0.9, 0.6]), np.array([0.7, 0.9, 0.5])), 3)
        0.1
    """
    bins = width_bins(torch.as_tensor(confidence, dtype=torch.float64), n_bins).numpy()
    return float(np.abs(np.bincount(bins, np.subtract(confidence, truth))).sum() / len(bins))


def with_error(
    target: float, family: Callable[[float], tuple[np.ndarray, np.ndarray]]
) -> tuple[np.ndarray, np.ndarray]:
    """The classifier of a family whose true binned ECE is ``target``, a fraction, found by Brent's method.

    The family goes from a size in [0, 1] to (confidence, truth), (N,) each; calibrated at size 0, worse with the size.
    ValueError tells of a target that it does not reach.

    Example:
        >>> c = np.linspace(0.5, 1.0, 101)
        >>> confidence, truth = with_error(0.01, lambda size: (c, c - size * c * (1 - c)))
        >>> round(binned_error(confidence, truth), 6)
        0.01
    """
    largest = binned_error(*family(1.0))
    check_real("target", target, 0.0, largest)
    if target == 0:
        return family(0.0)
    return family(brentq(lambda size: binned_error(*family(size)) - target, 0.0, 1.0))


def true_curve(probs: np.ndarray, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The calibration curve: true probability of the predicted class against the confidence, in 50 bins.

    Of what the classifier says (N, K) and the true probabilities (N, K), or ValueError: the middle of a bin and the
    mean true probability in it, of the bins with more than 20 samples.

    Example:
        >>> probs = np.tile([0.73, 0.27], (30, 1))
        >>> x, y = true_curve(probs, np.tile([0.6, 0.4], (30, 1)))
        >>> x.round(2).tolist(), y.round(2).tolist()
        ([0.73], [0.6])
    """
    if np.ndim(probs) != 2 or np.shape(probs) != np.shape(truth):
        raise expected("truth", f"of shape {np.shape(probs)} like `probs`", f"shape {np.shape(truth)}")
    bins = width_bins(torch.as_tensor(probs.max(1), dtype=torch.float64), 50).numpy()
    counts = np.bincount(bins)
    curve = np.bincount(bins, truth[np.arange(len(probs)), probs.argmax(1)]) / np.maximum(counts, 1)
    seen = np.flatnonzero(counts > 20)
    return (seen + 0.5) / 50, curve[seen]
