"""Paired intervals."""

import numpy as np
import pytest
from refusals import refused
from scipy.special import softmax

from calibkit.metrics import METRICS, Sample, bootstrap_difference, bootstrap_values
from calibkit.metrics.intervals import Resampled, hull
from calibkit.metrics.resampling import resampled

OWN_NLL = {"nll": lambda *given: METRICS["nll"](*given)}


def two(n=400, seed=0, right=1.0):
    """What two methods say, the first twice as sharp as the second, which is calibrated where ``right`` is 1."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 4)) * 2
    y = (right * z + rng.gumbel(size=z.shape)).argmax(1)
    return softmax(2 * z, axis=1), softmax(z, axis=1), y


def test_values_of_two_methods_give_the_interval_of_their_difference():
    """Of a mean the reflected one, of an error and of a function of one's own the smallest that holds both."""
    p, q, y = two(right=0.5)
    for name, metrics, of_a_mean in (("ece", ["ece"], False), ("nll", ["nll"], True), ("nll", OWN_NLL, False)):
        a, b = (bootstrap_values(probs, y, metrics, n_resamples=40, seed=3)[name] for probs in (p, q))
        assert a.shape == (40,)
        value, draws = METRICS[name](q, y) - METRICS[name](p, y), sorted(b - a)
        ends = [2 * value - draws[-1], 2 * value - draws[0]] + ([] if of_a_mean else draws[:1] + draws[-1:])
        found = bootstrap_difference(p, q, y, metrics=metrics, n_resamples=40, seed=3)
        assert found[name] == pytest.approx((min(ends), max(ends)), abs=1e-12)


def test_an_error_that_may_be_0_by_hand():
    """Draws of the difference from -1 to 7 about a value of 2: reflected [-3, 5], both [-3, 7]; 2 -+ 8 where one may
    be 0. From 1 to 9 about 3: both [-3, 9]; from 1 to 5 about 3 an end that would cross 0 stays.
    """
    none, some = np.full(9, 0.0), np.full(9, 100.0)

    def ends(value, draws, null, of_base, own=False):
        after = Resampled(value + 40.0, np.array(draws) + 40.0, False, None if own else null)
        return after.difference(Resampled(40.0, np.full(len(draws), 40.0), False, None if own else of_base))

    wide = np.arange(-1.0, 8.0)
    assert ends(2.0, wide, none, none) == pytest.approx((2.0, -3.0, 7.0))
    assert ends(2.0, wide, some, none) == pytest.approx((2.0, -6.0, 7.0))
    assert ends(2.0, wide, none, some) == pytest.approx((2.0, -3.0, 10.0))
    assert ends(2.0, wide, some, some) == pytest.approx((2.0, -6.0, 10.0))
    assert ends(2.0, wide, some, some, own=True) == pytest.approx((2.0, -3.0, 7.0))
    assert ends(3.0, np.arange(1.0, 10.0), some, none) == pytest.approx((3.0, -5.0, 9.0))
    assert ends(3.0, np.arange(1.0, 6.0), some, none) == pytest.approx((3.0, 1.0, 5.0))
    assert ends(-3.0, -np.arange(1.0, 6.0), none, some) == pytest.approx((-3.0, -5.0, -1.0))


@pytest.mark.slow
@pytest.mark.parametrize("true", [0.02, 0.04])
def test_the_distance_to_a_calibrated_method_is_held(true):
    """200 test sets, 0.90 less three standard errors; the two bootstraps by themselves hold it in far fewer."""
    rng, held = np.random.default_rng(2), 0
    for _ in range(200):
        top = rng.uniform(0.55, 0.95, 1000)
        y = (rng.random(1000) > top).astype(int)
        a, b = (np.stack([x, 1 - x], 1) for x in (top, top + true))
        low, high = bootstrap_difference(a, b, y, ["ece"], n_resamples=200)["ece"]
        held += low <= true <= high
    assert held > (0.9 - 3 * 0.021) * 200


@pytest.mark.slow
@pytest.mark.parametrize(("metric", "at_most"), [("ece", 0.05), ("nll", 0.08)])
def test_two_methods_that_are_equally_calibrated_rarely_differ(metric, at_most):
    """Each is as far over-confident as the other is under-confident, so that neither is better by either metric; 200
    test sets, so that a rate of 5% is seen as 0.05 +- 0.015.
    """
    rng, differ = np.random.default_rng(1), 0
    for _ in range(200):
        top = rng.uniform(0.55, 0.95, 1000)
        y = (rng.random(1000) > top).astype(int)
        a, b = (np.stack([x, 1 - x], 1) for x in (top + 0.01, top - 0.01))
        low, high = bootstrap_difference(a, b, y, [metric], n_resamples=200)[metric]
        differ += not low <= 0 <= high
    assert differ <= at_most * 200


