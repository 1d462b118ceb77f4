"""Logits (n, k) that are 2.5 times too large, and labels drawn from the true ones."""

import numpy as np


def logits(n: int = 300, k: int = 4) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    true = rng.normal(scale=1.5, size=(n, k))
    return 2.5 * true, (true + rng.gumbel(size=true.shape)).argmax(1)
