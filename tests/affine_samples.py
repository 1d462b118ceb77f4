"""Samples on which the affine calibrators are tested, well-behaved and not."""

import numpy as np

#: What :func:`corner` makes of a sample.
CORNERS = ("missing", "twins", "constant", "huge")


def random_sample(seed, n, k):
    """Logits that are too large, by another factor for each class, with an offset and a leak between classes."""
    rng = np.random.default_rng(seed)
    true = 1.5 * rng.normal(size=(n, k))
    y = (true + rng.gumbel(size=(n, k))).argmax(1)
    mixed = true @ (np.eye(k) + 0.1 * rng.normal(size=(k, k)))
    return 2 * np.exp(0.3 * rng.normal(size=k)) * mixed + rng.normal(size=k), y


def corner(case, z, y):
    """A class without a sample, two equal columns of logits, a constant one, or logits of 10,000."""
    if case == "missing":
        return z, y % 4
    if case == "huge":
        return 1e4 * z, y
    z = z.copy()
    z[:, 1] = z[:, 0] if case == "twins" else 3.0
    return z, y
