"""The report as a whole: numbers against the functions that measure, the rule on constructed cases, the files."""

import json
import os
import re
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from html_cells import Cells
from scipy.special import softmax

from calibkit import calibrator, load_calibrator
from calibkit.logits import HeldOut, Logits
from calibkit.metrics import REPORTED, bootstrap_difference, evaluate
from calibkit.metrics.comparison import Estimate
from calibkit.reporting import Diagnosed, Finding, Trial, choose, report, try_all
from calibkit.reporting.catalogue import NEEDS
from calibkit.reporting.trial import FOLDS, Tried, deal

QUICK = ["vector_scaling", "histogram_binning"]


@pytest.fixture
def mine(sample):
    z, y = sample(4000)
    return Logits(z[:2000], y[:2000], z[2000:], y[2000:])


@pytest.fixture
def found(mine):
    return report(mine, methods=QUICK, n_resamples=200)


def test_numbers_are_those_of_the_metrics(mine, found):
    after = calibrator("temperature_scaling").fit(*mine.val)(mine.test_logits)
    before = softmax(mine.test_logits, 1)
    for name, probs in (("before", before), ("after", after)):
        values = evaluate(probs, mine.test_labels, REPORTED)
        assert {metric: x.value for metric, x in found.metrics[name].items()} == pytest.approx(values)
    vector = calibrator("vector_scaling").fit(*mine.val)(mine.test_logits)
    ends = bootstrap_difference(after, vector, mine.test_labels, ["nll", "ece"], n_resamples=200)
    tried = found.trial.methods["vector_scaling"]
    for metric, (low, high) in ends.items():
        assert tried.changes[metric][1:] == pytest.approx((low, high))
    assert tried.changed == np.mean(vector.argmax(1) != mine.test_logits.argmax(1))
    assert found.choice.key == "temperature_scaling" and found.calibrator.temperature == pytest.approx(3, rel=0.1)


def test_classes_are_counted_by_hand(mine, found):
    p = softmax(mine.test_logits, 1)
    for row in found.classes:
        of = p.argmax(1) == int(row.name)
        right = mine.test_labels[of] == int(row.name)
        assert (row.predicted, row.samples) == (of.sum(), (mine.test_labels == int(row.name)).sum())
        assert row.accuracy == pytest.approx(right.mean())
        assert row.before == pytest.approx(p[of].max(1).mean() - right.mean())
    concerned = [abs(row.before) * row.predicted for row in found.classes]
    assert concerned == sorted(concerned, reverse=True)


def test_without_a_test_set_no_sample_is_judged_by_its_own_fit(sample):
    z, y = sample(1500)
    trial = try_all(HeldOut(z, y), None, ["vector_scaling"], n_resamples=50)
    probs = trial.probs("vector_scaling")
    for fold in range(FOLDS):
        out = trial.folds == fold
        fitted = calibrator("vector_scaling").fit(z[~out], y[~out])
        np.testing.assert_allclose(probs[out], fitted(z[out]), rtol=1e-12)
    value = trial.methods["vector_scaling"].values["nll"].value
    assert value == pytest.approx(-np.log(probs[np.arange(1500), y]).mean())
    whole = calibrator("vector_scaling").fit(z, y)
    np.testing.assert_array_equal(trial.methods["vector_scaling"].fitted.state_dict()["weights"], whole.weights)


def test_folds_spread_classes_and_keep_groups(sample):
    z, y = sample(503)
    fold = deal(HeldOut(z, y), 0)
    counts = np.array([np.bincount(fold[y == k], minlength=FOLDS) for k in range(3)])
    assert np.ptp(counts, axis=1).max() <= 1 and set(fold) == set(range(FOLDS))
    groups = np.repeat(np.arange(60), 10)
    fold = deal(HeldOut(np.zeros((600, 3)), np.zeros(600, int), groups), 0)
    assert all(len(set(fold[groups == g])) == 1 for g in range(60)) and np.bincount(fold).tolist() == [120] * FOLDS


