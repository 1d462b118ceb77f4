"""Logits and features with labels drawn for them."""

import numpy as np
from sklearn.datasets import make_classification


def logits(n: int = 300, k: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Logits (n, k) that are 2.5 times too large, and labels drawn from the true ones."""
    rng = np.random.default_rng(0)
    true = rng.normal(scale=1.5, size=(n, k))
    return 2.5 * true, (true + rng.gumbel(size=true.shape)).argmax(1)


def classes_apart(n_classes: int, n: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Features of which a fifth of the labels are drawn at random, so that no temperature is 0."""
    return make_classification(n, 10, n_informative=6, n_classes=n_classes, flip_y=0.2, random_state=0)
