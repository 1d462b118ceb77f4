"""``python -m book.kit judge`` of a loss: against the stored trainings, and what a crash costs."""

import json
import math
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from refusals import refused
from scipy import stats

from book.kit.__main__ import main
from book.kit.judging import judge_loss, losses
from book.kit.judging.loss_verdict import BASE, WAYS, Claim, Difference, differences, signs
from calibkit.metrics import ece, nll
from calibkit.metrics.comparison import Estimate
from calibkit.metrics.intervals import Resampled
from calibkit.networks import Network
from calibkit.reporting.trial import METRICS
from calibkit.training.recipes import RECIPES

SHORT = ("reduced", "digits")
MINE = """
from torch import nn


class Smoothed(nn.Module):
    def __init__(self, share=0.05):
        super().__init__()
        if share > 1:
            raise RuntimeError("too much")
        self.share = share

    def forward(self, logits, labels):
        log_p = logits.log_softmax(1)
        return -((1 - self.share) * log_p.gather(1, labels[:, None])[:, 0] + self.share * log_p.mean(1)).mean()
"""


def in_this_process(jobs, *_):
    """Trainings without a process for each."""
    for job in jobs:
        try:
            yield json.loads(json.dumps(asdict(losses.train_one(**job))))
        except RuntimeError as error:
            yield {"network": job["network"], "error": str(error)}


@pytest.mark.slow
def test_a_stored_loss_written_again_is_not_told_apart_from_it(mine, monkeypatch):
    """After an epoch instead of thirty: a setting that raises is a row, and the same call trains nothing again."""
    monkeypatch.setitem(RECIPES, SHORT, replace(RECIPES[SHORT], epochs=1))
    monkeypatch.setattr(losses, "run", in_this_process)
    trained = {
        loss: [Network("digits", "small_cnn", loss, seed).train("reduced", folder=f"{loss}{seed}") for seed in (0, 1)]
        for loss in (BASE, "label_smoothing")
    }
    monkeypatch.setattr(losses, "stored", lambda _: trained)
    command = ["judge", "mine.py:Smoothed", "--seeds", "2", "--grid", "share=0.05,2"]
    assert main([*command, "--claims", "lower nll than label_smoothing"]) == 0
    facts = json.loads((mine / "Smoothed-judge" / "judge.json").read_text())
    assert facts["key"] == "mine.py:Smoothed share=0.05"
    assert [row["error"] for row in facts["rows"]] == ["", "too much", ""]
    less = facts["differences"]["label_smoothing"]
    assert [less[way][metric]["value"] for way in WAYS for metric in METRICS if way != [*WAYS][2]] == pytest.approx(
        [0] * 8, abs=1e-6
    )
    assert "not told apart from cross_entropy, label_smoothing" in facts["verdict"]
    assert facts["claims"]["lower nll than label_smoothing"]["answer"] == "not decided"
    assert facts["verdict"] in (mine / "Smoothed-judge" / "judge.html").read_text()
    times = [path.stat().st_mtime_ns for path in mine.rglob("runs/**/logits.npz")]
    assert main(command) == 0 and len(times) == 2
    assert times == [path.stat().st_mtime_ns for path in mine.rglob("runs/**/logits.npz")]


def test_the_numbers_are_those_of_the_stored_logits(tmp_path):
    """By the metrics as anybody calls them, and the spread over seeds pooled by hand over all losses."""
    found, trained = judge_loss("mbls", folder=tmp_path, n_resamples=50), losses.stored("digits")
    assert not found.rows and not list(tmp_path.iterdir())

    def measured(loss, metric):
        softmax = [np.exp(z.test_logits - np.logaddexp.reduce(z.test_logits, 1)[:, None]) for z in trained[loss]]
        return [metric(p, z.test_labels) for p, z in zip(softmax, trained[loss], strict=True)]

    of = found.less[BASE]["as trained"]
    for name, metric in (("nll", nll), ("ece", ece)):
        assert found.values["identity"][name] == pytest.approx(measured("mbls", metric), rel=1e-5)
        less = np.mean(measured("mbls", metric)) - np.mean(measured(BASE, metric))
        assert of[name].over_tests.value == pytest.approx(less, abs=1e-6)
    groups = [measured(loss, nll) for loss in trained]
    df = sum(len(group) - 1 for group in groups)
    pooled = sum(np.var(group, ddof=1) * (len(group) - 1) for group in groups) / df
    assert of["nll"].error == pytest.approx(math.sqrt(pooled * (1 / 3 + 1 / 5)), rel=1e-4) and of["nll"].df == df