def test_what_takes_minutes_is_left_out_unless_asked_for(sample):
    z, y = sample(300, k=900)
    found = try_all(HeldOut(z, y), HeldOut(z, y), ["matrix_scaling"], n_resamples=10).methods["matrix_scaling"]
    assert found.fitted is None and found.reason.startswith("810,900 parameters on 300 samples") and not found.values


def estimate(value, arm=0.001):
    return Estimate(value, value - arm, value + arm)


def tried(key, nll, *, ece=0.0, chance=1e-6, enough=True):
    """A method whose NLL and ECE differ by so much from those of temperature scaling, whose NLL is 1."""
    fitted = calibrator(key)
    if key == "temperature_scaling":
        fitted.temperature = 2.0
    values = {"nll": estimate(1 + nll), "ece": estimate(0.05 + ece), "accuracy": estimate(0.9), "brier": estimate(0.2)}
    changes = {"nll": estimate(nll), "ece": estimate(ece)}
    return Tried(key, NEEDS[key], fitted, "", enough, 0.1, 0.0, values, changes, {"nll": chance, "ece": 1.0})


def chosen(*others, before=0.1, findings=(), **options):
    methods = {m.key: m for m in (tried("temperature_scaling", 0.0), tried("identity", before), *others)}
    held = HeldOut(np.zeros((5000, 3)), np.zeros(5000, int))
    return choose(Trial(methods, held, held, None), Diagnosed(held, held, ("a", "b", "c"), findings, "x"), **options)


BY_CHANCE = tried("pts", 0.0, chance=1.0)  # another test of the same family


def test_a_lower_nll_of_what_calls_a_class_impossible_is_told_and_not_taken():
    choice = chosen(replace(tried("isotonic", -0.02), zeros=True))
    assert choice.key == "temperature_scaling"
    assert "Lower NLL here, but not safe, as a class gets the probability 0: isotonic regression." in choice.reasons


def test_the_rule():
    for choice, want in (
        (chosen(), ("temperature_scaling", "high")),
        (chosen(before=0.0), ("temperature_scaling", "some")),
        (chosen(before=-0.1), ("identity", "high")),
        (chosen(tried("identity", 0.0, ece=-0.02)), ("identity", "some")),
        (chosen(tried("identity", 0.1, ece=-0.02)), ("temperature_scaling", "high")),
        (chosen(tried("ets", -0.02)), ("ets", "high")),
        (chosen(tried("ets", -0.02), tried("vector_scaling", -0.03)), ("vector_scaling", "high")),
        (chosen(tried("ets", -0.02), tried("vector_scaling", -0.03), keep_predictions=True), ("ets", "high")),
        (chosen(tried("ets", -0.02, chance=0.06)), ("temperature_scaling", "high")),
        (chosen(tried("ets", -0.02, chance=0.03), BY_CHANCE), ("temperature_scaling", "high")),
        (chosen(tried("ets", -0.02, chance=0.02), BY_CHANCE), ("ets", "high")),
        (chosen(tried("ets", -0.0045)), ("temperature_scaling", "high")),  # half a hundredth of a nat
        (chosen(tried("ets", -0.0055)), ("ets", "high")),
        (chosen(tried("ets", +0.02)), ("temperature_scaling", "high")),
        (chosen(tried("ets", -0.02, ece=0.01)), ("temperature_scaling", "high")),
        (chosen(tried("ets", -0.02, enough=False)), ("temperature_scaling", "high")),
        (chosen(tried("ets", -0.02), before=-0.1), ("identity", "high")),
        (chosen(findings=(Finding("doubt", "label shift", "."),)), ("temperature_scaling", "low")),
        (chosen(findings=(Finding("note", "duplicates", "."),)), ("temperature_scaling", "high")),
        (chosen(tried("ets", -0.02), findings=(Finding("wrong", "x", "."),)), ("identity", "none")),
    ):
        assert (choice.key, choice.sure) == want


