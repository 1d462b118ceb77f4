"""Calibration errors of the top label: confidence against the fraction of correct predictions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from calibkit._checks import Array, check_bins, check_choice
from calibkit.metrics.binning import BinCount, bin_count, bin_sums, mass_bins, mass_gaps, width_bins
from calibkit.metrics.other_packages import MASS_RULES, WIDTH_RULES, MassRule, WidthRule, error_like
from calibkit.metrics.sample import Metric, Sample, Statistic


def ece(probs: Array, labels: Array, *, n_bins: BinCount = 15, like: WidthRule | None = None) -> float:
    r"""Expected calibration error (ECE) of the top label, equal-width bins: a fraction in [0, 1].

    .. math:: \sum_b \frac{n_b}{N} \left|\mathrm{acc}_b - \mathrm{conf}_b\right|

    Paper: Naeini et al. 2015; for networks Guo et al. 2017, eq. 3, whose 15 bins are the default.

    Args:
        probs: (N, K) probabilities.
        labels: (N,) integers in [0, K).
        n_bins: number of bins; they are right-closed, with 1.0 in the last (see ``calibkit.metrics.binning``).
            "auto" as in ``adaptive_ece``.
        like: None, or a package whose binning is taken instead: ``torchmetrics`` (also torch-uncertainty and
            probmetrics), ``netcal``, ``relplot``, ``uncertainty-calibration``, ``calzone``, ``pycalib``, ``mapie``.

    Raises:
        ValueError: bad ``probs`` or ``labels``, ``n_bins`` < 1, an unknown ``like``.

    Example:
        >>> import numpy as np
        >>> probs, labels = np.array([[0.9, 0.1], [0.9, 0.1], [0.4, 0.6]]), np.array([0, 1, 1])
        >>> round(ece(probs, labels), 4)
        0.4
        >>> probs, labels = np.array([[1.0, 0.0], [0.95, 0.05]]), np.array([1, 0])
        >>> round(ece(probs, labels, n_bins=10), 4)  # one bin: abs(1.0 + 0.95 - 1) / 2
        0.475
        >>> round(ece(probs, labels, n_bins=10, like="torchmetrics"), 4)  # 1.0 alone in an extra bin
        0.525

    Differs from the paper: Guo et al. leave open where a confidence of 0 or on an edge belongs; sums are in float64.
    """
    sample = Sample.of(probs, labels)
    n_bins = bin_count(n_bins, sample.confidence, sample.correct, "width")
    if like is not None:
        return error_like(sample, n_bins, WIDTH_RULES[check_choice("like", like, WIDTH_RULES)])
    return bin_sums(width_bins(sample.confidence, n_bins), sample.gap, n_bins).abs().sum().item() / len(sample)


def mce(probs: Array, labels: Array, *, n_bins: int = 15) -> float:
    r"""Maximum calibration error (MCE) of the top label, equal-width bins.

    .. math:: \max_{b: n_b > 0} \left|\mathrm{acc}_b - \mathrm{conf}_b\right|

    A fraction in [0, 1] of ``probs`` (N, K) and ``labels`` (N,) in the ``n_bins`` bins of ``ece``. One sample alone in
    a bin can set it.

    Paper: Naeini et al. 2015; Guo et al. 2017, eq. 5.

    Raises:
        ValueError: bad ``probs`` or ``labels``, ``n_bins`` < 1.

    Example:
        >>> import numpy as np
        >>> round(mce(np.array([[0.9, 0.1], [0.9, 0.1], [0.4, 0.6]]), np.array([0, 1, 1])), 4)
        0.4
    """
    n_bins = check_bins(n_bins)
    return mce_of(*top_label_sums(Sample.of(probs, labels), n_bins)).item()


def adaptive_ece(probs: Array, labels: Array, *, n_bins: BinCount = 15, like: MassRule | None = None) -> float:
    r"""Adaptive ECE (AECE) of the top label: the ECE over equal-mass bins, a fraction in [0, 1].

    .. math:: \sum_b \frac{n_b}{N} \left|\mathrm{acc}_b - \mathrm{conf}_b\right|

    Paper: Nguyen & O'Connor 2015. The AECE of MbLS and ACLS, and what Neural Clamping's tables call ACE; for Nixon's
    class-wise ACE see ``ace``.

    Args:
        probs: (N, K) probabilities.
        labels: (N,) integers in [0, K).
        n_bins: number of bins. "auto" for the monotonic sweep of Roelofs et al. 2022, "Mitigating Bias in Calibration
            Error Estimation": the largest number, at most 1,000, up to which the accuracy never falls from a bin to
            the next.
        like: None, or a code whose binning is taken instead: ``focal_calibration`` (the code that MbLS, ACLS and Neural
            Clamping share), ``torch-uncertainty``, ``netcal``, ``uncertainty-calibration``, ``mapie`` (quantiles).

    Raises:
        ValueError: bad ``probs`` or ``labels``, ``n_bins`` < 1, an unknown ``like``.

    Example:
        >>> import numpy as np
        >>> probs, labels = np.array([[0.9, 0.1], [0.7, 0.3], [0.4, 0.6]]), np.array([0, 1, 1])
        >>> round(adaptive_ece(probs, labels, n_bins=2), 4)  # bins {0.6, 0.7} and {0.9}
        0.1333

    Differs from the papers' code: no sample is dropped (theirs leaves out the smallest confidence and its ties), ties
    are never split, so the order of the rows is of no account, and there may be fewer samples than bins.
    """
    sample = Sample.of(probs, labels)
    n_bins = bin_count(n_bins, sample.confidence, sample.correct, "mass")
    if like is not None:
        return error_like(sample, n_bins, MASS_RULES[check_choice("like", like, MASS_RULES)])
    return bin_sums(mass_bins(sample.confidence, n_bins), sample.gap, n_bins).abs().sum().item() / len(sample)


def top_label_sums(sample: Sample, n_bins: int) -> tuple[Tensor, ...]:
    """Counts, sums of confidence and of correct predictions in equal-width bins: (n_bins,) float64 each."""
    index = width_bins(sample.confidence, n_bins)
    return tuple(bin_sums(index, w, n_bins) for w in (None, sample.confidence, sample.correct))


def ece_of(counts: Tensor, confidence: Tensor, correct: Tensor) -> Tensor:
    """ECE from the sums over each bin (..., n_bins)."""
    return (confidence - correct).abs().sum(-1) / counts.sum(-1)


def mce_of(counts: Tensor, confidence: Tensor, correct: Tensor) -> Tensor:
    """MCE from the sums over each bin (..., n_bins); NaN where all are empty."""
    largest = ((confidence - correct).abs() / counts.clamp(min=1.0)).amax(-1)
    return torch.where(counts.sum(-1) > 0.0, largest, torch.nan)


def of_weighted_sums(of_sums: Callable[..., Tensor], sample: Sample, n_bins: int) -> Statistic:
    """A metric of ``top_label_sums`` on weighted rows."""
    one_hot = _one_hot(sample, width_bins, n_bins)
    matrix = torch.cat([one_hot, *(one_hot * x.double()[:, None] for x in (sample.confidence, sample.correct))], 1)
    return lambda weights: of_sums(*(weights @ matrix).split(n_bins, 1))


def _of_weighted_gaps(sample: Sample, n_bins: int) -> Statistic:
    """The ECE, which needs one sum a bin of the three."""
    gaps = _one_hot(sample, width_bins, n_bins) * sample.gap[:, None]
    return lambda weights: ece_of(weights.sum(1, keepdim=True), weights @ gaps, gaps.new_zeros(()))


def _of_other_gaps(
    bins: Callable[[Tensor, int], Tensor], of_sums: Callable[..., Tensor], sample: Sample, n_bins: int
) -> Statistic:
    """A metric of other gaps in the same bins, for which confidence and correct count by their difference alone."""
    one_hot = _one_hot(sample, bins, n_bins)
    counts = one_hot.sum(0)
    return lambda gaps: of_sums(counts, gaps @ one_hot, counts.new_zeros(()))


def _one_hot(sample: Sample, bins: Callable[[Tensor, int], Tensor], n_bins: int) -> Tensor:
    """(N, n_bins) float64, 1 in the bin of each row."""
    return torch.nn.functional.one_hot(bins(sample.confidence, n_bins), n_bins).double()


RECORDS = (
    Metric(ece, _of_weighted_gaps, partial(_of_other_gaps, width_bins, ece_of), top_label_sums, ece_of),
    Metric(mce, partial(of_weighted_sums, mce_of), partial(_of_other_gaps, width_bins, mce_of), top_label_sums, mce_of),
    Metric(
        adaptive_ece,
        of_weights=lambda sample, n_bins: mass_gaps(sample.confidence, sample.gap, n_bins),
        of_gaps=partial(_of_other_gaps, mass_bins, ece_of),
    ),
)
