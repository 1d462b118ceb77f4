"""Metrics as functions of row weights: what the bootstrap asks for instead of copying rows.

``STATISTICS[name](sample, n_bins)`` does once what does not depend on the draw (sorting, binning), and gives a function
from weights (R, N), how often each row is drawn in each of R resamples, to the metric of each resample (R,).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from calibkit.metrics import calibration, proper, smooth
from calibkit.metrics.binning import bin_edges, mass_ends, width_bins
from calibkit.metrics.classwise import THRESHOLD
from calibkit.metrics.registry import BINNED, METRICS
from calibkit.metrics.sample import Sample

Statistic = Callable[[Tensor], Tensor]
#: Weights that are sorted and summed at a time: 1 MB.
BLOCK = 1 << 17


def _mean(of_rows: Callable[[Sample], Tensor]) -> Callable[[Sample, int], Statistic]:
    def prepare(sample: Sample, n_bins: int) -> Statistic:
        values = of_rows(sample)
        infinite = values.isinf()
        finite = values.masked_fill(infinite, 0.0)  # 0 draws of an infinite value are 0, not NaN

        def statistic(weights: Tensor) -> Tensor:
            return torch.where(weights[:, infinite].sum(1) > 0, torch.inf, weights @ finite / weights.sum(1))

        return statistic

    return prepare


def _sums(sample: Sample, n_bins: int, *values: Tensor) -> Callable[[Tensor], list[Tensor]]:
    """Weighted sums of each of ``values`` in the equal-width bins of the confidence: (R, n_bins) each."""
    one_hot = torch.nn.functional.one_hot(width_bins(sample.confidence, n_bins), n_bins).double()
    matrix = torch.cat([one_hot * v.double()[:, None] for v in values], 1)
    return lambda weights: (weights @ matrix).split(n_bins, 1)


def _ece(sample: Sample, n_bins: int) -> Statistic:
    sums = _sums(sample, n_bins, sample.gap)
    return lambda weights: sums(weights)[0].abs().sum(1) / weights.sum(1)


def _top_label(of_sums: Callable[..., Tensor]) -> Callable[[Sample, int], Statistic]:
    def prepare(sample: Sample, n_bins: int) -> Statistic:
        sums = _sums(sample, n_bins, torch.ones_like(sample.confidence), sample.confidence, sample.correct)
        return lambda weights: of_sums(*sums(weights))

    return prepare


def _adaptive_ece(sample: Sample, n_bins: int) -> Statistic:
    return _mass(sample.confidence, sample.gap, n_bins)


def _mass(values: Tensor, gap: Tensor, n_bins: int) -> Statistic:
    """Sum over equal-mass bins of the absolute weighted gap, over the total weight (0 if nothing is drawn)."""
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

    return lambda weights: torch.cat([in_cache(w) for w in weights.split(max(1, BLOCK // len(values)))])


def _mean_mass(threshold: float) -> Callable[[Sample, int], Statistic]:
    def prepare(sample: Sample, n_bins: int) -> Statistic:
        def statistic(weights: Tensor) -> Tensor:
            total = weights.new_zeros(len(weights))
            for k, values in enumerate(sample.probs.t()):
                kept = (values >= threshold).nonzero()[:, 0]
                if len(kept):
                    gap = values[kept].double() - (sample.labels[kept] == k).double()
                    total += _mass(values[kept], gap, n_bins)(weights.index_select(1, kept))
            return total / sample.probs.shape[1]

        return statistic

    return prepare


def _classwise_ece(sample: Sample, n_bins: int) -> Statistic:
    """Sparse sums of the entries above the first inner edge, and of the labels; the first bin by difference."""
    probs, (n, n_classes) = sample.probs, sample.probs.shape
    row, column = (probs > bin_edges(n_bins, probs.dtype, probs.device)[1]).nonzero(as_tuple=True)
    entry = torch.stack([column * n_bins + width_bins(probs[row, column], n_bins), row])
    label = torch.stack(
        [sample.labels * n_bins + width_bins(sample.label_probs, n_bins), torch.arange(n, device=probs.device)]
    )
    size = (n_classes * n_bins, n)
    above = torch.sparse_coo_tensor(entry, probs[row, column].double(), size, check_invariants=False).coalesce()
    hits = torch.sparse_coo_tensor(label, probs.new_ones(n, dtype=torch.float64), size, check_invariants=False)

    def statistic(weights: Tensor) -> Tensor:
        drawn = weights.t().contiguous()
        sums = torch.sparse.mm(above, drawn).view(n_classes, n_bins, -1)
        sums[:, 0] = sum(p.double().t() @ w for p, w in zip(probs.split(1024), drawn.split(1024), strict=True))
        sums[:, 0] -= sums[:, 1:].sum(1)
        sums -= torch.sparse.mm(hits, drawn).view(n_classes, n_bins, -1)
        return sums.abs().sum((0, 1)) / (weights.sum(1) * n_classes)

    return statistic


def _smooth_ece(sample: Sample, n_bins: int) -> Statistic:
    def statistic(weights: Tensor) -> Tensor:
        shares = weights / weights.sum(1, keepdim=True)
        values = [smooth.smooth_error(sample.confidence, sample.gap * share) for share in shares]
        return torch.tensor(values, dtype=torch.float64)

    return statistic


def _ks_error(sample: Sample, n_bins: int) -> Statistic:
    ordered, order = sample.confidence.sort()
    gap, ends = sample.gap[order], calibration.tie_ends(ordered)
    return lambda weights: (weights[:, order] * gap).cumsum(1)[:, ends].abs().amax(1) / weights.sum(1)


STATISTICS: dict[str, Callable[[Sample, int], Statistic]] = {
    "accuracy": _mean(lambda sample: sample.correct.double()),
    "nll": _mean(proper.sample_nll),
    "brier": _mean(proper.sample_brier),
    "entropy": _mean(proper.sample_entropy),
    "ece": _ece,
    "mce": _top_label(calibration.mce_of),
    "adaptive_ece": _adaptive_ece,
    "classwise_ece": _classwise_ece,
    "ace": _mean_mass(0.0),
    "tace": _mean_mass(THRESHOLD),
    "smooth_ece": _smooth_ece,
    "ks_error": _ks_error,
    "debiased_ece": _top_label(calibration.debiased_of),
}


def statistic_of(name: str, sample: Sample, n_bins: int) -> Statistic:
    """That of ``STATISTICS``; for a metric that has none there, the metric on copies of the rows."""
    if name in STATISTICS:
        return STATISTICS[name](sample, n_bins)
    return of_rows(sample, partial(METRICS[name], **({"n_bins": n_bins} if name in BINNED else {})))


def of_rows(sample: Sample, metric: Callable[[Tensor, Tensor], float]) -> Statistic:
    """A function of probabilities and labels, on copies of the rows."""

    def statistic(weights: Tensor) -> Tensor:
        rows = map(torch.repeat_interleave, weights.long())
        return torch.tensor([float(metric(sample.probs[i], sample.labels[i])) for i in rows], dtype=torch.float64)

    return statistic