class Page(Cells):
    """Notes what a page would fetch, and its text."""

    def __init__(self, text):
        self.fetched, self.text = [], ""
        super().__init__(text)

    def handle_starttag(self, tag, attrs):
        super().handle_starttag(tag, attrs)
        self.fetched += [v for k, v in attrs if k in ("src", "href", "xlink:href") and v and not v.startswith("#")]

    def handle_data(self, data):
        super().handle_data(data)
        self.text += data


@pytest.mark.slow
def test_files_are_whole_and_agree(found, mine, tmp_path):
    html, data, saved = found.save(tmp_path / "new" / "report")
    page = Page(html.read_text())
    assert page.fetched == [] and "<script" not in html.read_text()
    facts = json.loads(data.read_text())
    assert facts == found.facts() and facts["recommended"]["key"] == "temperature_scaling"
    assert facts["first_paragraph"] in page.text
    assert f"{facts['methods']['vector_scaling']['values']['nll']['value']:.4f}" in page.text
    np.testing.assert_array_equal(load_calibrator(saved)(mine.test_logits), found.probs["after"])
    assert found.html() == html.read_text()  # pictures too


def test_names_of_the_user_are_escaped(mine, tmp_path):
    names = ["<b>", "&", '"q"']
    frame = pd.DataFrame(mine.test_logits, columns=names).assign(label=[names[i] for i in mine.test_labels])
    html = report(frame, kind="logits", methods=[], n_resamples=20).html()
    assert "<b>" not in html and "&lt;b&gt;" in html


def test_any_number_of_threads_gives_the_same_facts(mine):
    def facts():
        text = json.dumps(report(mine, methods=["ets", *QUICK], n_resamples=50).facts())
        return re.sub(r'"seconds": [^,]+', "", text)

    before = torch.get_num_threads()
    try:
        found = []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append(facts())
    finally:
        torch.set_num_threads(before)
    assert found[0] == found[1]


def test_an_infinite_nll_is_told_and_never_recommended(sample):
    z, y = sample(800, k=4, t=6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = report(Logits(z[:300], y[:300], z[300:], y[300:]), methods=["isotonic"], n_resamples=50)
    assert not np.isfinite(found.trial.methods["isotonic"].values["nll"].value)
    assert found.facts()["methods"]["isotonic"]["values"]["nll"]["value"] is None
    assert found.choice.key == "temperature_scaling" and "infinite" in found.html()


@pytest.mark.slow
def test_files_of_a_report_are_never_of_two(found, mine, tmp_path, monkeypatch):
    """Whatever step fails: the old three, or some of one report."""
    earlier = report(mine, methods=[], n_resamples=20)
    names = [path.name for path in earlier.save(tmp_path / "report")]
    old = {name: (tmp_path / "report" / name).read_bytes() for name in names}
    new = {path.name: path.read_bytes() for path in found.save(tmp_path / "new")}
    replace, fails = os.replace, []
    for step in range(6):
        calls = []

        def fail(source, target, step=step, calls=calls):
            calls.append(target)
            if len(calls) == step + 1:
                raise OSError(28, "No space left on device", str(source))
            return replace(source, target)

        earlier.save(tmp_path / "report")
        with monkeypatch.context() as patched, pytest.raises(OSError, match="report/[a-z]*.(html|json|npz)'") as error:
            patched.setattr(os, "replace", fail)
            found.save(tmp_path / "report")
        fails.append(error.value.filename)
        left = {path.name: path.read_bytes() for path in (tmp_path / "report").iterdir()}
        assert left == old or left.items() <= new.items()
    assert len(fails) == 6


def test_a_folder_that_had_to_be_made_is_gone_after_an_error(found, tmp_path, monkeypatch):
    monkeypatch.setattr("calibkit.fitting.base.Fitted.save", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        found.save(tmp_path / "report")
    assert list(tmp_path.iterdir()) == []
