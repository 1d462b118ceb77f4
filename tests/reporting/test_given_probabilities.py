"""Probabilities that were given, zeros among them, are measured, advised on and returned as they were given."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.special import softmax

from calibkit import CalibratedModel
from calibkit.__main__ import main
from calibkit.metrics import REPORTED, bootstrap, bootstrap_difference, evaluate
from calibkit.reading import read
from calibkit.reporting import report
from calibkit.reporting.diagnosis import diagnose

TAKE = ["temperature_scaling", "ets", "vector_scaling"]


def shares(votes, *, spread, calibrated, n=3000, k=10, seed=0):
    """Shares of so many votes, and labels from them, or from the chances that the votes were drawn from."""
    rng = np.random.default_rng(seed)
    chances = rng.dirichlet(np.full(k, spread), n)
    p = np.stack([rng.multinomial(votes, row) for row in chances]) / votes
    drawn_from = p if calibrated else chances
    return p, (drawn_from.cumsum(1) < rng.random((n, 1))).sum(1)


def in_two(p, y):
    half = len(p) // 2
    return {"val_probs": p[:half], "val_labels": y[:half], "test_probs": p[half:], "test_labels": y[half:]}


@pytest.mark.parametrize("split", [True, False])
def test_calibrated_shares_of_votes_are_measured_as_they_are_and_left_alone(split):
    p, y = shares(20, spread=1.0, calibrated=True)
    found = report(in_two(p, y) if split else {"probs": p, "labels": y}, methods=TAKE, n_resamples=100)
    rows, labels = (p[1500:], y[1500:]) if split else (p, y)
    want = evaluate(rows, labels, REPORTED)
    for side in ("before", "after"):
        assert {name: x.value for name, x in found.metrics[side].items()} == pytest.approx(want)
    alone = found.trial.methods["identity"]
    assert alone.values["ece"].value == pytest.approx(want["ece"]) and alone.changed == 0
    assert found.choice.key == "identity"
    np.testing.assert_array_equal(found.probs["before"], rows)
    assert sum(row.before * row.predicted for row in found.classes) == pytest.approx(
        rows.max(1).sum() - (rows.argmax(1) == labels).sum()
    )


@pytest.mark.parametrize(("n", "seed"), [(200, 0), (200, 1), (1000, 2)])
def test_what_is_advised_is_not_worse_than_what_was_given(n, seed):
    p, y = shares(20, spread=0.2, calibrated=True, n=n, seed=seed)
    found = report(in_two(p, y), methods=TAKE, n_resamples=100)
    rows, labels = p[n // 2 :], y[n // 2 :]
    for metric, (low, _) in bootstrap_difference(rows, found.probs["after"], labels, ["nll", "brier", "ece"]).items():
        assert low <= 0, metric


def test_rounded_rows_are_divided_by_their_sums(sample):
    z, y = sample(600)
    p = softmax(z, 1).round(2)
    found = report({"probs": p, "labels": y}, methods=[], n_resamples=20)
    np.testing.assert_allclose(found.probs["before"], p / p.sum(1, keepdims=True), rtol=1e-12)


def test_of_infinite_nlls_alone_the_floor_is_measured():
    p, y = shares(20, spread=0.2, calibrated=False)
    rows, labels = p[1500:], y[1500:]
    assert evaluate(rows, labels, ["nll"])["nll"] == np.inf
    found = report(in_two(p, y), methods=[], n_resamples=100)
    before = found.metrics["before"]
    others = [name for name in REPORTED if name != "nll"]
    assert {name: before[name].value for name in others} == pytest.approx(evaluate(rows, labels, others))
    known = softmax(np.log(np.where(rows == 0, 1 / 40, rows)), 1)  # half the smallest number above 0 in its place
    assert before["nll"].value == pytest.approx(evaluate(known, labels, ["nll"])["nll"])
    assert before["nll"][1:] == pytest.approx(bootstrap(known, labels, ["nll"], n_resamples=100)["nll"])
    assert found.trial.methods["identity"].values["nll"].value == before["nll"].value
    text = next(f.text for f in found.diagnosed.findings if f.kind == "zero probabilities")
    assert "so does the NLL of the network in a report, where it would be infinite" in text
    np.testing.assert_array_equal(found.probs["before"], rows)


@pytest.mark.parametrize(("spread", "want"), [(0.05, "identity"), (1.0, "temperature_scaling")])
def test_where_the_nll_is_infinite_the_brier_score_decides(spread, want):
    p, y = shares(5, spread=spread, calibrated=False, n=6000)
    found = report(in_two(p, y), methods=[], n_resamples=100)
    after = found.trial.methods["temperature_scaling"].fitted(np.log(np.where(p == 0, 1 / 10, p)))[3000:]
    low, high = bootstrap_difference(p[3000:], after, y[3000:], ["brier"])["brier"]
    assert low > 0 if want == "identity" else high < 0
    assert found.choice.key == want and "Brier score" in " ".join(found.choice.reasons)


def test_a_shift_is_told_in_the_numbers_that_were_given():
    p, y = shares(20, spread=1.0, calibrated=True)
    y[:500] = np.random.default_rng(1).integers(0, 10, 500)
    text = diagnose(read(in_two(p, y))).first_paragraph
    for rows, labels in ((p[:1500], y[:1500]), (p[1500:], y[1500:])):
        assert f"{100 * (rows.max(1).mean() - (rows.argmax(1) == labels).mean()):+.1f}" in text


def test_apply_of_no_calibrator_returns_the_rows(here, capsys):
    p, y = shares(20, spread=1.0, calibrated=True, k=3)
    table = pd.DataFrame(p, columns=["cat", "dog", "fox"])
    table.assign(label=y, split=np.repeat(["val", "test"], 1500)).to_csv("p.csv", index=False)
    assert main(["report", "p.csv", "--kind", "probabilities", "--calibrators", "temperature_scaling"]) == 0
    assert json.loads((here / "p-report" / "report.json").read_text())["recommended"]["key"] == "identity"
    (table[["fox", "cat", "dog"]] * [1, 1, 1]).to_csv("new.csv", index=False)
    for out in ("q.csv", "q.npy"):
        command = ["apply", "p-report/calibrator.npz", "new.csv", "--kind", "probabilities", "--out", out]
        assert main(command) == 0
    given = table[["fox", "cat", "dog"]].to_numpy()
    np.testing.assert_allclose(np.load("q.npy"), given, rtol=1e-15)
    np.testing.assert_allclose(pd.read_csv("q.csv")[["prob_fox", "prob_cat", "prob_dog"]], given, rtol=1e-15)
    np.save("wide.npy", np.full((2, 4), 0.25))
    assert main(["apply", "p-report/calibrator.npz", "wide.npy", "--kind", "probabilities"]) == 1
    assert "Expected `logits` to be of shape (N, 3)" in capsys.readouterr().err


def test_a_calibrator_of_probabilities_takes_logits_of_any_offset():
    """Their logarithms are what it was fitted to, and logits up to a number in each row."""
    p, y = shares(20, spread=1.0, calibrated=False, k=4)
    p = (p + 0.01) / 1.04
    found = report({"probs": p, "labels": y}, methods=["vector_scaling"], n_resamples=100)
    fitted = found.trial.methods["vector_scaling"].calibrator
    fitted.floor = found.diagnosed.floor
    z = np.log(p) + np.random.default_rng(0).normal(size=(len(p), 1))
    np.testing.assert_allclose(fitted(z), fitted(np.log(p)), rtol=1e-9)
    module = CalibratedModel(torch.nn.Identity(), fitted)
    np.testing.assert_allclose(module(torch.from_numpy(z)).numpy(), fitted(z), rtol=1e-9)
    assert "np.log(np.maximum(given" in found.html() and "calibrate(logits)" not in found.html()


def test_what_calls_a_class_impossible_is_not_recommended():
    """Isotonic regression on few samples of a rare class."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=20_000) * 2 - 6
    y = (rng.random(20_000) < 0.3 / (1 + np.exp(-z))).astype(int)
    methods = ["isotonic", "ets"]
    found = report({"logits": z[:, None], "labels": y}, methods=methods, n_resamples=100)
    tried = found.trial.methods["isotonic"]
    assert tried.zeros and (tried.calibrator(z[:, None]) == 0).any() and found.choice.key != "isotonic"
