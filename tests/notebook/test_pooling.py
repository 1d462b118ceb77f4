"""Pooled differences against the formula worked out by hand, and against draws with the correlation it assumes."""

import numpy as np
import pandas as pd
import pytest

from calibkit.notebook import pooling


def rows(values, arms, datasets):
    values, arms = np.asarray(values, float), np.asarray(arms, float)
    return pd.DataFrame({"dataset": datasets, "value": values, "low": values - arms, "high": values + 2 * arms})


def test_one_network_keeps_its_interval():
    assert pooling.pooled(rows([0.3], [0.1], ["cifar10"])) == pytest.approx((0.3, 0.2, 0.5))


def test_networks_of_one_test_set_gain_nothing_from_their_number():
    found = pooling.pooled(rows([1, 3], [0.5, 0.5], ["cifar10", "cifar10_lt"]))
    assert found == pytest.approx((2, 1.5, 3.0))


def test_test_sets_are_independent():
    found = pooling.pooled(rows([1, 3], [0.3, 0.4], ["cifar10", "camvid"]))
    assert found == pytest.approx((2, 2 - 0.25, 2 + 0.5))


def test_the_interval_covers_draws_of_that_correlation():
    """Errors that are the same within a test set: the interval holds 95 % of the means."""
    rng = np.random.default_rng(0)
    datasets, arms = np.array(["a", "a", "a", "b"]), np.array([1.0, 2.0, 0.5, 3.0])
    z = rng.standard_normal((20_000, 2))[:, (datasets == "b").astype(int)]
    means = (z * arms / 1.96).mean(1)
    frame = pd.DataFrame({"dataset": datasets, "value": 0.0, "low": -arms, "high": arms})
    _, low, high = pooling.pooled(frame)
    assert abs(np.mean((means > low) & (means < high)) - 0.95) < 0.005


def test_nothing_is_no_number():
    assert np.isnan(pooling.pooled(rows([], [], []))).all()


def test_holm_works_within_the_rows_given():
    """0.02 alone is beyond 5 %; of three such it is not, as 3 x 0.02 > 0.05."""
    three = pd.DataFrame({"value": [-1.0, 1.0, -1.0], "chance": [0.02, 0.02, 0.02]})
    assert pooling.beyond_chance(three[:1]).tolist() == ["better"]
    assert pooling.beyond_chance(three[1:2]).tolist() == ["worse"]
    assert set(pooling.beyond_chance(three)) == {"not decided"}


def test_no_difference_is_no_decision():
    assert pooling.beyond_chance(pd.DataFrame({"value": [0.0], "chance": [0.0]})).tolist() == ["not decided"]


def test_words_keep_the_index():
    frame = pd.DataFrame({"value": [-1.0, 1.0], "chance": [1e-9, 1e-9]}, index=[7, 3])
    found = pooling.beyond_chance(frame)
    assert found.to_dict() == {7: "better", 3: "worse"} and pooling.tally(found) == "1 / 1 / 0"


def test_select_takes_the_base_of_the_same_loss():
    frame = pd.DataFrame(
        {
            "dataset": "d", "model": "m", "metric": "ece", "method": ["a", "a", "a"],
            "loss": ["brier", "brier", "cross_entropy"], "base_loss": ["brier", "cross_entropy", "cross_entropy"],
            "base_method": ["ts", "ts", "identity"], "value": [1, 2, 3],
        }
    )  # fmt: skip
    assert pooling.select(frame, "ts")["network"].tolist() == ["d/m, brier"]
    assert pooling.select(frame, "ts", "cross_entropy")["value"].tolist() == [2]
    assert pooling.select(frame, "ts", metric="nll").empty
    with pytest.raises(ValueError, match="Expected `column`"):
        pooling.select(frame, "ts", metrik="nll")
