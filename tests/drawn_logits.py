"""Logits and features with labels drawn for them."""

import numpy as np
from sklearn.datasets import make_classification


def true_logits(n: int, k: int, scale: float = 2.0, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Logits (n, k), and labels drawn from their softmax."""
    rng = np.random.default_rng(seed)
    true = rng.normal(scale=scale, size=(n, k))
    return true, (true + rng.gumbel(size=true.shape)).argmax(1)


def logits(n: int = 300, k: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Logits (n, k) that are 2.5 times too large, and labels drawn from the true ones."""
    true, labels = true_logits(n, k, 1.5)
    return 2.5 * true, labels


def classes_apart(n_classes: int, n: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Features of which a fifth of the labels are drawn at random, so that no temperature is 0."""
    return make_classification(n, 10, n_informative=6, n_classes=n_classes, flip_y=0.2, random_state=0)
