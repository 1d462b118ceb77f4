"""Classes by name and by error: what the pictures of single classes share."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from calibkit._checks import expected
from calibkit.metrics import ReliabilityBins, Sample, reliability_bins
from calibkit.metrics.classwise import width_gaps


def worst_classes(sample: Sample, n_bins: int, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """The ``n_classes`` classes of largest calibration error, the largest first, and their errors.

    The error of class k is its term in ``classwise_ece``, the sum over bins of n_kb / N |acc_kb - conf_kb|; one pass
    over (N, K) gives all of them.
    """
    errors = width_gaps(sample, n_bins).abs().sum(1).cpu().numpy() / len(sample)
    order = np.argsort(-errors, kind="stable")[:n_classes]
    return order, errors[order]


def class_bins(sample: Sample, n_bins: int, k: int) -> ReliabilityBins:
    """Bins of p_k against labels k."""
    return reliability_bins(sample, None, n_bins=n_bins, class_index=int(k))


def chance(bins: ReliabilityBins, level: float) -> np.ndarray:
    """(n_bins,) half the range in which the frequency in a bin would lie if its probabilities were true.

    The normal approximation at the mean probability of the bin, whose variance is the largest that the bin can have.
    """
    quantile = NormalDist().inv_cdf(0.5 + level / 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        return quantile * np.sqrt(bins.confidence * (1 - bins.confidence) / bins.counts)


def class_names(names: Sequence[str] | None, n_classes: int) -> list[str]:
    """``names``, one a class, or their numbers, as matplotlib draws them: a dollar sign begins no formula."""
    if names is None:
        return [str(k) for k in range(n_classes)]
    if len(names) != n_classes:
        raise expected("names", f"{n_classes} names, one a class", len(names))
    return [str(name).replace("$", r"\$") for name in names]
