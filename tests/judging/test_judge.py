"""``python -m book.kit judge``: its numbers against the book's, what it sees, and what a crash costs."""

import json
import re
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
from refusals import refused

from book.kit import judging
from book.kit.__main__ import main
from book.kit.judging.network import PROPERTIES, RIVALS, Row, judge_on, keeps_predictions
from book.kit.judging.verdict import Claim, signs, tally, verdict, worst
from book.kit.results import load_effects
from book.kit.results.claims import ledger, load_claims
from calibkit.calibrators import CALIBRATORS, on_logits
from calibkit.keys import Key
from calibkit.metrics.comparison import Estimate
from calibkit.networks import Network
from calibkit.reporting.catalogue import BASE, NEEDS
from calibkit.reporting.trial import METRICS

ROOT = Path(__file__).resolve().parents[2]
SMALL = ("digits/small_cnn-cross_entropy-s0", "tiny_imagenet_20/resnet20-cross_entropy-s0")
MINE = """
import os
import time

from calibkit import TemperatureScaling, VectorScaling


class Again(TemperatureScaling):
    pass


class Sharper(TemperatureScaling):
    def _probs(self, logits):
        return super()._probs(1.1 * logits)


class Odd(TemperatureScaling):
    def _probs(self, logits):
        return (super()._probs(logits) + logits.clamp(0, 1) + 1e-3).pow(2 if len(logits) % 2 else 1).softmax(1)


class Fragile(TemperatureScaling):
    def _fit(self, logits, labels):
        print("on standard output")
        if len(logits) == 1000:
            1 / 0
        if len(logits) == 900:
            os._exit(3)
        if len(logits) == 10216:
            time.sleep(600)
        super()._fit(logits, labels)


class Broken(TemperatureScaling):
    def _fit(self, logits, labels):
        raise RuntimeError("never")


class Unsavable(TemperatureScaling):
    state = ("temperature", "f")

    def _fit(self, logits, labels):
        super()._fit(logits, labels)
        self.f = lambda: None


class Other(TemperatureScaling):
    def _probs(self, logits):
        probs = super()._probs(logits)
        return probs.flip(1) if logits.shape[1] == 20 else probs
"""


def test_one_temperature_under_another_name_is_not_told_apart(mine):
    rows = [judge_on(network, "mine.py:Again", n_resamples=100) for network in SMALL]
    said = verdict(rows)
    assert said.startswith("Not told apart from one temperature. Mean difference over 2 networks: NLL +0.0000 ")
    assert "On no network is a difference beyond chance." in said
    assert {less[0] for row in rows for less in row.less[BASE].values()} == {0.0}
    assert all(row.keeps and row.properties == dict.fromkeys(PROPERTIES, "") for row in rows)


def test_a_method_that_changes_predictions_on_one_network_is_of_the_kind_that_may(mine):
    small, twenty = (judge_on(network, "mine.py:Other", n_resamples=20) for network in SMALL)
    assert small.keeps and not twenty.keeps and twenty.changed > 0.5
    assert "that keeps every prediction, increasing map: " in verdict([small])
    assert "that may change predictions, GP calibration: higher NLL, ECE and Brier score" in verdict([twenty])
    assert all(RIVALS[False] in row.less for row in (small, twenty))
    assert "that may change predictions, GP calibration: " in (said := verdict([small, twenty]))
    assert "on 1 network." not in said


def test_one_point_of_ece_is_seen(mine):
    networks = [f"cifar10/resnet20-cross_entropy-s{seed}" for seed in (0, 1)]
    rows = [judge_on(network, "mine.py:Sharper", n_resamples=200) for network in networks]
    assert all(row.less[BASE]["ece"][0] == pytest.approx(0.01, abs=0.002) for row in rows)
    assert "Worse than one temperature in NLL, ECE and Brier score." in verdict(rows)
    assert set(signs(rows, BASE).values()) == {0, 1} and tally(rows, BASE, "ece") == (0, 2, 0)
    assert tally(rows, BASE, "accuracy") == (0, 0, 2)


