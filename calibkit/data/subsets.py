"""Some of the samples, drawn with a seed and with the classes' shares: never the first ones, which may be one class."""

from __future__ import annotations

import numpy as np

from calibkit._checks import check_int


def subset(labels: np.ndarray, n: int, *, seed: int = 0) -> np.ndarray:
    """The rows of ``n`` samples, drawn at random with the shares of the classes: of each as many as of all, rounded.

    The samples are shuffled, put in the order of their classes, and taken at equal steps.

    Args:
        labels: (N,) classes.
        n: how many, at most N.
        seed: of the draw.

    Returns:
        ndarray: (n,) rows, ascending.

    Raises:
        ValueError: ``n`` outside 1 ... N, or a seed that is no integer >= 0.

    Example:
        >>> labels = np.repeat([0, 1, 2], [60, 30, 10])
        >>> np.bincount(labels[subset(labels, 20)]).tolist()
        [12, 6, 2]
    """
    labels = np.asarray(labels)
    n = check_int("n", n, 1, len(labels) + 1)
    order = np.random.default_rng(check_int("seed", seed, 0)).permutation(len(labels))
    by_class = order[np.argsort(labels[order], kind="stable")]
    return np.sort(by_class[np.arange(n) * len(labels) // n])


def halves(labels: np.ndarray, *, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The rows of two halves with the same shares of the classes; of an odd number the second has one more.

    Example:
        >>> first, second = halves(np.repeat([0, 1, 2], [4, 4, 2]))
        >>> len(first), sorted([*first, *second]) == list(range(10))
        (5, True)
    """
    first = subset(labels, len(labels) // 2, seed=seed)
    return first, np.setdiff1d(np.arange(len(labels)), first)
