"""How often the test of calibration errs on calibrated networks and groups, and what it sees of others."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import torch
from refusals import refused
from scipy.special import softmax

from calibkit import TemperatureScaling, bootstrap, calibration_test, score_parts, variational_ece
from calibkit.metrics import Sample, calibration_by_group, ece
from calibkit.metrics.calibrated import NOT_SEEN, SEEN, Columns
from calibkit.metrics.registry import null_draws


def network(n, n_classes=5, scale=5.0):
    return softmax(scale * np.random.default_rng(0).normal(size=(n, n_classes)), axis=1)


def labels_of(truth, rng):
    return (truth.cumsum(1) < rng.random((len(truth), 1))).sum(1).clip(max=truth.shape[1] - 1)


@pytest.mark.slow
@pytest.mark.parametrize("classwise", [False, True])
@pytest.mark.parametrize(
    "probs",
    [network(20), network(300), network(300, scale=300), network(60, 20, 4)],
    ids=["few", "some", "sure", "many"],
)
def test_a_calibrated_network_is_called_so_as_often_as_alpha_says(probs, classwise):
    """In 400 sets of labels, to 3.5 standard errors. Few outcomes are possible of a sure network, so p has steps."""
    rng = np.random.default_rng(1)
    options = {"classwise": classwise, "power": None, "n_draws": 99}
    p = np.array([calibration_test(probs, labels_of(probs, rng), seed=i, **options).p for i in range(400)])
    for alpha in (0.05, 0.2):
        assert (p <= alpha).mean() <= alpha + 3.5 * np.sqrt(alpha * (1 - alpha) / 400)
        if probs.max(1).mean() < 0.99:
            assert (p <= alpha).mean() >= alpha - 3.5 * np.sqrt(alpha * (1 - alpha) / 400)


def test_by_hand():
    """Four rows of 60%, all of class 0: S = 2.4 - 4 with a variance of 0.96; a row of 75% is wrong in one of four."""
    statistics = Columns(torch.tensor([[0.6, 0.4]] * 4).double()).look(torch.zeros(4, 1, dtype=torch.long))
    assert statistics[0].tolist() == pytest.approx([(4 * 0.52 - 4 * 0.6) ** 2, *[2 * 1.6**2] * 5])
    right, wrong = (calibration_test([[0.75, 0.25]], [label], power=None, n_draws=9999).p for label in (0, 1))
    assert right == 1.0 and wrong == pytest.approx(0.25, abs=0.015)


@pytest.mark.parametrize("classwise", [False, True])
def test_what_would_be_seen_is_seen_in_four_of_five_test_sets(classwise):
    probs, rng = network(500), np.random.default_rng(2)
    said = calibration_test(probs, probs.argmax(1), classwise=classwise).detectable
    truths = [softmax(t * np.log(probs), axis=1) for t in np.linspace(0.4, 1, 601)]
    truth = min(truths, key=lambda truth: abs((probs.max(1) - truth.max(1)).mean() - said))
    options = {"classwise": classwise, "power": None, "n_draws": 399}
    seen = [calibration_test(probs, labels_of(truth, rng), seed=i, **options).verdict for i in range(150)]
    assert np.mean([verdict == SEEN for verdict in seen]) == pytest.approx(0.8, abs=3 * 0.033 * 2**0.5)


def test_it_sees_what_the_ece_does_and_what_hides_in_one_bin_of_it():
    """60 sets of 1,500 samples: 99% that are 98% in truth; 98 and 95% that are 96 and 97%, both in the last of 15."""
    rng = np.random.default_rng(0)
    sure, last = 0.9999 - rng.random(1500) ** 6 * 0.3, rng.uniform(14 / 15, 1.0, 1500)
    for top, right, more in (
        (sure, 1 / (1 + (1 / sure - 1) ** 0.8), -3),
        (last, last - 0.02 * np.sign(last - 29 / 30), 30),
    ):
        probs, seen, of_ece = np.stack([top, 1 - top], 1), 0, 0
        limit = np.quantile(null_draws(Sample.of(probs, np.zeros(1500, int)), ["ece"], 999, rng, 15)["ece"], 0.95)
        for i in range(60):
            labels = (rng.random(1500) > right).astype(int)
            found = calibration_test(probs, labels, power=None, n_draws=199, seed=i)
            seen, of_ece = seen + (found.verdict == SEEN), of_ece + (found.error > limit)
        assert seen > 40 and seen >= of_ece + more


def test_classes_may_be_wrong_where_the_top_label_is_right():
    probs = np.tile([0.6, 0.3, 0.1], (500, 1))
    labels = np.repeat([0, 1, 2], [300, 100, 100])
    assert calibration_test(probs, labels).verdict == NOT_SEEN
    assert calibration_test(probs, labels, classwise=True).verdict == SEEN


def test_a_network_without_doubt_may_not_err_once():
    probs = np.tile([1.0, 0.0], (50, 1)).astype(np.float32)
    never, once = (calibration_test(probs, (np.arange(50) < errors).astype(int)) for errors in (0, 1))
    assert never.p == 1.0 and (once.verdict, once.p) == (SEEN, 0.001)
    assert never.detectable == pytest.approx(1 - 0.2 ** (1 / 50), rel=0.35)  # one error or more in four of five sets


@pytest.mark.parametrize("n_classes", [3, 5, 7, 10])
def test_a_network_that_says_nothing_is_judged_by_its_labels(n_classes):
    """Its entropy is the same whatever the labels, but for rounding, and says nothing for or against it."""
    probs = np.full((1000, n_classes), 1 / n_classes)
    all_alike, all_equal = np.zeros(1000, int), np.arange(1000) % n_classes
    found = [calibration_test(probs, y, classwise=True, power=None).verdict for y in (all_alike, all_equal)]
    assert found == [SEEN, NOT_SEEN]


@pytest.mark.parametrize("doubt", [0.0, 1e-12, 1e-7])
def test_of_a_network_all_but_without_doubt_one_error_is_seen(doubt):
    """In 400 samples there is one with a chance of 80% at a gap of 1 - 0.2 ** (1 / 400); t is searched in steps."""
    found = calibration_test(np.tile([1 - doubt, doubt], (400, 1)), np.zeros(400, int))
    assert found.verdict == NOT_SEEN and 0.9 < found.detectable / (1 - 0.2 ** (1 / 400)) < 1.6


def test_alpha_may_be_a_fraction():
    probs, labels = network(20), np.zeros(20, int)
    found = calibration_test(probs, labels, alpha=Fraction(1, 20), power=Fraction(4, 5))
    assert found == calibration_test(probs, labels)


@pytest.mark.parametrize(("alpha", "n_draws"), [(0.5, 1), (0.05, 19), (0.05 / 3, 60), (5e-4, 1999)])
def test_the_fewest_draws_that_are_taken_see_a_gap_of_49_points(alpha, n_draws):
    probs, labels = np.tile([0.99, 0.01], (1000, 1)), np.repeat([0, 1], 500)
    assert calibration_test(probs, labels, alpha=alpha, n_draws=n_draws, power=None).verdict == SEEN


def test_bad_input():
    for options, message in (
        ({"alpha": 0.0}, "`alpha` to be between 0 and 1"),
        ({"power": 1.0}, "`power` to be between 0 and 1"),
        ({"alpha": torch.tensor([0.1, 0.2])}, "`alpha` to be a number in"),
        ({"alpha": 0.95}, "`alpha` to be the chance of a false alarm, such as 0.05, and at most 0.5, but got 0.95"),
        ({"n_draws": 0}, "`n_draws` to be an integer >= 1"),
        ({"n_draws": 18}, "`n_draws` to be 19 or more for an alpha of 0.05, but got 18"),
        ({"alpha": 5e-4}, "`n_draws` to be 1,999 or more for an alpha of 0.0005, but got 999"),
    ):
        refused(message, calibration_test, network(20), np.zeros(20, int), **options)


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


def test_bad_groups():
    for groups, message in (
        (SITE[:5], r"one for each of the 600 rows, but got shape \(5,\)"),
        (SITE.reshape(2, 300), r"one for each of the 600 rows, but got shape \(2, 300\)"),
        (np.ma.array(SITE, mask=SITE == "a"), "one for each of the 600 rows, but got masked entries"),
        ([None] * 600, "integers or strings, but got NoneType"),
        ([0.5] * 600, "integers or strings, but got float"),
        ([1, "a"] * 300, "integers or strings, but got int and str"),
    ):
        refused(f"`groups` to be {message}", calibration_by_group, PROBS, np.zeros(600, int), groups)
    wording, halves = "`alpha` to be the chance of a false alarm, .*, but got 0.95", np.arange(600) % 2
    refused(wording, calibration_by_group, PROBS, np.zeros(600, int), halves, alpha=0.95)  # half of it would be one


def test_groups_are_named_or_numbered_wherever_they_are_taken():
    """The draws and folds of names are those of their numbers by the alphabet."""
    labels = (np.random.default_rng(3).random(600) > TOP).astype(int)
    number = np.random.default_rng(4).integers(0, 9, 600)
    names = np.array([*"abcdefghi"])[number]
    for call in (
        lambda groups: bootstrap(PROBS, labels, ["ece", "nll"], groups=groups, n_resamples=20),
        lambda groups: variational_ece(PROBS, labels, groups=groups),
        lambda groups: score_parts(PROBS, labels, TemperatureScaling(), groups=groups, n_resamples=20),
    ):
        want = call(number)
        for groups in (names, names.tolist(), pd.Series(names), torch.tensor(number), 7 * number[:, None] - 3):
            assert call(groups) == want
