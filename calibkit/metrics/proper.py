"""Accuracy, the proper scores NLL and Brier, the entropy of the predictions, and the mean IoU of dense prediction."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from calibkit._arrays import blocks
from calibkit._checks import Array
from calibkit.metrics.sample import Sample, row_mean


def accuracy(probs: Array, labels: Array) -> float:
    r"""Accuracy: the fraction of rows, in [0, 1], whose largest probability is the label's.

    .. math:: \frac{1}{N} \sum_i 1[\arg\max_k p_{ik} = y_i]

    Of tied classes the first is predicted, as ``argmax`` does. ``probs`` are (N, K), ``labels`` (N,).

    Raises:
        ValueError: bad ``probs`` or ``labels``.

    Example:
        >>> accuracy(np.array([[0.9, 0.1], [0.4, 0.6]]), np.array([0, 0]))
        0.5
    """
    return sample_accuracy(Sample.of(probs, labels)).mean().item()


def nll(probs: Array, labels: Array) -> float:
    r"""Negative log-likelihood (cross-entropy), in nats.

    .. math:: -\frac{1}{N} \sum_i \ln p_{i y_i}

    ``probs`` are (N, K), ``labels`` (N,). It is infinite where a label has probability 0. Nothing is clipped: a float32
    softmax rounds to 0 where logits are over 103 apart, a float64 one over 745.

    Raises:
        ValueError: bad ``probs`` or ``labels``.

    Example:
        >>> round(nll(np.array([[0.5, 0.5]]), np.array([1])), 4)
        0.6931
    """
    return sample_nll(Sample.of(probs, labels)).mean().item()


def brier(probs: Array, labels: Array) -> float:
    r"""Brier score, summed over the classes: a number in [0, 2].

    .. math:: \frac{1}{N} \sum_i \sum_k (p_{ik} - 1[y_i = k])^2

    ``probs`` are (N, K), ``labels`` (N,).

    Paper: Brier 1950. Several codebases divide by K as well; the original does not.

    Raises:
        ValueError: bad ``probs`` or ``labels``.

    Example:
        >>> brier(np.array([[0.5, 0.5]]), np.array([1]))
        0.5
    """
    return sample_brier(Sample.of(probs, labels)).mean().item()


def entropy(probs: Array, labels: Array) -> float:
    r"""Mean entropy of the predictions, in nats, from 0 to ln K; the labels are checked but do not enter.

    .. math:: -\frac{1}{N} \sum_i \sum_k p_{ik} \ln p_{ik}, \qquad 0 \ln 0 = 0

    ``probs`` are (N, K), ``labels`` (N,).

    Raises:
        ValueError: bad ``probs`` or ``labels``.

    Example:
        >>> round(entropy(np.array([[0.5, 0.5], [1.0, 0.0]]), np.array([1, 0])), 4)
        0.3466
    """
    return sample_entropy(Sample.of(probs, labels)).mean().item()


def mean_iou(probs: Array, labels: Array) -> float:
    r"""Mean intersection over union (mIoU), in [0, 1], of the rows predicted to be of a class and those that are.

    .. math:: \frac{1}{|C|} \sum_{k \in C}
       \frac{|\{i : \hat y_i = k\} \cap \{i : y_i = k\}|}{|\{i : \hat y_i = k\} \cup \{i : y_i = k\}|},
       \qquad \hat y_i = \arg\max_k p_{ik}

    C are the classes that occur or are predicted; of tied ones the first is predicted. ``probs`` are (N, K), ``labels``
    (N,): the rows are mostly the labelled pixels of all images together.

    Raises:
        ValueError: bad ``probs`` or ``labels``.

    Example:
        >>> probs = np.array([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4], [0.3, 0.7]])
        >>> round(mean_iou(probs, np.array([0, 0, 1, 1])), 4)  # 2 / 3 and 1 / 2
        0.5833
    """
    sample = Sample.of(probs, labels)
    k = sample.probs.shape[1]
    pairs = torch.bincount(sample.labels * k + sample.probs.argmax(1), minlength=k * k)
    return iou_of_confusion(pairs.view(k, k).cpu().numpy())


def iou_of_confusion(confusion: np.ndarray) -> float:
    """The same from how often each pair (true, predicted) occurs: (K, K) counts; NaN if there are none."""
    hits = np.diag(confusion)
    either = confusion.sum(0) + confusion.sum(1) - hits
    return float((hits[either > 0] / either[either > 0]).mean()) if either.any() else math.nan


def sample_accuracy(sample: Sample) -> Tensor:
    """(N,) 1 where the prediction is right, float64."""
    return sample.correct.double()


def sample_nll(sample: Sample) -> Tensor:
    """(N,) NLL of each row, float64."""
    return -sample.label_probs.double().log() + 0.0  # + 0: no negative zero


def sample_brier(sample: Sample) -> Tensor:
    """(N,) Brier score of each row, float64."""
    squares = _row_sums(sample.probs, lambda p, out: torch.mul(p, p, out=out))
    label = sample.label_probs.double()
    return (squares - 2.0 * label + 1.0).clamp(0.0, 2.0)


def sample_entropy(sample: Sample) -> Tensor:
    """(N,) entropy of each row, float64."""
    entropies = _row_sums(sample.probs, _log_times).neg_().add_(0.0)  # + 0: no negative zero
    return entropies.clamp_(max=math.log(sample.probs.shape[1]))  # of rows that sum to a little more than 1


def _log_times(p: Tensor, out: Tensor) -> Tensor:
    """P log p, and 0 where p is 0; the logarithm of what is next to 0 is far faster than a case of its own."""
    return torch.clamp(p, min=1e-300, out=out).log_().mul_(p)


def _row_sums(probs: Tensor, function: Callable[..., Tensor]) -> Tensor:
    """(N,) sums of ``function(p, out=buffer)`` over the classes, float64, in blocks that stay in cache."""
    sums, slices = probs.new_empty(len(probs), dtype=torch.float64), blocks(*probs.shape, 8)
    p, out = probs.new_empty(2, slices[0].stop, probs.shape[1], dtype=torch.float64)
    for rows in slices:
        n = rows.stop - rows.start
        torch.sum(function(p[:n].copy_(probs[rows]), out=out[:n]), 1, out=sums[rows])
    return sums


RECORDS = (
    row_mean(accuracy, sample_accuracy, higher_is_better=True),
    row_mean(nll, sample_nll, unit="nats", most=math.inf),
    row_mean(brier, sample_brier, most=2.0),
    row_mean(entropy, sample_entropy, unit="nats", most=None),
)
