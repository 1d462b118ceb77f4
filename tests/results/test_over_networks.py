"""The mean over networks against the formula worked out by hand, and against draws with the correlation it assumes."""

import numpy as np
import pandas as pd
import pytest

from book.kit.results.paired_differences import over_networks


def rows(values, arms, datasets):
    values, arms = np.asarray(values, float), np.asarray(arms, float)
    frame = pd.DataFrame({"dataset": datasets, "value": values, "low": values - arms, "high": values + 2 * arms})
    return frame.assign(seed_error=np.nan, seed_df=np.nan)


def test_arms_add_up_within_a_test_set_and_in_squares_between_them():
    assert over_networks(rows([0.3], [0.1], ["cifar10"])) == pytest.approx((0.3, 0.2, 0.5))
    of_one = over_networks(rows([1, 3], [0.5, 0.5], ["cifar10", "cifar10_lt"]))
    assert of_one == pytest.approx((2, 1.5, 3.0))
    of_two = over_networks(rows([1, 3], [0.3, 0.4], ["cifar10", "camvid"]))
    assert of_two == pytest.approx((2, 2 - 0.25, 2 + 0.5))
    assert np.isnan(over_networks(rows([], [], []))).all()


def test_the_interval_covers_draws_of_that_correlation():
    """Errors that are the same within a test set: the interval holds 95 % of the means."""
    rng = np.random.default_rng(0)
    datasets, arms = np.array(["a", "a", "a", "b"]), np.array([1.0, 2.0, 0.5, 3.0])
    z = rng.standard_normal((20_000, 2))[:, (datasets == "b").astype(int)]
    means = (z * arms / 1.96).mean(1)
    frame = pd.DataFrame({"dataset": datasets, "value": 0.0, "low": -arms, "high": arms})
    frame = frame.assign(seed_error=np.nan, seed_df=np.nan)
    _, low, high = over_networks(frame)
    assert abs(np.mean((means > low) & (means < high)) - 0.95) < 0.005


def test_seeds_of_two_networks_are_independent_where_their_test_set_is_one():
    """Two standard errors of 4 degrees of freedom, whose quantile is 2.776, beside arms of 0.5 that add up."""
    frame = rows([1, 3, 5], [0.5, 0.5, 0.5], ["cifar10"] * 3).assign(seed_error=[0.2, 0.3, np.nan], seed_df=4.0)
    arm = np.hypot(1.5, 2.776445 * np.hypot(0.2, 0.3)) / 3
    assert over_networks(frame)[:2] == pytest.approx((3, 3 - arm))
