"""Calibration errors of every class: p_k against the fraction of labels k, averaged over the classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from calibkit._arrays import BLOCK_BYTES, blocks
from calibkit._checks import Array, check_bins, check_choice, check_real
from calibkit.metrics.binning import bin_edges, mass_ends, mass_gaps, segment_sums, sort_values, width_bins
from calibkit.metrics.sample import Metric, Sample, Statistic, own_probs

Normalize = Literal["n", "class_count"]
THRESHOLD = 0.01  # of ``tace``


def classwise_ece(probs: Array, labels: Array, *, n_bins: int = 15, normalize: Normalize = "n") -> float:
    r"""Class-wise ECE (static calibration error, SCE), equal-width bins.

    .. math:: \frac{1}{K} \sum_k \sum_b \frac{n_{kb}}{N} \left|\mathrm{acc}_{kb} - \mathrm{conf}_{kb}\right|

    where bin b of class k holds the rows whose p_k falls in it, conf is their mean p_k and acc the fraction labelled k.

    Paper: Nixon et al. 2019 (SCE); Kull et al. 2019; eq. 5 of Neural Clamping. Class-based temperature scaling
    (Frenkel & Goldberger 2021, eq. 2) divides by the n_k samples of class k, though all N rows are binned.

    Args:
        probs: (N, K) probabilities.
        labels: (N,) integers in [0, K).
        n_bins: number of bins; their edges are those of ``ece``.
        normalize: ``"n"`` divides by N; ``"class_count"`` divides class k by n_k, and leaves out classes with no label.

    Returns:
        A fraction in [0, 1] for ``"n"``, which is small for many classes as most p_k are near 0; for
        ``"class_count"`` about K times as large, and not bounded by 1.

    Raises:
        ValueError: bad ``probs`` or ``labels``, ``n_bins`` < 1, an unknown ``normalize``.

    Example:
        >>> probs, labels = np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]]), np.array([0, 1, 1])
        >>> round(classwise_ece(probs, labels, n_bins=2), 4)
        0.3333

    Differs from the paper: nothing; K is the number of columns, also where the last class has no label.
    """
    n_bins = check_bins(n_bins)
    check_choice("normalize", normalize, get_args(Normalize))
    return classwise_of(*class_sums(Sample.of(probs, labels), n_bins), normalize).item()


def ace(probs: Array, labels: Array, *, n_bins: int = 15) -> float:
    r"""Adaptive calibration error (ACE) of Nixon: class-wise, equal-mass bins.

    .. math:: \frac{1}{K} \sum_k \sum_r \frac{n_{kr}}{N} \left|\mathrm{acc}_{kr} - \mathrm{conf}_{kr}\right|

    where range r of class k holds the r-th part of the rows sorted by p_k. With equal parts this is the plain mean
    over the K R ranges, R being ``n_bins``. It is a fraction in [0, 1] of ``probs`` (N, K) and ``labels`` (N,), small
    for many classes as most p_k are near 0; and not what Neural Clamping's tables call ACE: that is ``adaptive_ece``.

    Paper: Nixon et al. 2019, "Measuring calibration in deep learning"; eq. 6 of Neural Clamping.

    Raises:
        ValueError: bad ``probs`` or ``labels``, ``n_bins`` < 1.

    Example:
        >>> probs, labels = np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]]), np.array([0, 1, 1])
        >>> round(ace(probs, labels, n_bins=2), 4)  # class 0: (1.1 + 0.1) / 3, class 1: (0.7 + 0.3) / 3
        0.3667

    Differs from the paper: equal values stay in one range, and a range weighs what it holds (as in the authors' code),
    so that ties, and an N that R does not divide, are treated exactly.
    """
    return mass_errors(Sample.of(probs, labels), check_bins(n_bins), (0.0,))[0]


def tace(probs: Array, labels: Array, *, n_bins: int = 15, threshold: float = THRESHOLD) -> float:
    r"""Thresholded ACE (TACE): ``ace`` over the p_k that are at least ``threshold``.

    .. math::
       \begin{gathered}
       \frac{1}{K} \sum_k \sum_r \frac{n_{kr}}{n_k} \left|\mathrm{acc}_{kr} - \mathrm{conf}_{kr}\right|, \\
       n_k = \#\{i: p_{ik} \ge \epsilon\}
       \end{gathered}

    A fraction in [0, 1] of ``probs`` (N, K) and ``labels`` (N,), with R = ``n_bins``. ``threshold`` is epsilon, in
    [0, 1]: 0.01 as in the paper, 0 gives ``ace``. Without it the many p_k near 0 wash the error out. A class with no
    p_k at the threshold adds 0 to the mean over K classes.

    Paper: Nixon et al. 2019.

    Raises:
        ValueError: bad ``probs`` or ``labels``, ``n_bins`` < 1, ``threshold`` outside [0, 1].

    Example:
        >>> probs, labels = np.array([[0.995, 0.005], [0.8, 0.2], [0.3, 0.7]]), np.array([0, 1, 1])
        >>> round(tace(probs, labels, n_bins=1), 4)  # class 0: 2.095 / 3 - 1 / 3, class 1: 1 - 0.9 / 2
        0.4575

    Differs from the paper: the two refinements of ``ace``.
    """
    n_bins, threshold = check_bins(n_bins), check_real("threshold", threshold, 0.0, 1.0)
    return mass_errors(Sample.of(probs, labels), n_bins, (threshold,))[0]


def class_sums(sample: Sample, n_bins: int) -> tuple[Tensor, Tensor]:
    """Sums of ``p_k - 1[y = k]`` in the bins of each class (K, n_bins), and the labels of each class (K,), float64."""
    return gaps_of(sample, n_bins)(sample.labels)


def classwise_of(gaps: Tensor, counts: Tensor, normalize: Normalize = "n") -> Tensor:
    """Class-wise ECE from the gaps (..., K, n_bins) and the labels of each class (..., K)."""
    errors = gaps.abs().sum(-1)
    if normalize == "n":
        return errors.mean(-1) / counts.sum(-1)
    present = counts > 0
    return torch.where(present, errors / counts.clamp(min=1.0), 0.0).sum(-1) / present.sum(-1)


def gaps_of(sample: Sample, n_bins: int) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    """``class_sums`` as a function of labels (N,), in bins of equal width.

    At most n_bins - 1 entries of a row lie above the first inner edge: only they are binned, and the first bin is the
    column sum less the others. One pass in blocks that stay in cache; no (N, K) temporary.
    """
    probs, n_classes = sample.probs, sample.probs.shape[1]
    first = bin_edges(n_bins, probs.dtype, probs.device)[1]
    total = torch.zeros(n_classes, dtype=torch.float64, device=probs.device)
    sums = torch.zeros(n_classes * n_bins, dtype=torch.float64, device=probs.device)
    for rows in blocks(*probs.shape, 8):
        block = probs[rows].contiguous()
        columns, where = _sums_and_large(block, first)
        total += columns
        values = block.view(-1)[where]
        sums.index_add_(0, where % n_classes * n_bins + width_bins(values, n_bins), values.double())
    sums = sums.view(n_classes, n_bins)
    sums[:, 0] = total - sums[:, 1:].sum(1)

    def gaps(labels: Tensor) -> tuple[Tensor, Tensor]:
        index = labels * n_bins + width_bins(own_probs(probs, labels), n_bins)
        hits = torch.bincount(index, minlength=n_classes * n_bins).view(n_classes, n_bins)
        return sums - hits, hits.sum(1).double()

    return gaps


def _sums_and_large(block: Tensor, edge: Tensor) -> tuple[Tensor, Tensor]:
    """Float64 column sums, and flat positions of values above an edge; on a CPU by numpy, which is 7 times faster."""
    if block.device.type == "cpu":
        values = block.numpy()
        large = np.flatnonzero(values > edge.numpy())
        return torch.from_numpy(values.sum(0, dtype=np.float64)), torch.from_numpy(large)
    return block.double().sum(0), (block > edge).view(-1).nonzero()[:, 0]


def mass_errors(sample: Sample, n_bins: int, thresholds: Sequence[float]) -> list[float]:
    """Mean over classes of the equal-mass error of the p_k >= threshold, for each threshold; one sort of a column."""
    return mass_errors_of(sample, n_bins, thresholds)(sample.labels)


def mass_errors_of(sample: Sample, n_bins: int, thresholds: Sequence[float]) -> Callable[[Tensor], list[float]]:
    """``mass_errors`` as a function of labels (N,)."""
    probs, (n, n_classes), n_thresholds = sample.probs, sample.probs.shape, len(thresholds)
    edges = probs.new_empty(n_thresholds, n_classes, n_bins)
    sums = probs.new_zeros(n_thresholds, n_classes, n_bins, dtype=torch.float64)
    kept = torch.empty(n_thresholds, n_classes, dtype=torch.int64, device=probs.device)

    for columns in blocks(n_classes, n, 8, 4 * BLOCK_BYTES):
        ordered = sort_values(probs[:, columns].t())
        for i, threshold in enumerate(thresholds):
            below = torch.searchsorted(ordered, ordered.new_full((len(ordered), 1), threshold))
            kept[i, columns] = n - below[:, 0]
            ends = below + mass_ends(kept[i, columns], n_bins)
            edges[i, columns] = ordered.gather(1, (ends - 1).clamp(min=0))
            stops = torch.cat([below, torch.searchsorted(ordered, edges[i, columns], right=True)], 1).clamp(min=below)
            sums[i, columns] = segment_sums(ordered, stops)

    def errors(labels: Tensor) -> list[float]:
        own, values = own_probs(probs, labels), []
        for i, threshold in enumerate(thresholds):
            index = torch.searchsorted(edges[i, labels], own[:, None])[:, 0].clamp(max=n_bins - 1)
            hits = torch.bincount((labels * n_bins + index)[own >= threshold], minlength=n_classes * n_bins)
            gaps = (sums[i] - hits.view(n_classes, n_bins)).abs().sum(1)
            values.append((gaps / kept[i].clamp(min=1)).mean().item())
        return values

    return errors


def _mass_of_weights(sample: Sample, n_bins: int, threshold: float = 0.0) -> Statistic:
    """ACE, or TACE, on weighted rows, class by class."""

    def statistic(weights: Tensor) -> Tensor:
        total = weights.new_zeros(len(weights))
        for k, values in enumerate(sample.probs.t()):
            kept = (values >= threshold).nonzero()[:, 0]
            if len(kept):
                gap = values[kept].double() - (sample.labels[kept] == k).double()
                total += mass_gaps(values[kept], gap, n_bins)(weights.index_select(1, kept))
        return total / sample.probs.shape[1]

    return statistic


def _classwise_of_weights(sample: Sample, n_bins: int) -> Statistic:
    """Sparse sums of the entries above the first inner edge, and of the labels; the first bin by difference."""
    probs, (n, n_classes) = sample.probs, sample.probs.shape
    row, column = (probs > bin_edges(n_bins, probs.dtype, probs.device)[1]).nonzero(as_tuple=True)
    entry = torch.stack([column * n_bins + width_bins(probs[row, column], n_bins), row])
    label = torch.stack(
        [sample.labels * n_bins + width_bins(sample.label_probs, n_bins), torch.arange(n, device=probs.device)]
    )
    options = {"size": (n_classes * n_bins, n), "device": probs.device, "check_invariants": False}
    above = torch.sparse_coo_tensor(entry, probs[row, column].double(), **options).coalesce()
    hits = torch.sparse_coo_tensor(label, probs.new_ones(n, dtype=torch.float64), **options)

    def statistic(weights: Tensor) -> Tensor:
        drawn = weights.t().contiguous()
        sums = torch.sparse.mm(above, drawn).view(n_classes, n_bins, -1)
        sums[:, 0] = sum(p.double().t() @ w for p, w in zip(probs.split(1024), drawn.split(1024), strict=True))
        sums[:, 0] -= sums[:, 1:].sum(1)
        sums -= torch.sparse.mm(hits, drawn).view(n_classes, n_bins, -1)
        return sums.abs().sum((0, 1)) / (weights.sum(1) * n_classes)

    return statistic


def _classwise_of_labels(sample: Sample, n_bins: int) -> Statistic:
    gaps = gaps_of(sample, n_bins)
    return lambda labels: torch.stack([classwise_of(*gaps(y)) for y in labels])


def _mass_of_labels(sample: Sample, n_bins: int, threshold: float = 0.0) -> Statistic:
    errors = mass_errors_of(sample, n_bins, (threshold,))
    return lambda labels: labels.new_tensor([errors(y)[0] for y in labels], dtype=torch.float64)


RECORDS = (
    Metric(classwise_ece, _classwise_of_weights, of_labels=_classwise_of_labels, sums=class_sums, of_sums=classwise_of),
    Metric(ace, _mass_of_weights, of_labels=_mass_of_labels, slow=True),
    Metric(
        tace,
        partial(_mass_of_weights, threshold=THRESHOLD),
        of_labels=partial(_mass_of_labels, threshold=THRESHOLD),
        slow=True,
    ),
)
