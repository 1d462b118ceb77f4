"""The metrics by name, and their values on one sample: the one path to a number, whoever asks for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from calibkit._checks import Array, check_bins, check_choice, expected
from calibkit.metrics import calibration, classwise, ece_alternatives, proper
from calibkit.metrics.metric import Metric
from calibkit.metrics.sample import Sample

#: Name -> record, in the order in which they are listed.
METRICS: dict[str, Metric] = {
    metric.name: metric for module in (proper, calibration, classwise, ece_alternatives) for metric in module.RECORDS
}
#: Those of bins, whose number is an argument.
BINNED = tuple(name for name, metric in METRICS.items() if metric.binned)
#: Those that are no shares, and so not shown in percent.
IN_NATS = tuple(name for name, metric in METRICS.items() if metric.unit == "nats")
#: What is reported with intervals: all whose bootstrap is not slow.
REPORTED = tuple(name for name, metric in METRICS.items() if not metric.slow)


def evaluate(
    probs: Array, labels: Array, metrics: Iterable[str] | None = None, *, n_bins: int = 15
) -> dict[str, float]:
    """All metrics at once: the input is checked, and its row maxima and correct predictions found, a single time.

    Args:
        probs: (N, K) probabilities, numpy or torch; rows sum to 1.
        labels: (N,) integers in [0, K).
        metrics: names of ``METRICS``; all of them if None.
        n_bins: number of bins of the binned metrics.

    Returns:
        ``{name: value}``, each equal to ``METRICS[name](probs, labels)``.

    Raises:
        ValueError: bad ``probs`` or ``labels``, an unknown metric, a single name that is no sequence, ``n_bins`` < 1.

    Example:
        >>> import numpy as np
        >>> values = evaluate(np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([0, 1]))
        >>> values["accuracy"], round(values["ece"], 2), round(values["nll"], 4)
        (1.0, 0.15, 0.1643)
    """
    n_bins, names = check_bins(n_bins), check_names(metrics)
    return measure(Sample.of(probs, labels), names, n_bins)


def check_names(metrics: Iterable[str] | None) -> tuple[str, ...]:
    """Names of ``METRICS``, all of them for None."""
    if metrics is None:
        return tuple(METRICS)
    if isinstance(metrics, str) or not isinstance(metrics, Iterable):
        raise expected("metrics", "a sequence of names of METRICS", repr(metrics))
    return tuple(check_choice("metrics", name, METRICS) for name in metrics)


def measure(sample: Sample, names: Sequence[str], n_bins: int) -> dict[str, float]:
    """Each metric on a checked sample."""
    known = {}
    if {"ace", "tace"} <= {*names}:  # one sort for both
        known["ace"], known["tace"] = classwise.mass_errors(sample, n_bins, (0.0, classwise.THRESHOLD))
    return {name: known[name] if name in known else METRICS[name].value(sample, n_bins) for name in names}
