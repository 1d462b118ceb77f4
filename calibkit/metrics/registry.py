"""The metrics by name, their values on one sample, the one path to a number, and what chance alone makes of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeGuard

import numpy as np
import torch
from torch import Tensor

from calibkit._arrays import blocks
from calibkit._checks import Array, are_many, check_bins, check_choice, expected, to_tensor
from calibkit.metrics import calibration, classwise, ece_alternatives, proper
from calibkit.metrics.sample import Metric, Sample, Statistic

#: Name -> record, in the order in which they are listed.
METRICS: dict[str, Metric] = {
    metric.name: metric for module in (proper, calibration, classwise, ece_alternatives) for metric in module.RECORDS
}
#: Those of bins, whose number is an argument; those that are no shares, and so not shown in percent; and what is
#: reported with intervals: all whose bootstrap is not slow.
BINNED = tuple(name for name, metric in METRICS.items() if metric.binned)
IN_NATS = tuple(name for name, metric in METRICS.items() if metric.unit == "nats")
REPORTED = tuple(name for name, metric in METRICS.items() if not metric.slow)
#: Of a block of resamples, weights or gaps (R, N), in float64.
BLOCK_BYTES = 1 << 25


def evaluate(
    probs: Array, labels: Array, metrics: Iterable[str] | None = None, *, n_bins: int = 15
) -> dict[str, float]:
    """All metrics at once: the input is checked, and its row maxima and correct predictions found, a single time.

    Args:
        probs: (N, K) probabilities, numpy or torch; rows sum to 1.
        labels: (N,) integers in [0, K). Or, where each sample has several labels, (N, K) of 0 and 1; ``probs`` are
            then those of each label, and rows need not sum to 1: K problems of two classes.
        metrics: names of ``METRICS``; all of them if None. Functions of one's own are for :func:`bootstrap`.
        n_bins: number of bins of the binned metrics.

    Returns:
        ``{name: value}``, each equal to ``METRICS[name](probs, labels)``; of several labels to the mean of
        ``METRICS[name](probs[:, k], labels[:, k])``, in which every label counts the same (macro).

    Raises:
        ValueError: bad ``probs`` or ``labels``, an unknown metric, a single name that is no sequence, a mapping of
            functions of one's own, which :func:`bootstrap` takes, ``n_bins`` < 1.

    Example:
        >>> values = evaluate(np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([0, 1]))
        >>> values["accuracy"], round(values["ece"], 2), round(values["nll"], 4)
        (1.0, 0.15, 0.1643)
        >>> evaluate(np.array([[0.9, 0.8], [0.2, 0.4]]), np.array([[1, 1], [0, 1]]), ["accuracy"])
        {'accuracy': 0.75}
    """
    n_bins, names = check_bins(n_bins), check_names(metrics)
    each = [measure(sample, names, n_bins) for sample in _samples(probs, labels)]
    return each[0] if len(each) == 1 else {name: sum(of[name] for of in each) / len(each) for name in names}


def _samples(probs: Array, labels: Array) -> list[Sample]:
    """The one sample, or of several labels a row one a label."""
    try:
        y = to_tensor("labels", labels)
    except ValueError:  # which a sample says better
        return [Sample.of(probs, labels)]
    if y.ndim != 2 or isinstance(probs, Sample):
        return [Sample.of(probs, labels)]
    p = to_tensor("probs", probs)
    if not are_many(y, p):
        return [Sample.of(probs, labels)]
    if p.shape != y.shape:
        raise expected("labels", f"of shape {tuple(p.shape)}, as `probs`", f"shape {tuple(y.shape)}")
    return [Sample.of(p[:, k], y[:, k].long()) for k in range(y.shape[1])]


def are_own(metrics: object) -> TypeGuard[Mapping[str, Any]]:
    """Whether they are functions of one's own by name, and not entries of ``METRICS``."""
    return isinstance(metrics, Mapping) and any(METRICS.get(name) is not of for name, of in metrics.items())


