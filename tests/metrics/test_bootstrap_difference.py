"""Paired intervals."""

import numpy as np
import pytest
from scipy.special import softmax

from calibkit.metrics import METRICS, bootstrap, bootstrap_difference, bootstrap_values, ece


def two(n=400, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 4)) * 2
    y = (z + rng.gumbel(size=z.shape)).argmax(1)
    return softmax(2 * z, axis=1), softmax(z, axis=1), y


def test_the_difference_of_a_method_with_itself_is_zero():
    p, _, y = two()
    assert bootstrap_difference(p, p, y, metrics=["ece", "nll"]) == {"ece": (0.0, 0.0), "nll": (0.0, 0.0)}


def test_against_a_loop_over_the_same_draws():
    p, q, y = two()
    low, high = bootstrap_difference(p, q, y, metrics=["ece"], n_resamples=40, seed=3)["ece"]
    rng = np.random.default_rng(3)
    rows = [rng.integers(0, len(y), len(y)) for _ in range(40)]
    values = sorted(ece(q[i], y[i]) - ece(p[i], y[i]) for i in rows)
    value = ece(q, y) - ece(p, y)
    assert (low, high) == pytest.approx((2 * value - values[-1], 2 * value - values[0]), abs=1e-12)


def test_values_of_two_methods_give_the_interval_of_their_difference():
    p, q, y = two()
    a, b = (bootstrap_values(probs, y, ["ece", "nll"], n_resamples=40, seed=3) for probs in (p, q))
    paired = bootstrap_difference(p, q, y, metrics=["ece", "nll"], n_resamples=40, seed=3)
    for name, (low, high) in paired.items():
        assert a[name].shape == (40,)
        value, draws = METRICS[name](q, y) - METRICS[name](p, y), sorted(b[name] - a[name])
        assert (low, high) == pytest.approx((2 * value - draws[-1], 2 * value - draws[0]), abs=1e-12)


def test_pairing_narrows_the_interval():
    p, _, y = two()
    nearly = 0.99 * p + 0.01 / 4
    (low, high), (a, b) = bootstrap_difference(p, nearly, y, metrics=["nll"])["nll"], bootstrap(p, y)["nll"]
    assert high - low < 0.3 * (b - a)


def test_bad_input():
    p, q, y = two()
    with pytest.raises(ValueError, match=r"Expected `labels` to be of shape"):
        bootstrap_difference(p, q[:10], y)
    wide = np.hstack([q, np.zeros((len(q), 1))])
    with pytest.raises(ValueError, match=r"Expected `after` to be of shape \(400, 4\) as `before`"):
        bootstrap_difference(p, wide, y)
    with pytest.raises(ValueError, match="Expected `level` to be between 0 and 1"):
        bootstrap_difference(p, q, y, level=1.0)
