"""Calibration errors of the top label that mend the ECE: without bins (smooth, KS), or without the bias of noise."""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor

from calibkit._checks import Array, check_bins
from calibkit.metrics.calibration import of_weighted_sums, top_label_sums
from calibkit.metrics.sample import Metric, Sample, Statistic

#: Cells that the confidences are put in, 8 to the narrowest kernel.
GRID = 8192
#: Narrowest kernel. An error below it is returned as it is at this width, which changes it by less than 0.001.
MIN_WIDTH = 1e-3
STEPS = 20


def smooth_ece(probs: Array, labels: Array) -> float:
    r"""Smooth ECE (smECE) of the top label.

    .. math::
       \begin{gathered}
       \mathrm{smECE}_\sigma = \int_0^1 \Big| \frac{1}{N} \sum_i K_\sigma(t, \kappa_i)
       (\kappa_i - 1[\hat y_i = y_i]) \Big| dt, \\
       \mathrm{smECE} = \mathrm{smECE}_{\sigma^*} \text{ with } \mathrm{smECE}_{\sigma^*} = \sigma^*
       \end{gathered}

    where kappa is the confidence and K the Gaussian of standard deviation sigma, reflected at 0 and 1. It is a fraction
    in [0, 1] of ``probs`` (N, K) and ``labels`` (N,).

    Paper: Blasiok & Nakkiran 2024, "Smooth ECE: principled reliability diagrams via kernel smoothing". They prove that
    it is a consistent calibration measure: powers of the distance to calibration bound it from below and from above.

    Raises:
        ValueError: bad ``probs`` or ``labels``.

    Example:
        >>> import numpy as np
        >>> round(smooth_ece(np.tile([0.9, 0.1], (4, 1)), np.array([0, 0, 1, 1])), 3)  # 0.9 of confidence, half right
        0.4

    Differs from the authors' package relplot: sigma* to 1e-6 (there 10 bisections, about 1e-3), and what lies at a
    confidence of exactly 1 keeps its whole weight (there the last grid node, and with it a saturated network, counts
    half). The reflected Gaussian is diagonal in the cosine basis: one FFT of the residuals, then one short inverse FFT
    for each width.
    """
    sample = Sample.of(probs, labels)
    return smooth_error(sample.confidence, sample.gap / len(sample))


def ks_error(probs: Array, labels: Array) -> float:
    r"""Kolmogorov-Smirnov calibration error of the top label; no bins.

    .. math:: \max_s \Big| \frac{1}{N} \sum_{i:\, \kappa_i \le s} (\kappa_i - 1[\hat y_i = y_i]) \Big|

    where kappa is the confidence: the largest gap between the cumulative confidence and the cumulative accuracy, a
    fraction in [0, 1] of ``probs`` (N, K) and ``labels`` (N,), and at least ``abs(accuracy - mean confidence)``.

    Paper: Gupta et al. 2021, "Calibration of neural networks using splines", Sec. 3, eq. 12.

    Raises:
        ValueError: bad ``probs`` or ``labels``.

    Example:
        >>> import numpy as np
        >>> round(ks_error(np.array([[0.9, 0.1], [0.3, 0.7], [0.4, 0.6]]), np.array([0, 1, 0])), 4)
        0.2

    Differs from the authors' code: equal confidences enter together, so the order of the rows is of no account.
    """
    sample = Sample.of(probs, labels)
    return _largest_sum(sample)(sample.gap[None]).item() / len(sample)


