"""Predictions that tell implementations apart: gaps of both signs, ties, saturation, few rows."""

import numpy as np
import pytest
from scipy.special import softmax

HARD = ("mixed", "saturated", "ties", "uniform", "few", "one", "missing_class", "two_classes", "on_edges", "one_hot")


def make(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Float64 probabilities and labels of one hard case."""
    rng = np.random.default_rng(0)
    n, k = {"few": (7, 4), "one": (1, 4), "two_classes": (300, 2)}.get(name, (300, 6))
    logits = rng.normal(scale=2.0, size=(n, k))
    probs = softmax(logits, axis=1)
    labels = (probs.cumsum(1) < rng.random((n, 1))).sum(1).clip(max=k - 1)
    if name == "saturated":  # a float32 network: half of the confidences are exactly 1
        return softmax((20 * logits).astype(np.float32), axis=1).astype(np.float64), labels
    if name == "ties":  # votes of 16
        return rng.multinomial(16, probs) / 16, labels
    if name == "uniform":
        return np.full((n, k), 1 / k), labels
    if name == "one_hot":
        return np.eye(k)[rng.integers(0, k, n)], labels
    if name == "missing_class":
        return probs, np.where(labels == k - 1, 0, labels)
    if name == "on_edges":  # decimals that are edges of 10 or 15 bins
        pairs = np.array([[0.4, 0.6], [0.7, 0.3], [0.75, 0.25], [0.2, 0.8], [1 / 3, 2 / 3], [1.0, 0.0], [0.9, 0.1]])
        return np.hstack([pairs[rng.integers(0, len(pairs), n)], np.zeros((n, k - 2))]), labels % 2
    return probs, labels


@pytest.fixture
def mixed() -> tuple[np.ndarray, np.ndarray]:
    """Ordinary calibrated predictions (300, 6): gaps of both signs."""
    return make("mixed")


@pytest.fixture(scope="session")
def cases() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """All hard inputs by name."""
    return {name: make(name) for name in HARD}