def test_what_is_seen_four_times_in_five():
    """Known spreads, so the normal distribution tells it: 1.96 + 0.84 standard errors, here of 5 = |(3, 4)|."""
    half = 3 * stats.norm.ppf(0.975)
    found = Difference(Estimate(0.0, -half, half), 1.0, 4.0, math.inf)
    assert found.seen == pytest.approx(5 * (stats.norm.ppf(0.975) + stats.norm.ppf(0.8)))
    assert found.side == 0 and found._replace(over_tests=Estimate(13.0, 13 - half, 13 + half)).side == 1


def test_without_a_second_seed_nothing_is_decided():
    """No spread over seeds is known: an interval over test samples does not count, however short."""
    one = Resampled(0.0, np.linspace(-1e-6, 1e-6, 101), True, None)
    measured = {
        loss: {method: [{m: one._replace(value=x, draws=one.draws + x) for m in METRICS}] for method in methods}
        for loss, x in ((BASE, 0.5), ("mine", 0.1))
        for methods in [{method for pair in WAYS.values() for method in pair}]
    }
    less = differences(measured, "mine", [BASE])
    assert less[BASE]["as trained"]["nll"].over_tests.value == pytest.approx(-0.4)
    assert set(signs(less, "as trained").values()) == {0}
    assert Claim("lower", "nll", BASE, "as trained").answer(less[BASE]["as trained"]["nll"]) == "not decided"


@pytest.mark.slow
def test_what_cannot_be_judged_ends_with_status_1(mine, monkeypatch, shell):
    told = shell(["judge", "mine.py:Smoothed share=2", "--seeds", "1"], 1, main)
    assert told.out.startswith("Not judged: every training failed. RuntimeError: too much (mine.py, line 9)\n")
    assert told.err.endswith("to be of a loss that can be trained, but got 'mine.py:Smoothed share=2'\n")
    for wrong, want in [
        (["mbls", "--claims", "lower ece than ets"], "Expected `claims` to be on one of acls, "),
        (["mbls", "--networks", "digits/*"], "Expected `networks` to be left out: 'mbls' is a loss, but got "),
        (["ets", "--seeds", "2"], "Expected `seeds` to be left out: 'ets' is no loss, but got 2"),
        (["mine.py:Smoothed", "--seeds", "0"], "Expected `seeds` to be "),
        (["mine.py:Smoothed margin=1"], "Expected `loss` to be with options among share, but got margin"),
        (["mbls", "--grid", "share=1"], "Expected `loss` to be with options among margin, weight, "),
        (["mine.py:Smoothed", "--grid", "share"], "Expected `grid` to be "),
        (["mine.py:Smoothed", "--grid", "share=1", "share=2"], "Expected `grid` to be one that gives each option once"),
        (
            ["mine.py:Smoothed:ece"],
            "Expected `key` to be of a loss, a subclass of torch.nn.Module, without an objective",
        ),
    ]:
        assert shell(["judge", *wrong], 1, main).err.startswith(want)
    for values in ([], "12", 3, np.array([1, 2]), range(3), {1: 2}, [object()], [{"a": 1}], [np.ones(2)]):
        with pytest.raises(ValueError, match="^Expected `grid` to be a list of one value or more for each option"):
            judge_loss("mbls", folder="out", grid={"margin": values})
    for name, values in (("claims", 3), ("claims", [None]), ("claims", "lower ece than mbls"), ("grid", 3)):
        refused(f"`{name}` to be a list of ", judge_loss, "mbls", folder="out", **{name: values})
    refused("`progress` to be True or False", judge_loss, "mbls", folder="out", progress=[1, 2])
    refused("`folder` to be text or a pathlib.Path, but got 3", judge_loss, "mbls", folder=3)
    monkeypatch.setattr(losses._folders, "stored", lambda: Path("nowhere"))
    said = shell(["judge", "mbls"], 1, main).err
    assert "Expected `data` to be one with the stored trainings of the book, in its checkout" in said