def test_what_a_method_breaks_is_shown(mine):
    found = judge_on(SMALL[0], "mine.py:Odd", n_resamples=20)
    failed = {name for name, counterexample in found.properties.items() if counterexample}
    assert failed >= {"a shift changes nothing", "no worse than no calibrator where it was fitted"}
    assert found.properties["a shift changes nothing"].startswith("row ")
    assert "`f`" in judge_on(SMALL[0], "mine.py:Unsavable", n_resamples=20).properties["can be saved"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("network", "method"),
    [
        ("cifar10_lt/resnet20-cross_entropy-s0", "class_temperature_scaling"),
        ("cifar10_lt/resnet20-cross_entropy-s0", "temperature_scaling:class_loss_scaling"),
        ("tiny_imagenet_20/resnet20-cross_entropy-s0", "class_temperature_scaling"),
        ("cifar100/resnet20-cross_entropy-s0", "ets"),
    ],
)
def test_the_differences_are_those_of_the_book(network, method):
    """To the six digits of effects.csv."""
    effects, of = load_effects(), Network.parse(network)
    cells = effects[["dataset", "model", "loss", "method"]] == [of.dataset, of.model, of.loss, method]
    rows = effects[cells.all(axis=1)].query("base_loss == loss and base_method == @BASE and source == 'ours'")
    rows = rows.query("n_seeds == 1 and metric in @METRICS").set_index("metric")
    less = judge_on(network, method).less[BASE]
    assert set(rows.index) == set(METRICS)
    for metric, row in rows.iterrows():
        assert less[metric] == pytest.approx((row["value"], row["low"], row["high"], row["chance"]), rel=6e-6, abs=1e-9)


@pytest.mark.slow
def test_the_ledger_has_the_same_answer():
    """Of its claim on one network that was trained once."""
    claims = load_claims()
    (row,) = ledger(claims[claims["id"] == "CLS5d"]).itertuples()
    judged = judge_on("cifar10_lt/resnet20-cross_entropy-s0", "temperature_scaling:class_loss_scaling")
    answer, mean = Claim.parse("lower ece than temperature_scaling").answer([judged])
    assert answer == row.verdict == "holds" and row.effect.startswith(f"{mean.percent.value:+.2f} ")


@pytest.mark.slow
def test_the_temperature_of_neural_clamping_has_the_same_answer():
    """The book's is of five fits by stochastic gradient descent with gamma 0, whose NLL is that of the optimum. The
    ECE is another by 0.4 points, well inside the interval.
    """
    rows = load_effects().query("method == 'neural_clamping part=output' and base_method == 'identity'")
    rows = rows.query("dataset == 'cifar100' and model == 'resnet20' and loss == 'cross_entropy'").set_index("metric")
    judged = judge_on("cifar100/resnet20-cross_entropy-s0", "temperature_scaling:focal gamma=0", ["identity"])
    less = {metric: Estimate(*of[:3]) for metric, of in judged.less["identity"].items()}
    assert less["nll"].value == pytest.approx(rows["value"]["nll"], abs=1e-5)
    for metric, row in rows.loc[list(METRICS)].iterrows():
        assert row["low"] <= less[metric].value <= row["high"]
        assert less[metric].below() == Estimate(row["value"], row["low"], row["high"]).below()
    assert verdict([judged]).startswith("Not told apart from one temperature.")


@pytest.mark.parametrize("keeps", [True, False])
def test_the_rival_has_the_lowest_mean_nll_of_its_kind(keeps):
    """Of what the guide names, on the networks that have them all with a finite NLL; and it is known by its fit."""
    effects = load_effects().query(
        "loss == base_loss and base_method == @BASE and metric == 'nll' and source != 'public'"
    )
    of_kind = [key for key in NEEDS if CALIBRATORS[Key.parse(key).name].keeps_predictions == keeps]
    table = effects[effects["method"].isin(of_kind)].pivot_table(
        index=["dataset", "model", "loss", "budget", "source"], columns="method", values="value"
    )
    means = table.dropna(axis=1, thresh=10).dropna().mean()
    assert len(means) >= 3 and means.idxmin() == RIVALS[keeps]


