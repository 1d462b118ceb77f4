"""Methods with several fits: means, spreads and paired differences against the metrics of each fit."""

import numpy as np
import pytest

from book.kit import results
from book.kit.notebook import restarts
from book.kit.results.paired_differences import COMPARED, append_effects
from calibkit.metrics import METRICS, accuracy, bootstrap_difference, ece, entropy


@pytest.fixture(scope="module")
def fits():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, 150)
    probs = [rng.dirichlet(np.ones(4), 150) * 0.6 + 0.4 * np.eye(4)[labels] for _ in range(5)]
    return {"NC": probs[:3], "TS": probs[3:4], "more": probs[3:]}, labels


def test_every_fit_is_measured_once(fits):
    methods, labels = fits
    values = restarts.measured(methods, labels, ["accuracy", "ece", "entropy"], n_bins=8)
    assert [*values.index] == [("NC", 0), ("NC", 1), ("NC", 2), ("TS", 0), ("more", 0), ("more", 1)]
    for (name, i), row in values.iterrows():
        p = methods[name][i]
        wanted = accuracy(p, labels), ece(p, labels, n_bins=8), entropy(p, labels)
        np.testing.assert_allclose(row.to_numpy(), wanted, rtol=1e-12)


@pytest.mark.parametrize(("metric", "near_zero"), [("ece", True), ("nll", False)])
def test_difference_of_single_fits_is_the_paired_bootstrap(fits, metric, near_zero):
    """Also where one of the two may be calibrated, which makes the interval wider."""
    methods, labels = fits
    before, after = methods["NC"][0], methods["TS"][0]
    if near_zero:
        rng = np.random.default_rng(5)
        labels = np.array([rng.choice(4, p=row) for row in after])
    found = restarts.difference([after], [before], labels, metric, n_bins=9, n_resamples=200, seed=4)
    low, high = bootstrap_difference(before, after, labels, [metric], n_bins=9, n_resamples=200, seed=4)[metric]
    values = [METRICS[metric](probs, labels, **({"n_bins": 9} if metric == "ece" else {})) for probs in (after, before)]
    assert found.value == pytest.approx(values[0] - values[1], abs=1e-12)
    assert (found.low, found.high) == (low, high)


def test_difference_of_means_by_resampling_rows(fits):
    methods, labels = fits
    found = restarts.difference(methods["NC"], methods["more"], labels, n_resamples=100, seed=1)
    rng, draws = np.random.default_rng(1), []
    for _ in range(100):
        rows = rng.integers(0, len(labels), len(labels))
        means = [np.mean([ece(p[rows], labels[rows]) for p in methods[name]]) for name in ("NC", "more")]
        draws.append(means[0] - means[1])
    value = np.mean([ece(p, labels) for p in methods["NC"]]) - np.mean([ece(p, labels) for p in methods["more"]])
    low, high = np.quantile(draws, 0.025, method="lower"), np.quantile(draws, 0.975, method="higher")
    assert found.value == pytest.approx(value, abs=1e-12)
    assert found.low == pytest.approx(min(low, 2 * value - high), abs=1e-12)
    assert found.high == pytest.approx(max(high, 2 * value - low), abs=1e-12)


CELL = {"dataset": "cifar10", "model": "m", "budget": "reduced", "source": "ours"}


def test_rows_name_the_fits_behind_them(fits, own_results):
    methods, labels = fits
    measured = {"neural_clamping": (methods["NC"], "gamma=1"), "temperature_scaling": (methods["TS"], "")}
    rows = restarts.rows(measured, labels, ["accuracy", "ece"], n_bins=15, loss="cross_entropy", **CELL)
    assert [(r["method"], r["metric"], r["n_seeds"], r["note"]) for r in rows] == [
        ("neural_clamping", "accuracy", 3, "gamma=1"),
        ("neural_clamping", "ece", 3, "gamma=1"),
        ("temperature_scaling", "accuracy", 1, ""),
        ("temperature_scaling", "ece", 1, ""),
    ]
    assert rows[1]["value"] == pytest.approx(np.mean([ece(p, labels) for p in methods["NC"]]))
    assert results.append(rows) == 4