def check_names(metrics: Iterable[str] | None) -> tuple[str, ...]:
    """Names of ``METRICS``, all of them for None."""
    if metrics is None:
        return tuple(METRICS)
    if are_own(metrics):
        got = "functions; bootstrap, bootstrap_difference and bootstrap_values take those of one's own"
        raise expected("metrics", "a sequence of names of METRICS", got)
    if isinstance(metrics, str) or not np.iterable(metrics):
        raise expected("metrics", "a sequence of names of METRICS", repr(metrics))
    return tuple(check_choice("metrics", name, METRICS) for name in metrics)


def measure(sample: Sample, names: Sequence[str], n_bins: int) -> dict[str, float]:
    """Each metric on a checked sample."""
    known = {}
    if {"ace", "tace"} <= {*names}:  # one sort for both
        known["ace"], known["tace"] = classwise.mass_errors(sample, n_bins, (0.0, classwise.THRESHOLD))
    return {name: known[name] if name in known else METRICS[name].value(sample, n_bins) for name in names}


def null_draws(
    sample: Sample,
    names: Iterable[str],
    n_draws: int,
    rng: np.random.Generator,
    n_bins: int,
    group: np.ndarray | None = None,
) -> dict[str, np.ndarray]:
    """Those of ``names`` that have ``Metric.of_gaps`` or ``of_labels``, on outcomes drawn from p: (n_draws,) each.

    A prediction of confidence c is right with probability c, or label k comes with probability p_k, so that the network
    is calibrated and its true error 0. The bins are those of the sample, for the probabilities stay as they are.

    How outcomes go together within a group the probabilities do not say. So with the number ``group`` (N,) of the group
    of each row the gaps of the sample are taken, and those of a whole group change sign with probability 1/2: sums over
    groups keep their variance, and have mean 0. Those of ``of_labels`` are not known then.

    Papers: Broecker & Smith 2007, "Increasing the reliability of reliability diagrams", Sec. 3, consistency resampling;
    Cameron, Gelbach & Miller 2008, "Bootstrap-based improvements for inference with clustered errors", Sec. 3, signs.
    """
    names, device, parts = tuple(names), sample.labels.device, blocks(n_draws, len(sample), 8, BLOCK_BYTES)
    of_top = {name: of(sample, n_bins) for name in names if (of := METRICS[name].of_gaps)}
    of_every = {name: of(sample, n_bins) for name in names if (of := METRICS[name].of_labels) and group is None}
    confidence = sample.confidence.double().cpu()

    def gaps(block: slice) -> Tensor:
        if group is not None:
            signs = 2.0 * rng.integers(0, 2, (block.stop - block.start, group.max() + 1)) - 1.0
            return sample.gap * torch.from_numpy(signs[:, group]).to(device)
        drawn = torch.from_numpy(rng.random((block.stop - block.start, len(sample))))
        return (confidence - (drawn < confidence).double()).to(device)

    found = in_blocks(of_top, map(gaps, parts)) if of_top else {}
    if of_every:
        drawn = draw_labels(sample.probs.double().cpu(), parts, rng)
        found |= in_blocks(of_every, (labels.to(device) for labels in drawn))
    return found


def draw_labels(probs: Tensor, parts: Iterable[slice], rng: np.random.Generator) -> Iterator[Tensor]:
    """Labels (r, N) that have the probabilities (N, K), for each part of r draws."""
    ends = probs.cumsum(1)
    ends /= ends[:, -1:].clone()
    for part in parts:
        uniform = torch.from_numpy(rng.random((len(probs), part.stop - part.start)))
        yield torch.searchsorted(ends, uniform, right=True).t()


def in_blocks(statistics: Mapping[str, Statistic], resamples: Iterable[Tensor]) -> dict[str, np.ndarray]:
    """Each statistic (R,) of numbers of each row, which come in blocks (r, N)."""
    parts = [[statistic(block).cpu().numpy() for statistic in statistics.values()] for block in resamples]
    return {name: np.concatenate(of) for name, of in zip(statistics, zip(*parts, strict=True), strict=True)}