@pytest.mark.slow
def test_two_calibrated_methods_rarely_differ_though_one_says_a_single_value():
    """One value makes less bias, and all resamples have it: the hull alone would see a difference far too often."""
    rng = np.random.default_rng(2)
    top = rng.uniform(0.5, 1.0, 2000)
    coarse = np.full_like(top, top.mean())
    says = [np.stack([c, 1 - c], 1) for c in (top, coarse)]
    differ, by_hull = 0, 0
    for _ in range(100):
        y = (rng.random(len(top)) > top).astype(int)
        fine, few = (resampled(Sample.of(probs, y), ["ece"], None, 200, 0, 15)["ece"] for probs in says)
        _, low, high = few.difference(fine)
        assert few.chance(fine) == 1.0 or not (fine.may_be_zero() and few.may_be_zero())
        differ += not low <= 0 <= high
        low, high = hull(few.value - fine.value, few.draws - fine.draws)
        by_hull += not low <= 0 <= high
    assert differ <= 5 and by_hull >= 10


@pytest.mark.parametrize("metric", ["ece", "nll"])
def test_the_p_value_is_where_the_interval_leaves_zero(metric):
    _, q, y = two()
    sharper = q**1.15 / (q**1.15).sum(1, keepdims=True)
    a, b = (resampled(Sample.of(probs, y), [metric], None, 400, 0, 15)[metric] for probs in (q, sharper))
    chance = b.chance(a)
    assert 0.005 < chance < 0.9
    for level, inside in ((1 - 1.4 * chance, False), (1 - 0.6 * chance, True)):
        _, low, high = b.difference(a, level)
        assert (low <= 0 <= high) is inside
    assert a.chance(a) == 1.0


SURE = np.array([[1.0, 0.0]] * 3 + [[0.5, 0.5]] * 3)
WRONG = np.array([1, 0, 0, 0, 1, 0])  # the first row is sure of the other class: an infinite NLL


def test_infinite_nlls_of_both_differ_by_zero():
    """Where the row that both get wrong is not drawn, the difference is that of the other rows, by hand."""
    other = np.array([[1.0, 0.0]] * 3 + [[0.6, 0.4]] * 3)
    rng = np.random.default_rng(0)
    draws = []
    for rows in (rng.integers(0, 6, 6) for _ in range(200)):
        a, b = (p[rows, WRONG[rows]] for p in (SURE, other))
        draws.append(0.0 if 0 in rows else np.log(a).mean() - np.log(b).mean())
    low, high = np.sort(draws)[[4, 195]]
    found = bootstrap_difference(SURE, other, WRONG, ["nll"], n_resamples=200)["nll"]
    assert found == pytest.approx((low, high)) and low < 0 < high
    assert bootstrap_difference(SURE, SURE, WRONG, ["nll"], n_resamples=200)["nll"] == (0.0, 0.0)


@pytest.mark.parametrize("own", [False, True])
def test_an_infinite_nll_of_one_stays_infinite(own):
    finite = np.full((6, 2), 0.5)
    nll = OWN_NLL if own else ["nll"]
    assert bootstrap_difference(finite, SURE, WRONG, nll, n_resamples=200)["nll"][1] == np.inf
    assert bootstrap_difference(SURE, finite, WRONG, nll, n_resamples=200)["nll"][0] == -np.inf
    assert bootstrap_difference(SURE, SURE, WRONG, nll, n_resamples=200)["nll"] == (0.0, 0.0)
    runs = [resampled(Sample.of(p, WRONG), nll, None, 200, 0, 15)["nll"] for p in (finite, SURE)]
    assert [of.difference(base)[0] for of in runs for base in runs] == [0.0, -np.inf, np.inf, 0.0]
    assert [of.chance(base) for of in runs for base in runs] == [1.0] * 4


def test_bad_input():
    p, q, y = two()
    refused("`labels` to be of shape", bootstrap_difference, p, q[:10], y)
    wide = np.hstack([q, np.zeros((len(q), 1))])
    refused(r"`after` to be of shape \(400, 4\) as `before`", bootstrap_difference, p, wide, y)
    refused("`level` to be between 0 and 1", bootstrap_difference, p, q, y, level=1.0)


def test_names_may_come_from_a_generator():
    probs, labels = np.array([[0.7, 0.3], [0.2, 0.8]] * 20), np.array([0, 1] * 20)
    names = ["nll", "brier"]
    one, other = (bootstrap_difference(probs, probs[::-1].copy(), labels, m) for m in (names, (n for n in names)))
    assert one == other
