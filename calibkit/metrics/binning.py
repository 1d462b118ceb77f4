"""Bins: the one edge rule, equal-width and equal-mass, and the numbers of a reliability diagram.

Bins are right-closed, ``(lower, upper]``; the first also holds its lower edge, and a value of 1.0 is in the last.
Equal-width edges are ``linspace(0, 1, n_bins + 1)``, each ``k / n_bins`` rounded once in the dtype of the values and
compared in it, so that float32 and float64 of the same decimals fall in the same bin.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from calibkit._checks import Array, check_choice, check_int
from calibkit.metrics._sample import Sample


def bin_edges(n_bins: int, dtype: torch.dtype = torch.float64, device: torch.device | str = "cpu") -> Tensor:
    """Equal-width edges ``k / n_bins``, k = 0..n_bins, rounded once in ``dtype``.

    Example:
        >>> bin_edges(5, torch.float64).tolist()
        [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    return torch.arange(n_bins + 1, dtype=dtype, device=device) / n_bins


def width_bins(values: Tensor, n_bins: int) -> Tensor:
    """Index of the equal-width bin of each value: int64, of the shape of ``values``, in [0, n_bins).

    Example:
        >>> width_bins(torch.tensor([0.0, 0.2, 0.3, 1.0]), 5)
        tensor([0, 0, 1, 4])
    """
    return torch.bucketize(values, bin_edges(n_bins, values.dtype, values.device)[1:-1])


def mass_edges(ordered: Tensor, n_bins: int) -> Tensor:
    """Upper edges of equal-mass bins: the last value of each of ``n_bins`` even parts of ``ordered`` (..., N).

    The first ``N % n_bins`` parts hold one value more; parts are empty where N < n_bins (their edge repeats).
    """
    n = ordered.shape[-1]
    size, rest = divmod(n, n_bins)
    sizes = torch.full((n_bins,), size, device=ordered.device)
    sizes[:rest] += 1
    return ordered[..., (sizes.cumsum(0) - 1).clamp(min=0)]


def mass_bins(values: Tensor, n_bins: int) -> Tensor:
    """Index of the equal-mass bin of each of N values: int64, in [0, n_bins).

    Sorted values are cut into ``n_bins`` even parts; equal values stay together, in the first part that holds one of
    them. So no value is dropped, the order of the values is of no account, and bins are empty where N < n_bins.

    Example:
        >>> mass_bins(torch.tensor([0.9, 0.1, 0.5, 0.5, 0.5, 0.7]), 3)
        tensor([2, 0, 0, 0, 0, 2])
    """
    return torch.bucketize(values, mass_edges(values.sort().values, n_bins)[:-1])


def bin_sums(index: Tensor, weights: Tensor | None, n_bins: int) -> Tensor:
    """Float64 sum of ``weights`` (None: of ones) in each bin: (n_bins,)."""
    if weights is not None:
        weights = weights.double()
    return torch.bincount(index, weights, minlength=n_bins).double()


@dataclass(frozen=True)
class ReliabilityBins:
    """The numbers of a reliability diagram.

    Attributes:
        edges: (n_bins + 1,) edges; for equal mass the lowest value, then the upper edges.
        counts: (n_bins,) samples in each bin, int64.
        confidence: (n_bins,) mean confidence, NaN in an empty bin.
        accuracy: (n_bins,) fraction of correct predictions (or of class ``class_index``), NaN in an empty bin.
    """

    edges: np.ndarray
    counts: np.ndarray
    confidence: np.ndarray
    accuracy: np.ndarray


def reliability_bins(
    probs: Array, labels: Array, n_bins: int = 15, scheme: str = "width", class_index: int | None = None
) -> ReliabilityBins:
    """Counts, mean confidence and accuracy in bins of confidence (DeGroot & Fienberg 1983; Guo et al. 2017, Fig. 1).

    Args:
        probs: (N, K) probabilities.
        labels: (N,) integers in [0, K).
        n_bins: number of bins; 15 as in Guo et al.
        scheme: ``"width"`` (equal width) or ``"mass"`` (equal mass, the bins of ``adaptive_ece``).
        class_index: None for the top label; k for the probability of class k against ``labels == k``.

    Raises:
        ValueError: bad ``probs`` or ``labels``, ``n_bins`` < 1, an unknown scheme or class.

    Example:
        >>> probs = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]])
        >>> bins = reliability_bins(probs, torch.tensor([0, 1, 1]), n_bins=2)
        >>> bins.counts.tolist(), bins.confidence.round(2).tolist(), bins.accuracy.round(2).tolist()
        ([0, 3], [nan, 0.8], [nan, 0.67])
    """
    check_int("n_bins", n_bins, 1)
    check_choice("scheme", scheme, ("width", "mass"))
    sample = Sample.of(probs, labels)
    values, hits = sample.confidence, sample.correct
    if class_index is not None:
        check_choice("class_index", class_index, range(sample.probs.shape[1]))
        values, hits = sample.probs[:, class_index].contiguous(), sample.labels == class_index
    if scheme == "width":
        index, edges = width_bins(values, n_bins), bin_edges(n_bins, values.dtype)
    else:
        ordered = values.sort().values
        index, edges = mass_bins(values, n_bins), torch.cat([ordered[:1], mass_edges(ordered, n_bins)])
    counts, confidence, accuracy = (bin_sums(index, w, n_bins).cpu().numpy() for w in (None, values, hits))
    mean = np.where(counts > 0, counts, np.nan)
    return ReliabilityBins(edges.cpu().numpy(), counts.astype(np.int64), confidence / mean, accuracy / mean)
