"""Mean intersection over union of the predicted and the true class: what dense prediction is judged by."""

from __future__ import annotations

import numpy as np
import torch

from calibkit._checks import Array
from calibkit.metrics.sample import Sample


def mean_iou(probs: Array, labels: Array) -> float:
    r"""Mean intersection over union (mIoU) of the rows predicted to be of a class and those that are.

    .. math:: \frac{1}{|C|} \sum_{k \in C}
       \frac{|\{i : \hat y_i = k\} \cap \{i : y_i = k\}|}{|\{i : \hat y_i = k\} \cup \{i : y_i = k\}|},
       \qquad \hat y_i = \arg\max_k p_{ik}

    C are the classes that occur or are predicted. The rows are mostly the labelled pixels of all images together.

    Args:
        probs: (N, K) probabilities. Of tied classes the first is predicted, as ``argmax`` does.
        labels: (N,) integers in [0, K).

    Returns:
        A fraction in [0, 1].

    Raises:
        ValueError: bad ``probs`` or ``labels``.

    Example:
        >>> import numpy as np
        >>> probs = np.array([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4], [0.3, 0.7]])
        >>> round(mean_iou(probs, np.array([0, 0, 1, 1])), 4)  # 2 / 3 and 1 / 2
        0.5833
    """
    sample = Sample.of(probs, labels)
    k = sample.probs.shape[1]
    pairs = torch.bincount(sample.labels * k + sample.probs.argmax(1), minlength=k * k)
    return iou_of_confusion(pairs.view(k, k).cpu().numpy())


def iou_of_confusion(confusion: np.ndarray) -> float:
    """The same from how often each pair (true, predicted) occurs: (K, K) counts; NaN if there are none.

    Example:
        >>> round(iou_of_confusion(np.array([[2, 0], [1, 1]])), 4)
        0.5833
    """
    hits = np.diag(confusion)
    either = confusion.sum(0) + confusion.sum(1) - hits
    return float((hits[either > 0] / either[either > 0]).mean()) if either.any() else float("nan")
