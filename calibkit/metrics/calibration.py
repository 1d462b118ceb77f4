"""Calibration errors of the top label: confidence against the fraction of correct predictions."""

from __future__ import annotations

import torch
from torch import Tensor

from calibkit._checks import Array, check_bins, check_choice
from calibkit.metrics.binning import bin_sums, mass_bins, width_bins
from calibkit.metrics.other_packages import MASS_RULES, WIDTH_RULES, MassRule, WidthRule, error_like
from calibkit.metrics.sample import Sample


def ece(probs: Array, labels: Array, *, n_bins: int = 15, like: WidthRule | None = None) -> float:
    r"""Expected calibration error (ECE) of the top label, equal-width bins.

    .. math:: \sum_b \frac{n_b}{N} \left|\mathrm{acc}_b - \mathrm{conf}_b\right|

    Paper: Naeini et al. 2015; for networks Guo et al. 2017, eq. 3, whose 15 bins are the default.

    Args:
        probs: (N, K) probabilities.
        labels: (N,) integers in [0, K).
        n_bins: number of bins; they are right-closed, with 1.0 in the last (see ``calibkit.metrics.binning``).
        like: None, or a package whose binning is taken instead: ``torchmetrics`` (also torch-uncertainty and
            probmetrics), ``netcal``, ``relplot``, ``uncertainty-calibration``, ``calzone``, ``pycalib``, ``mapie``.

    Returns:
        A fraction in [0, 1].

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
    n_bins, sample = check_bins(n_bins), Sample.of(probs, labels)
    if like is not None:
        return error_like(sample, n_bins, WIDTH_RULES[check_choice("like", like, WIDTH_RULES)])
    return bin_sums(width_bins(sample.confidence, n_bins), sample.gap, n_bins).abs().sum().item() / len(sample)


def mce(probs: Array, labels: Array, *, n_bins: int = 15) -> float:
    r"""Maximum calibration error (MCE) of the top label, equal-width bins.

    .. math:: \max_{b: n_b > 0} \left|\mathrm{acc}_b - \mathrm{conf}_b\right|

    Paper: Naeini et al. 2015; Guo et al. 2017, eq. 5. One sample alone in a bin can set it.

    Args:
        probs: (N, K) probabilities.
        labels: (N,) integers in [0, K).
        n_bins: number of bins, those of ``ece``.

    Returns:
        A fraction in [0, 1].

    Raises:
        ValueError: bad ``probs`` or ``labels``, ``n_bins`` < 1.

    Example:
        >>> import numpy as np
        >>> round(mce(np.array([[0.9, 0.1], [0.9, 0.1], [0.4, 0.6]]), np.array([0, 1, 1])), 4)
        0.4
    """
    n_bins = check_bins(n_bins)
    return mce_of(*top_label_sums(Sample.of(probs, labels), n_bins)).item()


def adaptive_ece(probs: Array, labels: Array, *, n_bins: int = 15, like: MassRule | None = None) -> float:
    r"""Adaptive ECE (AECE) of the top label: the ECE over equal-mass bins.

    .. math:: \sum_b \frac{n_b}{N} \left|\mathrm{acc}_b - \mathrm{conf}_b\right|

    Paper: Nguyen & O'Connor 2015. The AECE of MbLS and ACLS, and what Neural Clamping's tables call ACE; for Nixon's
    class-wise ACE see ``ace``.

    Args:
        probs: (N, K) probabilities.
        labels: (N,) integers in [0, K).
        n_bins: number of bins.
        like: None, or a code whose binning is taken instead: ``focal_calibration`` (the code that MbLS, ACLS and Neural
            Clamping share), ``torch-uncertainty``, ``netcal``, ``uncertainty-calibration``, ``mapie`` (quantiles).

    Returns:
        A fraction in [0, 1].

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
    n_bins, sample = check_bins(n_bins), Sample.of(probs, labels)
    if like is not None:
        return error_like(sample, n_bins, MASS_RULES[check_choice("like", like, MASS_RULES)])
    return bin_sums(mass_bins(sample.confidence, n_bins), sample.gap, n_bins).abs().sum().item() / len(sample)


