"""Logarithms of probabilities of which some may be 0: one floor, for the report and for the estimators."""

from __future__ import annotations

import numpy as np


def log_probs(probs: np.ndarray, floor: float | None = None) -> tuple[np.ndarray, float]:
    """(N, K) logarithms of probabilities, and what a zero was taken for.

    A zero counts as ``floor``, or as half the smallest above 0 of its row, if that is less: it stays the smallest.

    Args:
        probs: (N, K).
        floor: of the probabilities that a calibrator was fitted to; None: half the smallest above 0 of these.

    Example:
        >>> logs, floor = log_probs(np.array([[0.0, 1.0], [0.2, 0.8]]))
        >>> np.exp(logs).round(6).tolist(), floor
        ([[0.1, 1.0], [0.2, 0.8]], 0.1)
    """
    zeros, tiny = probs == 0, float(np.finfo(probs.dtype).tiny)
    if floor is None:
        floor = max(float(probs[~zeros].min()) / 2, tiny)
    if zeros.any():
        below = np.where(zeros, np.inf, probs).min(1, keepdims=True) / 2
        probs = np.where(zeros, np.clip(below, tiny, floor), probs)
    return np.log(probs), floor