@pytest.mark.slow
def test_the_kind_is_found_by_a_fit():
    assert all(keeps_predictions(key) == cls.keeps_predictions for key, cls in on_logits().items() if key != "pts")


def test_the_worst_case_is_the_largest_difference_to_the_bad_side():
    less = {"a": 0.1, "b": 0.3, "c": 0.2, "d": -0.4}
    rows = [Row(name, less={BASE: {"nll": (x, 0, 0, 1), "accuracy": (-x, 0, 0, 1)}}) for name, x in less.items()]
    assert (worst(rows, BASE, "nll"), worst(rows, BASE, "accuracy")) == (("b", (0.3, 0, 0)), ("b", (-0.3, 0, 0)))
    assert worst(rows[3:], BASE, "nll") is None


def test_a_long_tailed_network_shares_its_test_images_and_a_file_of_ones_own_does_not(too_sure, tmp_path):
    path = str(too_sure.save(tmp_path / "z.npz"))
    for network, of in (("cifar10_lt/resnet20-cross_entropy-s0", "cifar10"), (path, path)):
        assert judge_on(network, "identity", n_resamples=20).test_set == of


def test_a_claim_has_one_of_three_answers():
    claim = Claim.parse("higher  accuracy than ets:focal gamma=2")
    assert str(claim) == "higher accuracy than ets:focal gamma=2"
    for less, answer in [((2, 1, 3), "holds"), ((-2, -3, -1), "does not hold"), ((0, -1, 1), "not decided")]:
        row = Row("a", test_set="a", values={"nll": 1.0}, less={claim.base: {"accuracy": (*less, 0.01)}})
        assert claim.answer([row]) == (answer, less)
    for bad in ("better ece than ets", "lower ece", "lower mce than ets", "lower ece than platt"):
        refused("`(claims|calibrator)` to be ", Claim.parse, bad)
    refused("`folder` to be text or a pathlib.Path, but got 3", judging.judge, "ets", SMALL, folder=3)


def test_an_infinite_nll_is_worse_than_any():
    rows = [judge_on(network, "histogram_binning", n_resamples=20) for network in SMALL]
    assert {row.values["nll"] for row in rows} == {None} == {row.less[BASE]["nll"] for row in rows}
    assert "Its NLL is infinite on 2 networks" in verdict(rows) and tally(rows, BASE, "nll") == (0, 2, 0)
    assert Claim.parse("lower nll than temperature_scaling").answer(rows)[0] == "does not hold"


