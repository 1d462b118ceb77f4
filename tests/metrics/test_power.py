"""What ``detectable`` says is seen in 80% of test sets is, by a simulation of its own."""

import numpy as np
import pytest
import torch
from scipy.optimize import brentq
from scipy.special import expit, logit

from calibkit.metrics import bootstrap_difference, detectable
from calibkit.metrics.power import counts, drawn, measured, sharpened, true_value

N = 1000
TOP = np.random.default_rng(0).uniform(0.55, 0.95, N)
PROBS, LABELS = np.stack([TOP, 1 - TOP], 1), (np.arange(N) % 4 == 0).astype(int)
TRUE = expit(brentq(lambda t: expit(t * logit(TOP)).mean() - 0.75, 0.5, 2) * logit(TOP))
EXPECTED = {  # of confidences in the first class, (N,)
    "ece": lambda c: np.abs(np.bincount(np.ceil(15 * c).astype(int), c - TRUE)).sum() / N,
    "nll": lambda c: -(TRUE * np.log(c) + (1 - TRUE) * np.log1p(-c)).mean(),
    "brier": lambda c: 2 * (TRUE * (1 - c) ** 2 + (1 - TRUE) * c**2).mean(),
}


@pytest.mark.slow
@pytest.mark.parametrize(("metric", "error"), [("ece", 0.0), ("ece", 0.02), ("nll", 0.0), ("brier", 0.02)])
def test_the_power_by_a_simulation_of_its_own(metric, error):
    """0.8, to three standard errors of 150 test sets here and as many there, where both count."""
    found = detectable(PROBS, LABELS, [metric], error=error, n_sets=150)[metric]

    def says(metric, value):
        return expit(brentq(lambda s: EXPECTED[metric](expit(s * logit(TRUE))) - value, 1, 9) * logit(TRUE))

    base = says("ece", error) if error else TRUE
    worse = says(metric, EXPECTED[metric](base) + found)
    rng, seen = np.random.default_rng(1), 0
    for _ in range(150):
        rows = rng.integers(0, N, N)
        y = (rng.random(N) > TRUE[rows]).astype(int)
        one, other = (np.stack([c, 1 - c], 1)[rows] for c in (base, worse))
        seen += bootstrap_difference(one, other, y, [metric], n_resamples=200)[metric][0] > 0
    assert seen / 150 == pytest.approx(0.8, abs=3 * 0.033 * 2**0.5)


def test_the_accuracy_by_the_normal_distribution():
    """1.96 + 0.84 standard errors of the difference, of which the rows that are predicted otherwise have all."""
    found = detectable(PROBS, LABELS, ["accuracy"])["accuracy"]
    fall = np.cumsum(np.sort(2 * TRUE - 1)) / N
    share = np.searchsorted(fall, found - 1e-9) / N
    assert found / np.sqrt((share - found**2) / N) == pytest.approx(2.8, rel=0.15)


@pytest.mark.slow
def test_more_images_show_smaller_differences():
    few, some, many = (detectable(PROBS, LABELS, n=n, n_sets=60) for n in (250, 1000, 4000))
    assert all(few[name] > some[name] > many[name] > 0 for name in ("ece", "nll", "brier", "accuracy"))


def test_more_power_and_more_tests_ask_for_larger_differences():
    usual, sure, one_of_60 = (
        detectable(PROBS, LABELS, ["ece"], n_sets=60, **of)["ece"] for of in ({}, {"power": 0.95}, {"alpha": 0.05 / 60})
    )
    assert usual < sure and usual < one_of_60
    assert detectable(PROBS, LABELS, ["nll", "ece"], n_sets=60)["ece"] == usual


@pytest.mark.parametrize("doubt", [0.0, 1e-7])
def test_of_a_network_without_doubt_only_wrong_predictions_are_seen(doubt):
    """None can be too sure. Of 1,000 rows that are equally sure, some ten errors are beyond chance, not only all."""
    probs, labels = np.tile([1 - doubt, doubt], (N, 1)), np.zeros(N, int)
    found = detectable(probs, labels, n_sets=60)
    assert {name for name, least in found.items() if least == np.inf} == {"ece", "nll", "brier"}
    assert 0.004 < found["accuracy"] < 0.02


def test_two_images_show_nothing():
    assert detectable(PROBS, LABELS, ["ece", "accuracy"], n=2, n_sets=20) == {"ece": np.inf, "accuracy": np.inf}


@pytest.mark.parametrize("metric", ["ece", "nll"])
def test_no_difference_is_seldom_seen(metric):
    """Too sure and too unsure, of equal error: 5% of 400 test sets, and three standard errors."""
    truth = torch.from_numpy(np.log(np.stack([TRUE, 1 - TRUE], 1)))

    def error(s):
        return true_value(metric, sharpened(truth, s), truth, 15)

    unsure = brentq(lambda s: error(s) - error(1.1), 0.5, 0.99)
    rng = np.random.default_rng(0)
    weights, test_sets = counts(N, 200, rng), list(drawn(truth, N, 400, rng))
    one, other = (measured(metric, sharpened(truth, s), test_sets, weights, 15, 0) for s in (unsure, 1.1))
    seen = [b.chance(a) <= 0.05 for a, b in zip(one, other, strict=True)]
    assert np.mean(seen) <= 0.05 + 3 * 0.011


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metrics": ["mce"]}, "Expected `metrics` to be one of ece, nll, brier, accuracy"),
        ({"metrics": np.array("ece")}, "Expected `metrics` to be a list of text, but got array"),
        ({"power": 1.0}, "Expected `power` to be between 0 and 1"),
        ({"alpha": 0.0}, "Expected `alpha` to be between 0 and 1"),
        ({"error": 0.3}, "Expected `error` to be below 1 - accuracy, 0.25 here, but got 0.3"),
        ({"n": 1}, "Expected `n` to be an integer >= 2"),
        ({"n_sets": 0}, "Expected `n_sets` to be an integer >= 1"),
    ],
)
def test_bad_input(options, message):
    with pytest.raises(ValueError, match=message):
        detectable(PROBS, LABELS, **options)
