"""Percentile bootstrap intervals of the metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np
import torch
from torch import Tensor

from calibkit._checks import Array, check_choice, check_int, check_real, expected
from calibkit.metrics import calibration, proper, smooth
from calibkit.metrics._sample import Sample
from calibkit.metrics.binning import bin_edges, mass_ends, width_bins

#: Of a block of resamples' weights (N, R) in float64.
BLOCK_BYTES = 1 << 25
#: Weights (N, R), how often each row is drawn in each of R resamples -> the metric of each resample (R,).
Statistic = Callable[[Tensor], Tensor]
Metric = Callable[[Array, Array], float]


def bootstrap(
    probs: Array,
    labels: Array,
    metrics: Iterable[str] | Mapping[str, Metric] | None = None,
    *,
    n_resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    n_bins: int = 15,
) -> dict[str, tuple[float, float]]:
    """Percentile bootstrap intervals: rows are drawn with replacement, N of N, and the metrics computed on each draw.

    A metric of ``METRICS`` is computed from how often each row is drawn, without copying rows; its values equal those
    of the metric on the drawn rows. All metrics see the same draws, so their intervals can be compared.

    Paper: Efron & Tibshirani 1993, Sec. 13.3. Binned calibration errors are biased upwards, on a resample more than
    on the sample (the draw adds noise once more), so their intervals lie high and may not hold the sample's own value;
    ``debiased_ece`` suffers less. An interval speaks of the draw of test samples, not of the training seed.

    Args:
        probs: (N, K) probabilities.
        labels: (N,) integers in [0, K).
        metrics: names of ``METRICS``, all of them if None; or a mapping of names to own functions ``f(probs, labels)``,
            which are called on every resample.
        n_resamples: number of resamples.
        level: coverage in (0, 1); the interval is from the (1 - level) / 2 to the (1 + level) / 2 quantile, taken
            outwards to the next resample's value.
        seed: of numpy's PCG64, so the draws are the same on every device.
        n_bins: number of bins of the binned metrics.

    Returns:
        ``{name: (low, high)}``.

    Raises:
        ValueError: bad ``probs`` or ``labels``, an unknown metric, ``n_resamples`` < 1, ``level`` outside (0, 1).

    Example:
        >>> import numpy as np
        >>> probs, labels = np.tile([0.9, 0.1], (100, 1)), np.repeat([0, 1], [80, 20])
        >>> low, high = bootstrap(probs, labels, metrics=["accuracy"])["accuracy"]
        >>> round(low, 2), round(high, 2)
        (0.72, 0.88)
    """
    _check_level(level)
    values = _resampled(Sample.of(probs, labels), metrics, n_resamples, seed, n_bins)
    return {name: _interval(v, level) for name, v in values.items()}


def bootstrap_difference(
    before: Array,
    after: Array,
    labels: Array,
    metrics: Iterable[str] | Mapping[str, Metric] | None = None,
    *,
    n_resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    n_bins: int = 15,
) -> dict[str, tuple[float, float]]:
    """Percentile bootstrap intervals of metric(after) - metric(before), both taken on the same draws.

    What the two have in common cancels, so the interval is narrower than the two single intervals suggest. Two
    methods differ beyond the chance of the test set where the interval does not hold 0.

    Args:
        before: (N, K) probabilities.
        after: (N, K) probabilities of the same samples.
        labels: (N,) integers in [0, K).
        metrics: as in :func:`bootstrap`.
        n_resamples: number of resamples.
        level: coverage in (0, 1).
        seed: of the draws.
        n_bins: number of bins of the binned metrics.

    Returns:
        ``{name: (low, high)}``.

    Raises:
        ValueError: as :func:`bootstrap`; probabilities of different shapes.

    Example:
        >>> import numpy as np
        >>> before, labels = np.tile([0.9, 0.1], (100, 1)), np.repeat([0, 1], [80, 20])
        >>> after = np.tile([0.8, 0.2], (100, 1))
        >>> low, high = bootstrap_difference(before, after, labels, metrics=["nll"])["nll"]
        >>> round(low, 3), round(high, 3)
        (-0.109, 0.02)
    """
    _check_level(level)
    first, second = Sample.of(before, labels), Sample.of(after, labels)
    if first.probs.shape != second.probs.shape:
        raise expected("after", f"of shape {tuple(first.probs.shape)} as `before`", f"{tuple(second.probs.shape)}")
    a, b = (_resampled(sample, metrics, n_resamples, seed, n_bins) for sample in (first, second))
    return {name: _interval(b[name] - a[name], level) for name in a}


def _check_level(level: float) -> None:
    if not 0.0 < check_real("level", level, 0.0, 1.0) < 1.0:
        raise expected("level", "between 0 and 1", level)


def _interval(values: np.ndarray, level: float) -> tuple[float, float]:
    tail = (1.0 - level) / 2.0
    low, high = np.quantile(values, tail, method="lower"), np.quantile(values, 1.0 - tail, method="higher")
    return float(low), float(high)


def _resampled(
    sample: Sample, metrics: Iterable[str] | Mapping[str, Metric] | None, n_resamples: int, seed: int, n_bins: int
) -> dict[str, np.ndarray]:
    """Each metric on each draw: (n_resamples,)."""
    check_int("n_resamples", n_resamples, 1)
    check_int("n_bins", n_bins, 1)
    rng = np.random.default_rng(check_int("seed", seed, 0))
    if isinstance(metrics, Mapping):
        return _by_rows(sample, metrics, n_resamples, rng)
    names = STATISTICS if metrics is None else [check_choice("metrics", name, STATISTICS) for name in metrics]
    return _by_weights(sample, {name: STATISTICS[name](sample, n_bins) for name in names}, n_resamples, rng)


def _by_rows(sample: Sample, metrics: Mapping[str, Metric], n_resamples: int, rng: np.random.Generator) -> dict:
    values = {name: np.empty(n_resamples) for name in metrics}
    for i, rows in enumerate(draws(len(sample), n_resamples, rng)):
        rows = torch.from_numpy(rows).to(sample.labels.device)
        for name, metric in metrics.items():
            values[name][i] = metric(sample.probs[rows], sample.labels[rows])
    return values


def _by_weights(
    sample: Sample, statistics: Mapping[str, Statistic], n_resamples: int, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    n, found = len(sample), {name: [] for name in statistics}
    step = max(1, BLOCK_BYTES // (8 * n))
    rows = draws(n, n_resamples, rng)
    for size in [step] * (n_resamples // step) + [n_resamples % step] * (n_resamples % step > 0):
        counts = np.stack([np.bincount(next(rows), minlength=n) for _ in range(size)], axis=1)
        weights = torch.from_numpy(counts.astype(np.float64)).to(sample.labels.device)
        for name, statistic in statistics.items():
            found[name].append(statistic(weights).cpu().numpy())
    return {name: np.concatenate(values) for name, values in found.items()}


def draws(n: int, n_resamples: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """The rows (n,) of each resample."""
    return (rng.integers(0, n, size=n) for _ in range(n_resamples))


def _mean(of_rows: Callable[[Sample], Tensor]) -> Callable[[Sample, int], Statistic]:
    def prepare(sample: Sample, n_bins: int) -> Statistic:
        values = of_rows(sample)
        infinite = values.isinf()
        finite = values.masked_fill(infinite, 0.0)  # 0 draws of an infinite value are 0, not NaN

        def statistic(weights: Tensor) -> Tensor:
            return torch.where(weights[infinite].sum(0) > 0, torch.inf, finite @ weights / len(sample))

        return statistic

    return prepare


def _sums(sample: Sample, n_bins: int, *values: Tensor) -> Callable[[Tensor], list[Tensor]]:
    """Weighted sums of each of ``values`` in the equal-width bins of the confidence: (R, n_bins) each."""
    one_hot = torch.nn.functional.one_hot(width_bins(sample.confidence, n_bins), n_bins).double()
    matrix = torch.cat([one_hot * v.double()[:, None] for v in values], 1).t()
    return lambda weights: (matrix @ weights).t().split(n_bins, 1)


def _ece(sample: Sample, n_bins: int) -> Statistic:
    sums = _sums(sample, n_bins, sample.gap)
    return lambda weights: sums(weights)[0].abs().sum(1) / len(sample)


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
    last = torch.searchsorted(ordered, ordered, right=True)  # end of each value's ties

    def statistic(weights: Tensor) -> Tensor:
        weights = weights.index_select(0, order)
        counts = weights.cumsum(0).t().contiguous()
        gaps = torch.nn.functional.pad((weights * gap[:, None]).cumsum(0), (0, 0, 1, 0))
        totals = counts[:, -1]
        ends = mass_ends(totals.long(), n_bins).double()
        stops = last[torch.searchsorted(counts, ends).clamp(max=len(last) - 1)].t()
        stops = torch.where(totals > 0, stops, 0)
        inside = torch.nn.functional.pad(gaps.gather(0, stops), (0, 0, 1, 0)).diff(dim=0)
        return inside.abs().sum(0) / totals.clamp(min=1.0)

    return statistic


def _mean_mass(threshold: float) -> Callable[[Sample, int], Statistic]:
    def prepare(sample: Sample, n_bins: int) -> Statistic:
        def statistic(weights: Tensor) -> Tensor:
            total = torch.zeros_like(weights[0])
            for k, values in enumerate(sample.probs.t()):
                kept = (values >= threshold).nonzero()[:, 0]
                if len(kept):
                    gap = values[kept].double() - (sample.labels[kept] == k).double()
                    total += _mass(values[kept], gap, n_bins)(weights.index_select(0, kept))
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
        sums = torch.sparse.mm(above, weights).view(n_classes, n_bins, -1)
        sums[:, 0] = sum(p.double().t() @ w for p, w in zip(probs.split(1024), weights.split(1024), strict=True))
        sums[:, 0] -= sums[:, 1:].sum(1)
        sums -= torch.sparse.mm(hits, weights).view(n_classes, n_bins, -1)
        return sums.abs().sum((0, 1)) / (n * n_classes)

    return statistic


def _smooth_ece(sample: Sample, n_bins: int) -> Statistic:
    gap = sample.gap / len(sample)

    def statistic(weights: Tensor) -> Tensor:
        return torch.tensor([smooth.smooth_error(sample.confidence, gap * w) for w in weights.t()])

    return statistic


def _ks_error(sample: Sample, n_bins: int) -> Statistic:
    ordered, order = sample.confidence.sort()
    gap, ends = sample.gap[order, None], calibration.tie_ends(ordered)
    return lambda weights: (weights[order] * gap).cumsum(0)[ends].abs().amax(0) / len(sample)


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
    "tace": _mean_mass(0.01),
    "smooth_ece": _smooth_ece,
    "ks_error": _ks_error,
    "debiased_ece": _top_label(calibration.debiased_of),
}
