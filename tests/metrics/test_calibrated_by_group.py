"""The groups of a sample against tests of its parts, and how often a calibrated network has one that is called bad."""

import numpy as np
import pandas as pd
import pytest
import torch

from calibkit.calibrators import TemperatureScaling
from calibkit.metrics import bootstrap, calibration_by_group, calibration_test, ece, score_parts, variational_ece
from calibkit.metrics.calibrated import SEEN

TOP = np.random.default_rng(0).uniform(0.5, 1.0, 600)
PROBS, SITE = np.stack([TOP, 1 - TOP], 1), np.repeat(["a", "b", "c"], 200)


def test_a_group_is_the_test_of_its_rows_with_three_times_the_p_value():
    labels = (np.random.default_rng(1).random(600) > np.where(SITE == "b", TOP - 0.15, TOP)).astype(int)
    found = calibration_by_group(PROBS, labels, SITE)
    assert [name for name, of in found.items() if of.verdict == SEEN] == ["b"]
    for name, of in found.items():
        rows = name == SITE
        alone = calibration_test(PROBS[rows], labels[rows], alpha=0.05 / 3)
        assert of.error == ece(PROBS[rows], labels[rows]) and of[3:] == alone[3:]
        if name == "b":
            assert of.p == 3 * alone.p
    as_list, column, numbers, scalars = (
        calibration_by_group(PROBS, labels, of)
        for of in (SITE.tolist(), pd.Series(SITE), torch.tensor(np.unique(SITE, return_inverse=True)[1]), list(SITE))
    )
    assert as_list == column == scalars == found
    assert list(numbers.values()) == list(found.values()) and list(numbers) == [0, 1, 2]


def test_of_a_calibrated_network_any_group_is_called_bad_as_often_as_alpha_says():
    """20% of 150 sets, to three standard errors, with four groups of 50."""
    rng, groups, called = np.random.default_rng(2), np.arange(200) % 4, 0
    for seed in range(150):
        labels = (rng.random(200) > TOP[:200]).astype(int)
        found = calibration_by_group(PROBS[:200], labels, groups, alpha=0.2, power=None, n_draws=1, seed=seed)
        called += any(of.verdict == SEEN for of in found.values())
    assert 0.08 < called / 150 < 0.2 + 3 * 0.033


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (SITE[:5], r"one for each of the 600 rows, but got shape \(5,\)"),
        (SITE.reshape(2, 300), r"one for each of the 600 rows, but got shape \(2, 300\)"),
        (np.ma.array(SITE, mask=SITE == "a"), "one for each of the 600 rows, but got masked entries"),
        ([None] * 600, "integers or strings, but got NoneType"),
        ([0.5] * 600, "integers or strings, but got float"),
        ([1, "a"] * 300, "integers or strings, but got int and str"),
    ],
)
def test_bad_groups(groups, message):
    with pytest.raises(ValueError, match=f"^Expected `groups` to be {message}"):
        calibration_by_group(PROBS, np.zeros(600, int), groups)


def test_a_coverage_is_no_alpha():
    """Half of which, as each of two groups gets, would be one."""
    with pytest.raises(ValueError, match="^Expected `alpha` to be the chance of a false alarm, .*, but got 0.95"):
        calibration_by_group(PROBS, np.zeros(600, int), np.arange(600) % 2, alpha=0.95)


def test_groups_are_named_or_numbered_wherever_they_are_taken():
    """The draws and folds of names are those of their numbers by the alphabet."""
    labels, number = (
        (np.random.default_rng(3).random(600) > TOP).astype(int),
        np.random.default_rng(4).integers(0, 9, 600),
    )
    names = np.array([*"abcdefghi"])[number]
    for call in (
        lambda groups: bootstrap(PROBS, labels, ["ece", "nll"], groups=groups, n_resamples=20),
        lambda groups: variational_ece(PROBS, labels, groups=groups),
        lambda groups: score_parts(PROBS, labels, TemperatureScaling(), groups=groups, n_resamples=20),
    ):
        want = call(number)
        for groups in (names, names.tolist(), pd.Series(names), torch.tensor(number), 7 * number[:, None] - 3):
            assert call(groups) == want