def test_differences_are_those_of_the_means(fits, own_results):
    """Three fits against one; the spread is that of the three."""
    methods, labels = fits
    named = {"neural_clamping": methods["NC"], "temperature_scaling": methods["TS"]}
    rows = restarts.differences(named, [("neural_clamping", "temperature_scaling")], labels, **CELL)
    row = next(row for row in rows if row["metric"] == "ece")
    found = restarts.difference(methods["NC"], methods["TS"], labels)
    assert row["value"] == pytest.approx(found.value)
    assert (row["low"], row["high"]) == (pytest.approx(found.low), pytest.approx(found.high))
    changes = [ece(p, labels) - ece(methods["TS"][0], labels) for p in methods["NC"]]
    assert row["seed_error"] == pytest.approx(np.std(changes, ddof=1) / np.sqrt(3))
    assert (row["n_seeds"], row["base_seeds"], row["base_loss"]) == (3, 3, "cross_entropy")
    assert append_effects(rows) == len(rows) == len(COMPARED)


def halved(fits):
    """Three draws of halves: other labels, other predictions."""
    methods, labels = fits
    rows = [np.random.default_rng(i).permutation(len(labels))[:75] for i in range(3)]
    of_draws = {name: [methods[name][i % len(methods[name])][rows[i]] for i in range(3)] for name in methods}
    return of_draws, np.stack([labels[of] for of in rows])


def test_a_fit_with_halves_of_its_own_is_measured_on_them(fits):
    methods, labels = halved(fits)
    assert "none" not in restarts.measured({"none": []} | methods, labels, ["ece"]).index.get_level_values(0)
    values = restarts.measured(methods, labels, ["ece"])
    for i in range(3):
        assert values.loc[("NC", i), "ece"] == pytest.approx(ece(methods["NC"][i], labels[i]), abs=1e-12)
    (row,) = restarts.rows({"NC": (methods["NC"], "")}, labels, ["ece"])
    of_draws = values.loc["NC", "ece"]
    assert (row["value"], row["std"], row["n_seeds"]) == pytest.approx((of_draws.mean(), of_draws.std(), 3))


def test_more_draws_of_halves_do_not_narrow_an_interval(fits, metric="nll"):
    """They share images: its ends are means of the draws'. The spread of the draws is apart."""
    methods, labels = halved(fits)
    draws = [*zip(methods["NC"], methods["TS"], labels, strict=True)]
    ends = np.array([bootstrap_difference(before, after, y, [metric])[metric] for after, before, y in draws])
    changes = [METRICS[metric](after, y) - METRICS[metric](before, y) for after, before, y in draws]
    found = restarts.difference(methods["NC"], methods["TS"], labels, metric)
    assert found == pytest.approx((np.mean(changes), *ends.mean(0)), abs=1e-12)
    rows = restarts.differences(methods, [("NC", "TS")], labels, dataset="digits")
    (row,) = (row for row in rows if row["metric"] == metric)
    assert (row["value"], row["low"], row["high"]) == pytest.approx(tuple(found), abs=1e-12)
    assert row["seed_error"] == pytest.approx(np.std(changes, ddof=1) / np.sqrt(3))
    assert (row["seed_df"], row["n_seeds"], row["base_seeds"]) == (2, 3, 3)


def test_the_chance_over_draws_that_agree_is_that_of_each(fits):
    methods, labels = fits
    of_draws = {name: [methods[name][0]] * 3 for name in methods}
    (alone,) = (row for row in restarts.differences(fits[0], [("TS", "TS")], labels) if row["metric"] == "nll")
    assert alone["chance"] == 1
    one = restarts.differences({n: of[:1] for n, of in of_draws.items()}, [("NC", "TS")], labels)
    three = restarts.differences(of_draws, [("NC", "TS")], np.stack([labels] * 3))
    for a, b in zip(one, three, strict=True):
        assert b["chance"] == pytest.approx(a["chance"], rel=1e-9) and b["value"] == pytest.approx(a["value"])


def test_draws_that_are_sure_of_opposite_signs_leave_chance():
    """As of two fits to one optimum, whose distance is rounding."""
    row = {"value": 1e-12, "low": 1e-12, "high": 1e-12, "chance": 0.0}
    both = restarts._over_draws([row, row | dict.fromkeys(("value", "low", "high"), -1e-12)])
    assert both["chance"] == 1 and both["value"] == 0
    assert restarts._over_draws([row, row])["chance"] < 1e-300
