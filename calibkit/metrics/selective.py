"""Selective prediction: the classifier answers where it is most confident and abstains elsewhere."""

from __future__ import annotations

import numpy as np
import torch

from calibkit._checks import Array
from calibkit.metrics.sample import Sample


def risk_coverage(probs: Array, labels: Array) -> tuple[np.ndarray, np.ndarray]:
    r"""The risk-coverage curve: the error rate among the i most confident samples, for i = 1..N.

    .. math::
       \begin{gathered}
       \mathrm{risk}_i = \frac{1}{i} \sum_{j \le i} e_{(j)}, \\
       \mathrm{coverage}_i = \frac{i}{N}
       \end{gathered}

    where :math:`e_{(j)}` is 1 if the prediction of the j-th most confident sample is wrong. Samples of the same
    confidence have each the mean error of them all: that gives the mean of the curve over all orders of the ties, and
    makes the order of the rows of no account. ``probs`` are (N, K), the confidence is the largest of a row, ``labels``
    are (N,).

    Returns:
        Coverage (N,), rising to 1, and risk (N,), which ends at the error rate; fractions.

    Paper: El-Yaniv and Wiener 2010; for networks Geifman and El-Yaniv 2017.

    Raises:
        ValueError: bad ``probs`` or ``labels``.

    Example:
        >>> coverage, risk = risk_coverage(np.array([[0.9, 0.1], [0.3, 0.7], [0.4, 0.6], [0.4, 0.6]]), [0, 1, 1, 0])
        >>> coverage.tolist(), risk.round(3).tolist()
        ([0.25, 0.5, 0.75, 1.0], [0.0, 0.0, 0.167, 0.25])

    Differs from the papers: they leave ties open, and float32 confidences of exactly 1 tie by the thousand.
    """
    sample = Sample.of(probs, labels)
    _, group = sample.confidence.unique(return_inverse=True)  # numbered by rising confidence
    counts = torch.bincount(group)
    mean_error = 1.0 - torch.bincount(group, sample.correct.double()) / counts
    i = torch.arange(1, len(sample) + 1, dtype=torch.float64, device=group.device)
    risk = mean_error.flip(0).repeat_interleave(counts.flip(0)).cumsum(0) / i
    return (i / len(sample)).cpu().numpy(), risk.cpu().numpy()


def aurc(probs: Array, labels: Array) -> float:
    r"""Area under the risk-coverage curve (AURC): the mean of the risk over all coverages.

    .. math:: \frac{1}{N} \sum_i \mathrm{risk}_i

    A fraction in [0, 1] of ``probs`` (N, K) and ``labels`` (N,): in the mean the error rate, where the confidence tells
    nothing about the errors.

    Paper: Geifman, Uziel and El-Yaniv 2019, "Bias-reduced uncertainty estimation for deep neural classifiers".

    Raises:
        ValueError: bad ``probs`` or ``labels``.

    Example:
        >>> probs, labels = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]]), np.array([0, 0, 0])
        >>> round(aurc(probs, labels), 4)  # (0 + 1/2 + 1/3) / 3
        0.2778
    """
    return risk_coverage(probs, labels)[1].mean().item()


def excess_aurc(probs: Array, labels: Array) -> float:
    r"""Excess AURC (E-AURC): the AURC less that of the same predictions in the best order, all errors last.

    .. math::
       \begin{gathered}
       \mathrm{AURC} - \frac{1}{N} \sum_i \frac{\max(0, i - (N - m))}{i}, \\
       m = \text{the number of errors}
       \end{gathered}

    A fraction in [0, 1] of ``probs`` (N, K) and ``labels`` (N,): 0 where every right prediction is more confident than
    every wrong one.

    Paper: Geifman, Uziel and El-Yaniv 2019.

    Raises:
        ValueError: bad ``probs`` or ``labels``.

    Example:
        >>> probs, labels = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]]), np.array([0, 0, 0])
        >>> round(excess_aurc(probs, labels), 4)  # less (0 + 0 + 1/3) / 3
        0.1667

    Differs from the paper: the best order's sum, where they take its limit for many samples, r + (1 - r) ln(1 - r) with
    the error rate r.
    """
    _, risk = risk_coverage(probs, labels)
    i = np.arange(1, len(risk) + 1)
    errors = round(risk[-1] * len(risk))
    return (risk - np.maximum(0, i - (len(risk) - errors)) / i).mean().item()
