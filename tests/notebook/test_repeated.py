"""Methods with several fits: means, spreads and paired differences against the metrics of each fit."""

import numpy as np
import pandas as pd
import pytest

from calibkit.metrics import accuracy, bootstrap_difference, ece, entropy
from calibkit.notebook import repeated


@pytest.fixture(scope="module")
def fits():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, 150)
    probs = [rng.dirichlet(np.ones(4), 150) * 0.6 + 0.4 * np.eye(4)[labels] for _ in range(5)]
    return {"NC": probs[:3], "TS": probs[3:4], "more": probs[3:]}, labels


def test_every_fit_is_measured_once(fits):
    methods, labels = fits
    values = repeated.measured(methods, labels, ["accuracy", "ece", "entropy"], n_bins=8)
    assert [*values.index] == [("NC", 0), ("NC", 1), ("NC", 2), ("TS", 0), ("more", 0), ("more", 1)]
    for (name, i), row in values.iterrows():
        p = methods[name][i]
        wanted = accuracy(p, labels), ece(p, labels, n_bins=8), entropy(p, labels)
        np.testing.assert_allclose(row.to_numpy(), wanted, rtol=1e-12)


def test_mean_and_spread_are_written_in_the_units_of_the_papers():
    rows = pd.MultiIndex.from_tuples([("b", 0), ("b", 1), ("b", 2), ("a", 0)])
    values = pd.DataFrame({"accuracy": [0.5, 0.6, 0.7, 0.123456], "ece": [0.1, 0.2, 0.6, 0.98765]}, rows)
    text = repeated.mean_and_spread(values)
    assert [*text.index] == ["b", "a"] and [*text.columns] == ["accuracy", "ece"]
    assert text.loc["b"].tolist() == ["60.00 ± 10.00", "0.3000 ± 0.2646"]  # std of 1, 2, 6 tenths: sqrt(0.07)
    assert text.loc["a"].tolist() == ["12.35", "0.9877"]


def test_difference_of_single_fits_is_the_paired_bootstrap(fits):
    methods, labels = fits
    before, after = methods["NC"][0], methods["TS"][0]
    found = repeated.difference([after], [before], labels, n_bins=9, n_resamples=200, seed=4)
    low, high = bootstrap_difference(before, after, labels, ["ece"], n_bins=9, n_resamples=200, seed=4)["ece"]
    assert found.value == pytest.approx(ece(after, labels, n_bins=9) - ece(before, labels, n_bins=9), abs=1e-12)
    assert (found.low, found.high) == (pytest.approx(low, abs=1e-12), pytest.approx(high, abs=1e-12))


def test_difference_of_means_by_resampling_rows(fits):
    methods, labels = fits
    found = repeated.difference(methods["NC"], methods["more"], labels, n_resamples=100, seed=1)
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


def test_nothing_to_compare_is_refused(fits):
    methods, labels = fits
    for sides, name in ((([], methods["NC"]), "after"), ((methods["NC"], []), "before")):
        with pytest.raises(ValueError, match=f"Expected `{name}`"):
            repeated.difference(*sides, labels)


def test_rows_name_the_fits_behind_them(fits):
    methods, labels = fits
    change = repeated.difference(methods["NC"], methods["TS"], labels, n_resamples=50)
    cell = {"dataset": "d", "model": "m", "loss": "cross_entropy", "budget": "reduced", "source": "ours"}
    measured = {"neural_clamping": (methods["NC"], "gamma=1"), "temperature_scaling": (methods["TS"], "")}
    changes = {"neural_clamping control=own": (change, 3, "gamma=1")}
    rows = repeated.rows(measured, changes, labels, ["accuracy", "ece"], n_bins=15, **cell)
    assert [(r["method"], r["metric"], r["n_seeds"], r["note"]) for r in rows] == [
        ("neural_clamping", "accuracy", 3, "gamma=1"),
        ("neural_clamping", "ece", 3, "gamma=1"),
        ("temperature_scaling", "accuracy", 1, ""),
        ("temperature_scaling", "ece", 1, ""),
        ("neural_clamping control=own", "ece_change", 3, "gamma=1"),
    ]
    assert rows[1]["value"] == pytest.approx(np.mean([ece(p, labels) for p in methods["NC"]]))
    assert (rows[-1]["value"], rows[-1]["low"], rows[-1]["high"]) == tuple(change)


def test_rows_are_of_the_schema(fits, tmp_path):
    from calibkit import results

    methods, labels = fits
    cell = {"dataset": "cifar10", "model": "m", "loss": "cross_entropy", "budget": "reduced", "source": "ours"}
    change = repeated.difference(methods["NC"], methods["TS"], labels, n_resamples=50)
    measured = {"neural_clamping": (methods["NC"], "")}
    made = repeated.rows(measured, {"neural_clamping control=own": (change, 3, "")}, labels, ["ece"], **cell)
    assert results.append(made, tmp_path) == 2