def debiased_ece(probs: Array, labels: Array, *, n_bins: int = 15) -> float:
    r"""Debiased root-mean-square calibration error of the top label, equal-width bins.

    .. math:: \sqrt{\max\Big(0, \sum_{b: n_b > 1} \frac{n_b}{N} \Big[(\mathrm{acc}_b - \mathrm{conf}_b)^2
              - \frac{\mathrm{acc}_b (1 - \mathrm{acc}_b)}{n_b - 1}\Big]\Big)}

    The plug-in (binned) error is too large because accuracies are noisy; this subtracts an estimate of their variance.
    Where the confidences of a bin are equal, its square, before the max, is unbiased, so on a calibrated model about
    half of all samples give 0. Where they spread, the spread counts as noise of the labels: a little too much is
    subtracted, the more the wider the bins, and more than half give 0.

    Paper: Kumar, Liang & Ma 2019, "Verified uncertainty calibration", Sec. 5 (their l2 estimator, also in the package
    uncertainty-calibration); the same correction is Broecker 2012 and Ferro & Fricker 2012 for the reliability term
    of the Brier score.

    Args:
        probs: (N, K) probabilities.
        labels: (N,) integers in [0, K).
        n_bins: number of bins, those of ``ece``.

    Returns:
        A fraction in [0, 1]; its scale is that of an l2 norm, so without noise it is no less than ``ece``.

    Raises:
        ValueError: bad ``probs`` or ``labels``, ``n_bins`` < 1.

    Example:
        >>> import numpy as np
        >>> probs = np.tile([0.9, 0.1], (4, 1))
        >>> round(debiased_ece(probs, np.array([0, 0, 1, 1])), 4)  # sqrt(0.4 ** 2 - 0.25 / 3)
        0.2769

    Differs from the paper: equal-width bins (they use equal mass); a bin with a single sample, whose variance cannot
    be estimated, adds 0, as in their code.
    """
    n_bins = check_bins(n_bins)
    return debiased_of(*top_label_sums(Sample.of(probs, labels), n_bins)).item()


def ks_error(probs: Array, labels: Array) -> float:
    r"""Kolmogorov-Smirnov calibration error of the top label; no bins.

    .. math:: \max_s \Big| \frac{1}{N} \sum_{i:\, \kappa_i \le s} (\kappa_i - 1[\hat y_i = y_i]) \Big|

    where kappa is the confidence: the largest gap between the cumulative confidence and the cumulative accuracy.

    Paper: Gupta et al. 2021, "Calibration of neural networks using splines", Sec. 3.2.

    Args:
        probs: (N, K) probabilities.
        labels: (N,) integers in [0, K).

    Returns:
        A fraction in [0, 1]; at least ``abs(accuracy - mean confidence)``.

    Raises:
        ValueError: bad ``probs`` or ``labels``.

    Example:
        >>> import numpy as np
        >>> round(ks_error(np.array([[0.9, 0.1], [0.3, 0.7], [0.4, 0.6]]), np.array([0, 1, 0])), 4)
        0.2

    Differs from the authors' code: equal confidences enter together, so the order of the rows is of no account.
    """
    sample = Sample.of(probs, labels)
    ordered, order = sample.confidence.sort()
    cumulative = sample.gap[order].cumsum(0)
    return cumulative[tie_ends(ordered)].abs().max().item() / len(sample)


def tie_ends(ordered: Tensor) -> Tensor:
    """(N,) bool: whether each of the sorted values is the last of its ties."""
    return torch.cat([ordered[1:] != ordered[:-1], ordered.new_ones(1, dtype=torch.bool)])


def top_label_sums(sample: Sample, n_bins: int) -> tuple[Tensor, Tensor, Tensor]:
    """Counts, sums of confidence and of correct predictions in equal-width bins: (n_bins,) float64 each."""
    index = width_bins(sample.confidence, n_bins)
    counts, confidence, correct = (bin_sums(index, w, n_bins) for w in (None, sample.confidence, sample.correct))
    return counts, confidence, correct


def mce_of(counts: Tensor, confidence: Tensor, correct: Tensor) -> Tensor:
    """MCE from the sums over each bin (..., n_bins); NaN where all are empty."""
    largest = ((confidence - correct).abs() / counts.clamp(min=1.0)).amax(-1)
    return torch.where(counts.sum(-1) > 0.0, largest, torch.nan)


def debiased_of(counts: Tensor, confidence: Tensor, correct: Tensor) -> Tensor:
    """Debiased root-mean-square error from the sums over each bin (..., n_bins)."""
    gap, accuracy = (confidence - correct) / counts.clamp(min=1.0), correct / counts.clamp(min=1.0)
    square = gap**2 - accuracy * (1.0 - accuracy) / (counts - 1.0).clamp(min=1.0)
    total = torch.where(counts > 1.0, counts * square, 0.0).sum(-1)
    return (total / counts.sum(-1)).clamp(min=0.0).sqrt()
