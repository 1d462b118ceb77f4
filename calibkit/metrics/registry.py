"""The metrics by name, and their values on one sample: the one path to a number, whoever asks for it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence

from calibkit._checks import Array, check_bins, check_choice, expected
from calibkit.metrics.calibration import adaptive_ece, debiased_ece, ece, ks_error, mce
from calibkit.metrics.classwise import THRESHOLD, ace, classwise_ece, mass_errors, tace
from calibkit.metrics.proper import accuracy, brier, entropy, nll
from calibkit.metrics.sample import Sample
from calibkit.metrics.smooth import smooth_ece

METRICS: dict[str, Callable[..., float]] = {
    "accuracy": accuracy,
    "nll": nll,
    "brier": brier,
    "entropy": entropy,
    "ece": ece,
    "mce": mce,
    "adaptive_ece": adaptive_ece,
    "classwise_ece": classwise_ece,
    "ace": ace,
    "tace": tace,
    "smooth_ece": smooth_ece,
    "ks_error": ks_error,
    "debiased_ece": debiased_ece,
}

#: Those of bins, whose number is an argument.
BINNED = tuple(name for name, metric in METRICS.items() if "n_bins" in inspect.signature(metric).parameters)

#: What is reported with intervals: all but ``ace``, ``tace`` and ``smooth_ece``, whose bootstrap at 100 classes takes
#: minutes and which no paper prints.
REPORTED = (
    *("accuracy", "nll", "brier", "entropy", "ece", "mce", "adaptive_ece", "classwise_ece", "ks_error"),
    "debiased_ece",
)


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
    values = dict.fromkeys(names)
    if {"ace", "tace"} <= values.keys():  # one sort for both
        values["ace"], values["tace"] = mass_errors(sample, n_bins, (0.0, THRESHOLD))
    for name in (name for name, value in values.items() if value is None):
        values[name] = METRICS[name](sample, None, **({"n_bins": n_bins} if name in BINNED else {}))
    return values
