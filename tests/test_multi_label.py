"""Samples with several labels each: K problems of two classes, as a loop over them and scikit-learn see them."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from refusals import refused
from sklearn.metrics import brier_score_loss, log_loss

from calibkit import METRICS, calibrator, evaluate, load_calibrator, read, report
from calibkit.__main__ import main
from calibkit.reporting.labels import LabelReports

NAMES = ("cat", "dog", "fox")
QUICK = {"methods": ["vector_scaling"], "n_resamples": 20}


def drawn(n: int = 1200) -> tuple[np.ndarray, np.ndarray]:
    """Scores of labels that are there in a half, a quarter and a tenth of the samples, twice as sure as they may be."""
    rng = np.random.default_rng(0)
    true = rng.normal(scale=1.5, size=(n, 3)) - [0, 1.5, 3]
    return 2 * true, (rng.random(true.shape) < 1 / (1 + np.exp(-true))).astype(int)


def test_metrics_are_the_means_over_labels():
    z, y = drawn()
    p = 1 / (1 + np.exp(-z))
    found = evaluate(p, y)
    assert list(found) == list(METRICS)
    for name, metric in METRICS.items():
        assert found[name] == pytest.approx(np.mean([metric(p[:, k], y[:, k]) for k in range(3)]), rel=1e-12), name
    assert found["nll"] == pytest.approx(np.mean([log_loss(y[:, k], p[:, k]) for k in range(3)]), rel=1e-9)
    brier = np.mean([brier_score_loss(y[:, k], p[:, k]) for k in range(3)])
    assert found["brier"] == pytest.approx(2 * brier, rel=1e-9)  # over both classes
    for probs, labels in ((p.tolist(), y.tolist()), (torch.from_numpy(p), torch.from_numpy(y) == 1), (p, y * 1.0)):
        assert evaluate(probs, labels) == found


def test_what_is_no_sample_with_several_labels():
    z, y = drawn(50)
    p = 1 / (1 + np.exp(-z))
    for probs, labels, message in (
        (p, y[:, :2], r"`labels` to be of shape \(50, 3\), as `probs`, but got shape \(50, 2\)"),
        (p, y + 1, r"`.*` to be "),
        (np.full((50, 3), 1 / 3), np.eye(3, dtype=int)[np.arange(50) % 3], r"`labels` to be of shape \(50,\)"),
        (z, y, r"`probs` to be in \[0, 1\]"),
    ):
        refused(message, evaluate, probs, labels)
    with pytest.raises(ValueError, match=r"^Expected `labels` to be of the shape \(N, K\) of the outputs, a column a"):
        report({"logits": z, "labels": y[:, :2]}, **QUICK)
    with pytest.raises(ValueError, match="^Expected `outputs` to be without missing values, .*, of the label '1'$"):
        report({"logits": z * [1, np.nan, 1], "labels": y}, **QUICK)
    refused("`labels` to be there in some samples to fit on", report, {"logits": z, "labels": np.ones_like(y)}, **QUICK)


def table(scores: np.ndarray, y: np.ndarray, prefix: str = "p_") -> pd.DataFrame:
    held = pd.DataFrame(scores, columns=[prefix + name for name in NAMES])
    return held.assign(**{f"label_{name}": y[:, k] for k, name in reversed([*enumerate(NAMES)])})


def test_a_report_is_one_a_label():
    z, y = drawn()
    found = report({"logits": z, "labels": y}, **QUICK)
    for k, of in enumerate(found.reports.values()):
        alone = report(z[:, k], y[:, k], kind="logits", **QUICK)
        assert of.facts()["metrics"] == alone.facts()["metrics"] and of.choice == alone.choice
    p = 1 / (1 + np.exp(-z))
    assert found.mean("before", "nll") == pytest.approx(evaluate(p, y)["nll"], rel=1e-9)
    assert found.mean("after", "nll") < found.mean("before", "nll")
    assert str(found).startswith("the data: Over your 3 labels, ")
    found = report({"logits": z, "labels": y * [1, 0, 1]}, **QUICK)  # a label that is never there
    assert list(found.reports) == ["0", "2"] and "1: left out, as it is there in all or in none" in str(found)


def test_a_table_from_the_shell(here, shell):
    """Each label with a calibrator of its own in a file, by the names of the columns; and those of before go."""
    z, y = drawn()
    p = 1 / (1 + np.exp(-z))
    table(p, y, "prob_").assign(split=["val", "test"] * 600, note="x").to_csv("mine.csv", index=False)
    (here / "mine-report").mkdir()
    for name in ("calibrator.npz", "calibrator-7.npz"):
        (here / "mine-report" / name).touch()
    assert "Over your 3 labels, " in shell(["report", "mine.csv", "--calibrators", "vector_scaling"]).out
    files = sorted(path.name for path in (here / "mine-report").iterdir())
    assert files == [*(f"calibrator-{i}.npz" for i in range(3)), "report.html", "report.json"]
    facts = json.loads((here / "mine-report" / "report.json").read_text())
    assert list(facts["labels"]) == ["fox", "dog", "cat"]  # in the order of the labels' columns
    for i, (name, of) in enumerate(facts["labels"].items()):
        k = NAMES.index(name)
        want = calibrator(of["recommended"]["key"]).fit(z[::2, k], y[::2, k])
        fitted = load_calibrator(here / "mine-report" / f"calibrator-{i}.npz")
        np.testing.assert_allclose(fitted(z[1::2, k]), want(z[1::2, k]), rtol=1e-6)
        assert f"<h2>{name}</h2>" in (here / "mine-report" / "report.html").read_text()
    both = table(z, y, "logit_").join(table(p, y, "prob_")[[f"prob_{name}" for name in NAMES]])
    assert read(both, kind="logits").val.outputs[0].tolist() == z[0, ::-1].tolist()
    both.to_csv("both.csv", index=False)
    for command in ("evaluate", "calibrate"):
        want = "Expected `source` to be of one label a sample, but got 3 labels; `calibkit report` takes several"
        assert want in shell([command, "both.csv", "--kind", "logits"], 1).err


def test_the_calibrators_of_several_labels_are_applied_one_after_the_other(here):
    """Each replaces its own column and leaves what those before it wrote."""
    z, y = drawn(400)
    new, want = table(z, y, "logit_"), {}
    for k, name in enumerate(NAMES):
        fitted = calibrator("vector_scaling").fit(z[:, k], y[:, k])
        fitted.classes, want[name] = (name,), fitted(z[:, k])
        (new if k == 0 else pd.read_csv("p.csv")).to_csv("new.csv", index=False)
        assert main(["apply", str(fitted.save(f"{k}.npz")), "new.csv", "--out", "p.csv"]) == 0
    found = pd.read_csv("p.csv")
    assert set(found) == {f"{what}_{of}" for what in ("label", "prob", "predicted", "confidence") for of in NAMES}
    for name in NAMES:
        np.testing.assert_allclose(found[f"prob_{name}"], want[name])
        np.testing.assert_array_equal(found[f"predicted_{name}"], want[name] > 0.5)


def test_rows_that_happen_to_have_one_label_each():
    """Scores that do not sum to 1 are of many labels; an unknown entry is no reason to take the largest label."""
    rng = np.random.default_rng(0)
    p, y = rng.random((300, 3)), np.eye(3, dtype=int)[rng.integers(0, 3, 300)]
    each = [METRICS["nll"](p[:, k], y[:, k]) for k in range(3)]
    assert evaluate(p, y, ["nll"])["nll"] == pytest.approx(np.mean(each), rel=1e-12)
    refused(".*argmax", evaluate, p / p.sum(1, keepdims=True), y, ["nll"])
    assert isinstance(report(p, y, kind="probabilities", methods=["temperature_scaling"], n_resamples=5), LabelReports)
    y[0, 0] = -1
    with pytest.raises(ValueError, match="0 and 1") as told:
        evaluate(p / p.sum(1, keepdims=True), y, ["nll"])
    assert "argmax" not in str(told.value)
