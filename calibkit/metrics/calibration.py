"""Calibration errors of the top label."""

from __future__ import annotations

import torch

from calibkit._checks import Array, check_int
from calibkit.metrics._sample import Sample
from calibkit.metrics.binning import bin_sums, width_bins


def ece(probs: Array, labels: Array, *, n_bins: int = 15) -> float:
    """Expected calibration error of the top label, equal-width bins."""
    check_int("n_bins", n_bins, 1)
    sample = Sample.of(probs, labels)
    gap = sample.confidence.double() - sample.correct.double()
    return bin_sums(width_bins(sample.confidence, n_bins), gap, n_bins).abs().sum().item() / len(sample)


def classwise_ece(probs: Array, labels: Array, *, n_bins: int = 15) -> float:
    """Class-wise ECE (SCE): the mean over classes of the ECE of p_k against ``labels == k``."""
    check_int("n_bins", n_bins, 1)
    sample = Sample.of(probs, labels)
    total = torch.zeros((), dtype=torch.float64, device=sample.probs.device)
    for k in range(sample.probs.shape[1]):
        p = sample.probs[:, k].contiguous()
        total += bin_sums(width_bins(p, n_bins), p.double() - (sample.labels == k).double(), n_bins).abs().sum()
    return total.item() / len(sample) / sample.probs.shape[1]
