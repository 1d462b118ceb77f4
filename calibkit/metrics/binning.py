"""Bins: the one edge rule, equal-width and equal-mass, and the numbers of a reliability diagram.

Bins are right-closed, ``(lower, upper]``; the first also holds its lower edge, and a value of 1.0 is in the last.
Equal-width edges are ``linspace(0, 1, n_bins + 1)``, each ``k / n_bins`` rounded once in the dtype of the values and
compared in it, so that float32 and float64 of the same decimals fall in the same bin.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from calibkit._arrays import blocks
from calibkit._checks import Array, check_bins, check_choice, check_int
from calibkit.metrics.sample import Sample

Scheme = Literal["width", "mass"]
BinCount = int | Literal["auto"]
MOST_AUTO = 1000  # bins that are looked for: a network that never errs would take as many as there are samples
MANY = 1 << 16  # values whose sort is shared among threads
WEIGHTS = 1 << 17  # weights that are sorted and summed at a time: 1 MB
TILE = 2048  # columns copied at a time: where they are the rows of a matrix, each is a cache line


def bin_edges(n_bins: int, dtype: torch.dtype = torch.float64, device: torch.device | str = "cpu") -> Tensor:
    """Equal-width edges ``k / n_bins``, k = 0..n_bins, each rounded once in ``dtype``: (n_bins + 1,)."""
    return torch.arange(n_bins + 1, dtype=dtype, device=device) / n_bins


def width_bins(values: Tensor, n_bins: int) -> Tensor:
    """Index of the equal-width bin of each value: int64 in [0, n_bins), of the shape of ``values``."""
    # In the bin (k / n, (k + 1) / n] the product rounds to at least k, and to k + 1 at most: one comparison decides.
    index = (values * n_bins).long().clamp_(0, n_bins)  # NaN becomes 0, which is an index
    below = (values <= bin_edges(n_bins, values.dtype, values.device)[index]).long()
    return (index - below).clamp_(0, n_bins - 1)


def sort_values(values: Tensor) -> Tensor:
    """Sorted along the last axis; on a CPU by numpy, whose sort of values alone is several times faster.

    It uses one core, so many rows are shared among as many threads as torch has.
    """
    if values.device.type != "cpu":
        return values.sort().values
    ordered, values = torch.empty_like(values, memory_format=torch.contiguous_format).numpy(), values.numpy()

    def sort(rows: slice) -> None:
        for part in blocks(values.shape[-1], 1, 1, TILE):
            ordered[rows][..., part] = values[rows][..., part]
        ordered[rows].sort()

    if values.ndim == 1 or values.size < MANY:
        sort(slice(None))
    else:
        n_threads = torch.get_num_threads()
        with ThreadPoolExecutor(n_threads) as pool:
            list(pool.map(sort, blocks(len(values), 1, 1, -(-len(values) // n_threads))))
    return torch.from_numpy(ordered)


def segment_sums(ordered: Tensor, stops: Tensor) -> Tensor:
    """Float64 sums of each row (M, n) between its ``stops`` (M, S + 1), rising to n at the end: (M, S).

    Example:
        >>> segment_sums(torch.tensor([[1.0, 2.0, 3.0, 4.0]]), torch.tensor([[1, 3, 3, 4]]))
        tensor([[5., 0., 4.]], dtype=torch.float64)
    """
    if ordered.device.type != "cpu":
        return torch.nn.functional.pad(ordered.cumsum(1, dtype=torch.float64), (1, 0)).gather(1, stops).diff(dim=1)
    starts = (stops + ordered.shape[1] * torch.arange(len(stops), device=stops.device)[:, None]).flatten()
    inside = starts[: int((starts < ordered.numel()).sum())]  # what begins behind the last value is empty
    sums = np.zeros(len(starts))
    np.add.reduceat(ordered.numpy().reshape(-1), inside, dtype=np.float64, out=sums[: len(inside)])
    return torch.from_numpy(sums).view(stops.shape)[:, :-1].where(stops.diff(dim=1) > 0, 0.0)


def mass_ends(totals: Tensor, n_bins: int) -> Tensor:
    """Ends (exclusive) of ``n_bins`` even parts of 0..total: (*totals.shape, n_bins), the longer parts first.

    Example:
        >>> mass_ends(torch.tensor([7, 2]), 3)
        tensor([[3, 5, 7],
                [1, 2, 2]])
    """
    part = torch.arange(1, n_bins + 1, device=totals.device)
    return totals[..., None] // n_bins * part + torch.minimum(totals[..., None] % n_bins, part)


def mass_edges(values: Tensor, n_bins: int) -> Tensor:
    """Upper edges (n_bins,) of the equal-mass bins of (N,) values: the last value of each of the even parts."""
    return sort_values(values)[mass_ends(torch.tensor(len(values), device=values.device), n_bins) - 1]


def mass_bins(values: Tensor, n_bins: int) -> Tensor:
    """Index of the equal-mass bin of each of (N,) values: int64 in [0, n_bins).

    The sorted values are cut into ``n_bins`` even parts (the first N % n_bins of them hold one more); equal values stay
    together, in the first part that holds one. So no value is dropped, the order of the rows is of no account, and bins
    are empty where N < n_bins or where ties span them.
    """
    return torch.bucketize(values, mass_edges(values, n_bins)[:-1])


def bin_count(n_bins: BinCount, values: Tensor, hits: Tensor, scheme: Scheme) -> int:
    """``n_bins``, checked, or what the monotonic sweep of Roelofs et al. 2022 finds for (N,) values and hits.

    That is the largest b, at most ``MOST_AUTO``, up to which, with 1, 2, ..., b bins, the share of hits never falls
    from a bin to the next one that is not empty.

    Example:
        >>> values, hits = torch.tensor([0.1, 0.2, 0.3, 0.4, 0.5, 0.6]), torch.tensor([0, 0, 1, 0, 1, 1])
        >>> bin_count("auto", values, hits, "mass")  # of 2: 1/3, 2/3; of 3: 0, 1/2, 1; of 4: 0, 1/2, 1, 1; of 5 not
        4
    """
    if not (isinstance(n_bins, str) and n_bins == "auto"):
        return check_bins(n_bins)
    ordered, order = values.sort()
    n, sums = torch.tensor(len(values), device=values.device), hits[order].double().cumsum(0)
    most = min(len(values), MOST_AUTO)
    for b in range(2, most + 1):
        edges = bin_edges(b, values.dtype, values.device)[1:] if scheme == "width" else ordered[mass_ends(n, b) - 1]
        stops = torch.searchsorted(ordered, edges, right=True).unique()
        stops = stops[stops > 0]
        found = sums[stops - 1]
        shares = found.diff(prepend=found.new_zeros(1)) / stops.diff(prepend=stops.new_zeros(1))
        if (shares.diff() < 0).any():
            return b - 1
    return most


def mass_gaps(values: Tensor, gap: Tensor, n_bins: int) -> Callable[[Tensor], Tensor]:
    """From weights (R, N) of (N,) values to the ECE over the equal-mass bins of what they draw, (R,); of nothing 0."""
    ordered, order = values.sort()
    gap = gap[order]
    last = torch.searchsorted(ordered, ordered, right=True) - 1  # of each value's ties

    def in_cache(weights: Tensor) -> Tensor:
        weights = weights.index_select(1, order)
        counts = weights.cumsum(1)
        total = counts[:, -1]
        stops = last[torch.searchsorted(counts, mass_ends(total.long(), n_bins).double())]
        sums = (weights * gap).cumsum(1).gather(1, stops)
        errors = sums.diff(dim=1, prepend=torch.zeros_like(sums[:, :1])).abs().sum(1)
        return errors / total.clamp(min=1.0)

    return lambda weights: torch.cat([in_cache(w) for w in weights.split(max(1, WEIGHTS // len(values)))])


def bin_sums(index: Tensor, weights: Tensor | None, n_bins: int) -> Tensor:
    """Float64 sum of ``weights`` (of ones if None) in each bin: (n_bins,)."""
    return torch.bincount(index, None if weights is None else weights.double(), minlength=n_bins).double()


@dataclass(frozen=True)
class ReliabilityBins:
    """The numbers of a reliability diagram."""

    edges: np.ndarray  #: (n_bins + 1,); for equal mass the lowest value, then each bin's largest
    counts: np.ndarray  #: (n_bins,) samples in each bin, int64
    confidence: np.ndarray  #: (n_bins,) their mean confidence, NaN in an empty bin
    accuracy: np.ndarray  #: (n_bins,) share of correct predictions (of labels ``class_index``), NaN in an empty bin


def reliability_bins(
    probs: Array, labels: Array, n_bins: BinCount = 15, scheme: Scheme = "width", class_index: int | None = None
) -> ReliabilityBins:
    """Counts, mean confidence and accuracy in bins of confidence: what a reliability diagram draws.

    ``sum(counts / N * abs(accuracy - confidence))`` over the bins that are not empty is the ECE.

    Paper: DeGroot & Fienberg 1983; for networks Niculescu-Mizil & Caruana 2005 and Guo et al. 2017 (Fig. 1).

    Args:
        probs: (N, K) probabilities.
        labels: (N,) integers in [0, K).
        n_bins: number of bins; 15 as in Guo et al. "auto" as in ``adaptive_ece``.
        scheme: ``"width"`` for equal width, the bins of ``ece``; ``"mass"`` for equal mass, those of ``adaptive_ece``.
        class_index: None for the top label; k for the probability of class k against ``labels == k``.

    Raises:
        ValueError: bad ``probs`` or ``labels``, ``n_bins`` < 1, an unknown scheme or class.

    Example:
        >>> bins = reliability_bins(np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]]), np.array([0, 1, 1]), n_bins=2)
        >>> bins.counts.tolist(), bins.confidence.round(2).tolist(), bins.accuracy.round(2).tolist()
        ([0, 3], [nan, 0.8], [nan, 0.67])
    """
    check_choice("scheme", scheme, get_args(Scheme))
    sample = Sample.of(probs, labels)
    values, hits = sample.confidence, sample.correct
    if class_index is not None:
        class_index = check_int("class_index", class_index, 0, sample.probs.shape[1])
        values, hits = sample.probs[:, class_index].contiguous(), sample.labels == class_index
    n_bins = bin_count(n_bins, values, hits, scheme)
    if scheme == "width":
        index, edges = width_bins(values, n_bins), bin_edges(n_bins, values.dtype)
    else:
        index, edges = mass_bins(values, n_bins), torch.cat([values.min()[None], mass_edges(values, n_bins)])
    counts, confidence, accuracy = (bin_sums(index, w, n_bins).cpu().numpy() for w in (None, values, hits))
    divisor = np.where(counts > 0, counts, np.nan)
    return ReliabilityBins(edges.cpu().numpy(), counts.astype(np.int64), confidence / divisor, accuracy / divisor)