@pytest.mark.slow
def test_from_an_empty_folder_with_crashes_and_a_timeout(mine):
    """As a stranger: four networks, of which one raises, one ends its process and one takes too long."""
    stored = {path: path.stat().st_mtime_ns for path in (ROOT / "book" / "results").rglob("*")}
    names = [SMALL[0], SMALL[1], "20newsgroups/gpool_cnn-focal-s0", "cifar10_lt/resnet20-cross_entropy-s0"]
    command = [sys.executable, "-m", "book.kit", "judge", "mine.py:Fragile", "--timeout", "12", "--jobs", "2"]
    command += ["--claims", "lower ece than identity", "--networks", *reversed(names)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    facts = json.loads((mine / "Fragile-judge" / "judge.json").read_text())
    assert {row["network"]: row["error"] for row in facts["rows"]} == {
        SMALL[0]: "",
        SMALL[1]: "ZeroDivisionError: division by zero (mine.py, line 26)",
        names[2]: "the process ended with status 3",
        names[3]: "no result after 12 seconds",
    }
    assert done.stdout.splitlines()[0] == facts["verdict"]
    assert "It failed on 3 of 4 networks" in facts["verdict"]
    assert facts["claims"]["lower ece than identity"]["answer"] in ("holds", "not decided")
    assert done.stderr.splitlines()[0] == "4 to judge" and "[4/4] " in done.stderr
    page = (mine / "Fragile-judge" / "judge.html").read_text()
    assert facts["verdict"] in page and "the process ended with status 3" in page and "<svg" in page
    assert {path.name for path in mine.iterdir()} - {"__pycache__"} == {"mine.py", "Fragile-judge"}
    assert stored == {path: path.stat().st_mtime_ns for path in (ROOT / "book" / "results").rglob("*")}


@pytest.mark.slow
def test_it_goes_on_where_it_stopped_unless_the_file_changed(mine, monkeypatch, capsys):
    monkeypatch.setattr(
        judging, "run", lambda jobs, *_: (json.loads(json.dumps(asdict(judge_on(**job)))) for job in jobs)
    )
    options = {"networks": SMALL[:1], "folder": "out", "n_resamples": 20, "progress": True, "jobs": 1}
    first = judging.judge("mine.py:Again", **options)
    assert judging.judge("mine.py:Again", **options) == first
    assert capsys.readouterr().err.splitlines()[-1] == "0 to judge, 1 there from before"
    facts = json.loads((mine / "out" / "judge.json").read_text())
    odd = [{"left_out": 3}, {"left_out": {"ets": 3}}, {"sizes": [1]}, {"sizes": "abc"}, {"sizes": [1, 2, {}]}]
    odd += [{"seconds": [True, 1]}, {"seconds": [[1], 2]}, {"changed": "lower"}, {"values": {"nll": "x"}}]
    odd += [{"network": []}, {"less": {"temperature_scaling": 1}}, {"strata": 3}, {"keeps": "yes"}, {"error": {}}]
    for row in odd:  # made by hand
        (mine / "out" / "judge.json").write_text(json.dumps({**facts, "rows": [facts["rows"][0] | row]}))
        judging.judge("mine.py:Again", **options)
        assert "1 to judge\n" in capsys.readouterr().err
    (mine / "mine.py").write_text(f"{MINE}\n# changed\n")
    judging.judge("mine.py:Again", **options)
    assert "1 to judge\n" in capsys.readouterr().err


@pytest.mark.slow
def test_what_cannot_be_judged_ends_with_status_1(mine, monkeypatch, shell):
    told = shell(["judge", "mine.py:Broken", "--networks", SMALL[0]], 1, main)
    assert told.out.startswith("Not judged: it failed on every network. RuntimeError: never (mine.py, line 36)\n")
    assert told.err.endswith(
        "Expected `key` to be of a calibrator that can be fitted to some network, but got 'mine.py:Broken'\n"
    )
    for wrong, want in [
        (["mine.py:None"], "Expected `calibrator` to be the name of a class, but got 'mine.py:None', which is none"),
        (["ets", "--networks", "cifar7/*"], "Expected `networks` to be names that `calibkit networks` lists, but got"),
        (["ets", "--networks", "none.npz"], "Expected `path` to be one that can be used, but got 'none.npz'"),
        (["neural_clamping"], "Expected `key` to be of a calibrator that takes logits, but got 'neural_clamping'"),
        (["ets", "--timeout", "0"], "Expected `timeout` to be a number in (0.0, inf], but got 0.0"),
    ]:
        assert shell(["judge", *wrong], 1, main).err.startswith(want)
    monkeypatch.setattr(judging, "zoo", dict)
    told = shell(["judge", "ets"], 1, main)
    assert "Expected `networks` to be those of the book, in its checkout: work there" in told.err


def test_a_network_that_is_none_is_told_of_the_option():
    for name in ("nothing", "noth*"):
        refused(f"`networks` to be .* but got '{re.escape(name)}'", judging.judge, "ets", [name])


def test_by_default_one_seed_of_each_training():
    names = judging.usual()
    assert "cifar10/resnet20-mbls-s0" in names and "cifar10/resnet20-mbls-s1" not in names
    assert not any("=" in name for name in names) and len(names) == len(set(names))
