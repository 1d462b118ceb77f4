"""Accuracy, the two proper scores NLL and Brier, and the entropy of the predictions."""

from __future__ import annotations

from calibkit._checks import Array
from calibkit.metrics._sample import Sample


def accuracy(probs: Array, labels: Array) -> float:
    """Fraction of rows whose largest probability (the first, if tied) is the label's.

    Example:
        >>> import numpy as np
        >>> accuracy(np.array([[0.9, 0.1], [0.4, 0.6]]), np.array([0, 0]))
        0.5
    """
    return Sample.of(probs, labels).correct.double().mean().item()


def nll(probs: Array, labels: Array) -> float:
    """Negative log-likelihood in nats, mean over rows: ``-mean(log p_y)``; infinite if a label has probability 0.

    Example:
        >>> import numpy as np
        >>> round(nll(np.array([[0.5, 0.5]]), np.array([1])), 4)
        0.6931
    """
    return -Sample.of(probs, labels).label_probs.double().log().mean().item()