def debiased_ece(probs: Array, labels: Array, *, n_bins: int = 15) -> float:
    r"""Debiased root-mean-square calibration error of the top label, equal-width bins.

    .. math:: \sqrt{\max\Big(0, \sum_{b: n_b > 1} \frac{n_b}{N} \Big[(\mathrm{acc}_b - \mathrm{conf}_b)^2
              - \frac{\mathrm{acc}_b (1 - \mathrm{acc}_b)}{n_b - 1}\Big]\Big)}

    The plug-in (binned) error is too large because accuracies are noisy; this subtracts an estimate of their variance.
    Where the confidences of a bin are equal, its square, before the max, is unbiased, so on a calibrated model about
    half of all samples give 0. Where they spread, the spread counts as noise of the labels: a little too much is
    subtracted, the more the wider the bins, and more than half give 0.

    A fraction in [0, 1] of ``probs`` (N, K) and ``labels`` (N,) in the ``n_bins`` bins of ``ece``. Its scale is that of
    an l2 norm, so without noise it is no less than ``ece``.

    Paper: Kumar, Liang & Ma 2019, "Verified uncertainty calibration", Sec. 5 (their l2 estimator, also in the package
    uncertainty-calibration); the same correction is Broecker 2012 and Ferro & Fricker 2012 for the reliability term
    of the Brier score.

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


def smooth_error(confidence: Tensor, residual: Tensor) -> float:
    """SmECE of residuals (N,), already divided by N, at (N,) confidences."""
    spectrum = torch.fft.rfft(reflected(confidence.double().clamp(max=1.0), residual))
    frequency = torch.pi * torch.arange(GRID + 1, dtype=torch.float64, device=spectrum.device)

    def error(width: float) -> float:
        n = min(GRID, 2 ** math.ceil(math.log2(16.0 / width)))  # 16 nodes to the width; higher frequencies are gone
        smoothed = spectrum[: n + 1] * torch.exp(-0.5 * (frequency[: n + 1] * width) ** 2)
        return torch.fft.irfft(smoothed, 2 * n).abs().sum().item() / 2.0

    low, high = MIN_WIDTH, 1.0
    if (at_low := error(low)) <= low:
        return at_low
    for _ in range(STEPS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if error(middle) > middle else (low, middle)
    return error((low + high) / 2.0)


def reflected(position: Tensor, mass: Tensor) -> Tensor:
    """Mass at positions in [0, 1], shared between the two nearest of GRID + 1 nodes, and mirrored: (2 GRID,).

    On the circle of length 2 each point has two images, x and -x; at 0 and 1 they coincide.
    """
    left = (position * GRID).long().clamp(max=GRID - 1)
    share = position * GRID - left
    nodes = torch.bincount(left, mass * (1.0 - share), minlength=GRID + 1)
    nodes += torch.bincount(left + 1, mass * share, minlength=GRID + 1)
    return torch.cat([2.0 * nodes[:1], nodes[1:-1], 2.0 * nodes[-1:], nodes[1:-1].flip(0)])


def _smooth_of_weights(sample: Sample, n_bins: int) -> Statistic:
    def statistic(weights: Tensor) -> Tensor:
        shares = weights / weights.sum(1, keepdim=True)
        values = [smooth_error(sample.confidence, sample.gap * share) for share in shares]
        return weights.new_tensor(values, dtype=torch.float64)

    return statistic


def _smooth_of_gaps(sample: Sample, n_bins: int) -> Statistic:
    errors = partial(smooth_error, sample.confidence)
    return lambda gaps: gaps.new_tensor([errors(gap / len(sample)) for gap in gaps], dtype=torch.float64)


def _largest_sum(sample: Sample) -> Statistic:
    """From gaps of the rows (R, N) to the largest of their sums over confidences up to s, for any s: (R,)."""
    ordered, order = sample.confidence.sort()
    last = torch.cat([ordered[1:] != ordered[:-1], ordered.new_ones(1, dtype=torch.bool)]).nonzero()[:, 0]  # of ties
    return lambda gaps: gaps.index_select(1, order).cumsum(1).index_select(1, last).abs().amax(1)


def _ks_of_weights(sample: Sample, n_bins: int) -> Statistic:
    largest, gap = _largest_sum(sample), sample.gap
    return lambda weights: largest(weights * gap) / weights.sum(1)


def _ks_of_gaps(sample: Sample, n_bins: int) -> Statistic:
    largest = _largest_sum(sample)
    return lambda gaps: largest(gaps) / len(sample)


def debiased_of(counts: Tensor, confidence: Tensor, correct: Tensor) -> Tensor:
    """Debiased root-mean-square error from the sums over each bin (..., n_bins)."""
    gap, accuracy = (confidence - correct) / counts.clamp(min=1.0), correct / counts.clamp(min=1.0)
    square = gap**2 - accuracy * (1.0 - accuracy) / (counts - 1.0).clamp(min=1.0)
    total = torch.where(counts > 1.0, counts * square, 0.0).sum(-1)
    return (total / counts.sum(-1)).clamp(min=0.0).sqrt()


RECORDS = (
    Metric(smooth_ece, _smooth_of_weights, _smooth_of_gaps, slow=True),
    Metric(ks_error, _ks_of_weights, _ks_of_gaps),
    Metric(debiased_ece, partial(of_weighted_sums, debiased_of), sums=top_label_sums, of_sums=debiased_of),
)
