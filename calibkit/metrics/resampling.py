"""Bootstrap intervals of the metrics and of their differences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from math import log

import numpy as np
import torch
from torch import Tensor

from calibkit._arrays import blocks
from calibkit._checks import Array, check_bins, check_draws, check_int, expected, like
from calibkit.metrics.intervals import Resampled, check_level
from calibkit.metrics.registry import BLOCK_BYTES, METRICS, are_own, check_names, in_blocks, measure, null_draws
from calibkit.metrics.sample import Sample, as_number, check_groups, on_copies

#: A metric of one's own.
Function = Callable[[Array, Array], float]


def bootstrap(
    probs: Array,
    labels: Array,
    metrics: Iterable[str] | Mapping[str, Function] | None = None,
    *,
    groups: Array | None = None,
    n_resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    n_bins: int = 15,
) -> dict[str, tuple[float, float]]:
    r"""Bootstrap intervals (low, high) by name: rows are drawn with replacement, N of N, and the metrics computed.

    With v the value on the sample itself, and l and h the (1 - level) / 2 and (1 + level) / 2 quantiles of the draws,
    the interval is the reflected one,

    .. math:: [\, 2 v - h,\; 2 v - l \,] .

    What resampling does to the value, sampling did to the truth: where the draws lie above v, the truth is likely below
    it. A calibration error is such a case, for noise in a bin counts as error, in the sample once, in a resample
    twice. Its *percentile* interval [l, h] lies too high and need not hold even v. Nor is the reflected one enough near
    0, where an error has nowhere to go but up. So for the calibration errors of ``METRICS``

    * the upper end is at least ``v + (h - l) / 2``;
    * the lower end is 0 unless v is above the (1 + level) / 2 quantile of what a calibrated network would show
      (:func:`~calibkit.metrics.registry.null_draws`; as many draws as resamples), and never below 0. The debiased one
      needs no such quantile; with ``groups`` that of the errors of every class is not known, and 0 is held too seldom.

    No interval goes beyond the values that its metric can have.

    At N = 10,000 an interval of the ECE then holds a true value of 0, 0.5, 1 and 3% in at least 94% of test sets
    (chapter metrics). Where v, l or h is not finite, the interval is [l, h].

    Rows that go together, as the pixels of an image, tell less than as many rows that do not. With ``groups`` whole
    groups are drawn with replacement, as many as there are, and the interval speaks of new images, not of other pixels
    of the same ones.

    A metric of ``METRICS`` is computed from how often each row is drawn, without copying rows; its values equal those
    of the metric on the drawn rows. All metrics see the same draws, so their intervals can be compared. An interval
    speaks of the draw of test samples, not of the training seed.

    Paper: Davison & Hinkley 1997, Sec. 5.2, eq. 5.6, the basic bootstrap.

    Args:
        probs: (N, K) probabilities.
        labels: (N,) integers in [0, K).
        metrics: names of ``METRICS``, all of them if None; or a mapping of names to own functions ``f(probs, labels)``,
            which are called on every resample, with both in the container of ``probs``: numpy unless that is a tensor.
        groups: (N,) integers or strings: rows of one group are drawn together. Default: each row by itself.
        n_resamples: number of resamples.
        level: coverage in (0, 1); the quantiles are taken outwards to the next resample's value.
        seed: of numpy's PCG64, so the draws are the same on every device.
        n_bins: number of bins of the binned metrics.

    Raises:
        ValueError: bad ``probs``, ``labels`` or ``groups``, an unknown metric, ``n_resamples`` < 1, ``level`` outside
            (0, 1).

    Example:
        >>> probs, labels = np.tile([0.9, 0.1], (100, 1)), np.repeat([0, 1], [80, 20])
        >>> low, high = bootstrap(probs, labels, metrics=["accuracy"])["accuracy"]
        >>> round(low, 2), round(high, 2)
        (0.72, 0.88)
    """
    check_level(level)
    metrics = in_container(metrics, probs)
    found = resampled(Sample.of(probs, labels), metrics, groups, n_resamples, seed, n_bins)
    return {name: of.interval(level) for name, of in found.items()}


def bootstrap_difference(
    before: Array,
    after: Array,
    labels: Array,
    metrics: Iterable[str] | Mapping[str, Function] | None = None,
    *,
    groups: Array | None = None,
    n_resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    n_bins: int = 15,
) -> dict[str, tuple[float, float]]:
    """Bootstrap intervals of metric(after) - metric(before), both taken on the same draws.

    Of a mean over rows (accuracy, NLL, Brier score, entropy) it is the reflected interval of :func:`bootstrap`. Of a
    calibration error, and of an own function, it is the smallest that holds both the reflected and the percentile
    interval: between two methods that are equally well calibrated the first alone sees a difference in 16 to 21% of
    test sets, and both together in at most about 5%. Of two methods whose own intervals begin at 0 it holds 0: both may
    be calibrated, and the one that says fewer different values has less bias. Near 0 a difference looks smaller than it
    is, for there an error is mostly bias. So with v the difference on the sample and [l, h] its percentile interval,

    * where the interval of ``before`` begins at 0, the upper end is at least ``v + (h - l)``;
    * where that of ``after`` does, the lower end is at most ``v - (h - l)``;

    but an end that lies beyond 0, on the side of v, stays where it is: whether 0 is held does not depend on this. At
    N = 10,000 true differences in ECE of 0.5 and 1 points are then held in at least 93% of test sets (chapter metrics).

    Two infinite values, as the NLL has where both give a label the probability 0, differ by 0. Where that of ``after``
    is infinite, the interval is the percentile one.

    What the two have in common cancels, so that the interval is mostly narrower than the two single ones suggest; the
    rules near 0 can make it wider. Two methods differ beyond the chance of the test set where the interval does not
    hold 0.

    ``before`` and ``after`` are (N, K) probabilities of the same samples; all else is as in :func:`bootstrap`.

    Raises:
        ValueError: as :func:`bootstrap`; probabilities of different shapes.

    Example:
        >>> before, labels = np.tile([0.9, 0.1], (100, 1)), np.repeat([0, 1], [80, 20])
        >>> after = np.tile([0.8, 0.2], (100, 1))
        >>> low, high = bootstrap_difference(before, after, labels, metrics=["nll"])["nll"]
        >>> round(low, 3), round(high, 3)
        (-0.109, 0.02)
    """
    check_level(level)
    metrics = in_container(metrics, before) if are_own(metrics) else check_names(metrics)
    first, second = Sample.of(before, labels, "before"), Sample.of(after, labels, "after")
    if first.probs.shape != second.probs.shape:
        raise expected("after", f"of shape {tuple(first.probs.shape)} as `before`", f"{tuple(second.probs.shape)}")
    a, b = (resampled(sample, metrics, groups, n_resamples, seed, n_bins) for sample in (first, second))
    return {name: b[name].difference(a[name], level)[1:] for name in a}


def bootstrap_values(
    probs: Array,
    labels: Array,
    metrics: Iterable[str] | Mapping[str, Function] | None = None,
    *,
    groups: Array | None = None,
    n_resamples: int = 1000,
    seed: int = 0,
    n_bins: int = 15,
) -> dict[str, np.ndarray]:
    """The metrics on each draw of :func:`bootstrap`, (n_resamples,) float64 by name, with its arguments and errors.

    The draws depend on N, ``groups`` and ``seed`` alone. So the difference of two results is what
    :func:`bootstrap_difference` takes its interval of, and each method is resampled once however many others it is
    compared with.

    Raises:
        ValueError: as :func:`bootstrap`.

    Example:
        >>> probs, labels = np.tile([0.9, 0.1], (100, 1)), np.repeat([0, 1], [80, 20])
        >>> bootstrap_values(probs, labels, metrics=["accuracy"], n_resamples=4)["accuracy"].round(2)
        array([0.8 , 0.72, 0.73, 0.8 ])
    """
    metrics = in_container(metrics, probs)
    found = resampled(Sample.of(probs, labels), metrics, groups, n_resamples, seed, n_bins)
    return {name: of.draws for name, of in found.items()}


def resampled(
    sample: Sample,
    metrics: Iterable[str] | Mapping[str, Function] | None,
    groups: Array | None,
    n_resamples: int,
    seed: int,
    n_bins: int,
) -> dict[str, Resampled]:
    """Each metric on the sample itself, as ``evaluate`` gives it, and on each draw; own functions get tensors."""
    n_resamples, n_bins = check_draws("n_resamples", n_resamples), check_bins(n_bins)
    rng = np.random.default_rng(check_int("seed", seed, 0))
    group = None
    if groups is not None:
        distinct, group = check_groups(groups, len(sample))
        if len(distinct) < 2:
            raise expected("groups", "of two or more values, to be drawn from", "one value")
    counts = draws(len(sample), n_resamples, rng, group)

    def weights(block: slice) -> Tensor:
        drawn = torch.from_numpy(np.stack(list(islice(counts, block.stop - block.start))))
        # Converted by torch, whose memory is aligned alike at every call, so that equal sums are equal to the last bit.
        return drawn.to(sample.labels.device).double()

    resamples = map(weights, blocks(n_resamples, len(sample), 8, BLOCK_BYTES))
    if are_own(metrics):
        check_functions(metrics)
        drawn = in_blocks({name: on_copies(sample, of) for name, of in metrics.items()}, resamples)
        values = {name: as_number(of(sample.probs, sample.labels)) for name, of in metrics.items()}
        return {name: Resampled(value, drawn[name], False, None) for name, value in values.items()}
    known = {name: METRICS[name] for name in check_names(metrics)}
    values = measure(sample, tuple(known), n_bins)
    statistics = {name: metric.statistic(sample, n_bins) for name, metric in known.items()}
    drawn = in_blocks(statistics, resamples)
    null = {name: np.empty(0) if metric.is_error else None for name, metric in known.items()}
    null |= null_draws(sample, known, n_resamples, np.random.default_rng([1, seed]), n_bins, group)
    found: dict[str, Resampled] = {}
    for name, metric in known.items():
        # The mean of logarithms may be rounded upwards.
        most = max(log(sample.probs.shape[1]), values[name]) if metric.most is None else metric.most
        found[name] = Resampled(values[name], drawn[name], metric.mean, null[name], (0.0, most))
    return found


def check_functions(metrics: Mapping[str, object]) -> None:
    """Raise ValueError unless every value can be called."""
    if not all(map(callable, metrics.values())):
        raise expected("metrics", "names, or a mapping of names to functions", repr(metrics))


def in_container(
    metrics: Iterable[str] | Mapping[str, Function] | None, probs: Array | Sample
) -> Iterable[str] | Mapping[str, Function] | None:
    """Own functions that are handed tensors, as functions that get numpy unless ``probs`` is a tensor."""
    if not are_own(metrics) or isinstance(probs, Tensor | Sample):
        return metrics
    check_functions(metrics)
    return {name: lambda p, y, own=own: own(like(p, probs), like(y, probs)) for name, own in metrics.items()}


def draws(n: int, n_resamples: int, rng: np.random.Generator, group: np.ndarray | None = None) -> Iterator[np.ndarray]:
    """How often each of ``n`` rows is in a resample: (n,) integers, for each of the resamples.

    With the number ``group`` (n,) of the group of each row whole groups are drawn.
    """
    if group is not None:
        return (times[group] for times in draws(group.max() + 1, n_resamples, rng))
    return (np.bincount(rng.integers(0, n, size=n), minlength=n) for _ in range(n_resamples))
