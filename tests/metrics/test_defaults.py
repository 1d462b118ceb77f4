"""What a metric is where nothing is chosen."""

import inspect

from calibkit.metrics import (
    METRICS,
    REPORTED,
    bootstrap,
    bootstrap_difference,
    bootstrap_values,
    evaluate,
    reliability_bins,
)
from calibkit.metrics.comparison import Comparison

BINS = {"n_bins": 15}  # Guo et al. 2017, and every table of the five papers but one
DRAWS = {**BINS, "metrics": None, "groups": None, "n_resamples": 1000, "seed": 0}
#: The threshold of TACE: Nixon et al. 2019. Class-wise error over N: Kull et al. 2019.
DEFAULTS = {
    **dict.fromkeys(("accuracy", "nll", "brier", "entropy", "smooth_ece", "ks_error"), {}),
    **dict.fromkeys(("mce", "ace", "debiased_ece"), BINS),
    **dict.fromkeys(("ece", "adaptive_ece"), {**BINS, "like": None}),
    "classwise_ece": {**BINS, "normalize": "n"},
    "tace": {**BINS, "threshold": 0.01},
}
CALLS = {
    evaluate: {**BINS, "metrics": None},
    bootstrap: {**DRAWS, "level": 0.95},
    bootstrap_difference: {**DRAWS, "level": 0.95},
    bootstrap_values: DRAWS,
    reliability_bins: {**BINS, "scheme": "width", "class_index": None},
    Comparison: {**DRAWS, "metrics": ("accuracy", "ece")},
}


def defaults(call):
    parameters = inspect.signature(call).parameters.values()
    return {p.name: p.default for p in parameters if p.default is not p.empty}


def test_defaults():
    assert {name: defaults(METRICS[name].function) for name in DEFAULTS} == DEFAULTS
    assert {call: defaults(call) for call in CALLS} == CALLS


def test_what_is_reported_is_all_but_the_slow():
    assert set(DEFAULTS) - set(REPORTED) == {"ace", "tace", "smooth_ece"} and set(REPORTED) <= set(METRICS)
