"""Classifiers that are built, not trained, so that the truth about them is known."""

from __future__ import annotations

import numpy as np

from calibkit._checks import check_int, expected


def draw_labels(truth: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A label (N,) for each row of true probabilities (N, K).

    Example:
        >>> draw_labels(np.array([[1.0, 0.0], [0.0, 1.0]]), np.random.default_rng(0)).tolist()
        [0, 1]
    """
    below = truth.cumsum(1) < rng.random((len(truth), 1))
    return below.sum(1).clip(max=truth.shape[1] - 1)


def two_classes(confidence: np.ndarray, right: np.ndarray, dtype: type = np.float64) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities (N, 2) that predict class 0 with these confidences (N,), and labels that are right or not.

    Raises:
        ValueError: not as many confidences as outcomes.

    Example:
        >>> probs, labels = two_classes([0.75, 0.5], [True, False])
        >>> probs.tolist(), labels.tolist()
        ([[0.75, 0.25], [0.5, 0.5]], [0, 1])
    """
    c, right = np.asarray(confidence, dtype), np.asarray(right, int)
    if c.ndim != 1 or c.shape != right.shape:
        raise expected("right", f"of shape {c.shape} like `confidence`", f"shape {right.shape}")
    return np.column_stack([c, 1 - c]), 1 - right


def true_curve(
    probs: np.ndarray, truth: np.ndarray, *, n_bins: int = 50, least: int = 20
) -> tuple[np.ndarray, np.ndarray]:
    """The calibration curve: true probability of the predicted class against the confidence, by fine bins.

    Args:
        probs: (N, K) what the classifier says.
        truth: (N, K) true probabilities.
        n_bins: of equal width.
        least: bins with so many samples, or fewer, are left out.

    Returns:
        Middle of the bin, and mean true probability in it.

    Raises:
        ValueError: arrays of different shapes.

    Example:
        >>> probs = np.tile([0.73, 0.27], (30, 1))
        >>> x, y = true_curve(probs, np.tile([0.6, 0.4], (30, 1)))
        >>> x.round(2).tolist(), y.round(2).tolist()
        ([0.73], [0.6])
    """
    if np.ndim(probs) != 2 or np.shape(probs) != np.shape(truth):
        raise expected("truth", f"of shape {np.shape(probs)} like `probs`", f"shape {np.shape(truth)}")
    check_int("n_bins", n_bins, 1)
    bins = (n_bins * probs.max(1)).astype(int)
    counts = np.bincount(bins)
    curve = np.bincount(bins, truth[np.arange(len(probs)), probs.argmax(1)]) / np.maximum(counts, 1)
    seen = np.flatnonzero(counts > least)
    return (seen + 0.5) / n_bins, curve[seen]
