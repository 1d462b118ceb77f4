"""The leaderboard: its entries can be rebuilt, its csv and page show them all, and wrong ones stay in sight."""

import importlib
import json

import numpy as np
import pandas as pd
import pytest
from refusals import refused

from book.kit.__main__ import main
from book.kit.judging import judge, judge_loss
from book.kit.judging.network import judge_on, strata_of
from book.kit.results import leaderboard
from calibkit.networks import load_logits
from calibkit.reporting.catalogue import BASE

ENTRIES = leaderboard.entries()
NOT_OURS = "Expected `path` to be a judge.json as `python -m book.kit judge` writes it"
CALIBRATORS = {of["key"]: of for of in ENTRIES if of["kind"] == "calibrators"}


@pytest.mark.parametrize(
    ("key", "network"),
    [
        ("ets", "tiny_imagenet_20/resnet20-mbls-s0"),
        ("temperature_scaling:class_loss_scaling", "digits/small_cnn-cross_entropy-s0"),
        ("isotonic", "tiny_imagenet_20/resnet20-focal-s0"),
    ],
)
def test_a_row_of_a_calibrator_is_rebuilt(key, network):
    less = judge_on(network, key, n_resamples=20).less[BASE]
    found = [(less[metric] or [None])[0] for metric in leaderboard.METRICS]
    np.testing.assert_allclose(
        np.array(CALIBRATORS[key]["rows"][network], float), np.array(found, float), rtol=1e-5, atol=1e-9
    )


@pytest.mark.slow
def test_an_entry_of_a_loss_is_rebuilt(tmp_path, monkeypatch):
    judge_loss("focal", folder=tmp_path).save(tmp_path)
    stored = (leaderboard.folder() / "losses" / "focal-digits.json").read_text()
    monkeypatch.setattr(leaderboard, "folder", lambda: tmp_path)
    assert main(["enter", str(tmp_path / "judge.json"), "--tier", "ours"]) == 0
    found, known = json.loads((tmp_path / "losses" / "focal-digits.json").read_text()), json.loads(stored)
    entered = (tmp_path / "losses" / "focal-digits.json").read_bytes()
    assert main(["enter", str(tmp_path / "judge.json"), "--by", "me"]) == 1  # the name is taken
    assert (tmp_path / "losses" / "focal-digits.json").read_bytes() == entered
    for name in ("date", "commit", "calibkit"):
        del found[name], known[name]
    for of in ("means", "rows"):
        numbers, stored_numbers = (pd.json_normalize(x.pop(of)).iloc[0].explode() for x in (found, known))
        np.testing.assert_allclose(numbers.astype(float), stored_numbers.astype(float), rtol=1e-4, atol=1e-7)
    assert found == known and list(pd.read_csv(tmp_path / "leaderboard.csv")["key"].unique()) == ["focal"]


def test_all_are_judged_on_the_same_networks_and_the_page_counts_them():
    assert all({*of["rows"], *of["failed"]} == leaderboard.networks() for of in CALIBRATORS.values())
    page = (leaderboard.folder().parent / "leaderboard.md").read_text()
    assert f"the same {len(leaderboard.networks())} networks" in page


def test_a_judgement_on_more_networks_is_of_those_that_ours_have(tmp_path):
    of = {"values": {"nll": 1.0}, "less": {BASE: {metric: [0.5, 0.4, 0.6, 0.01] for metric in leaderboard.METRICS}}}
    rows = [{"network": name, **of} for name in leaderboard.networks()]
    more = {"network": "cifar10/resnet50-mbls-s0", **of, "values": {"nll": None}}
    made = dict.fromkeys(("calibkit", "commit", "file"), "")
    facts = {"key": "mine.py:Mine", "made": made, "rows": [*rows, more], "differences": {}}
    (tmp_path / "judge.json").write_text(json.dumps(facts))
    found = leaderboard.entry(tmp_path / "judge.json", "self-reported", "me")
    assert found["rows"].keys() == leaderboard.networks() and more["network"] not in leaderboard.networks()
    assert found["means"]["all"]["nll"][0] == 0.5 and found["infinite_nll"] == 0
    (tmp_path / "judge.json").write_text(json.dumps(facts | {"rows": [*rows[1:], more]}))
    with pytest.raises(ValueError, match="a judgement on all stored networks, .*, but got none on "):
        leaderboard.entry(tmp_path / "judge.json", "self-reported", "me")


def test_means_are_those_of_the_rows():
    for found in CALIBRATORS.values():
        assert len(found["rows"]) == found["networks"]
        for i, metric in enumerate(leaderboard.METRICS):
            rows = [row[i] for row in found["rows"].values() if row[i] is not None]
            mean = found["means"]["all"][metric][0]
            assert mean is None and not rows or mean == pytest.approx(np.mean(rows), abs=2e-6)


@pytest.mark.slow
def test_which_networks_are_imbalanced():
    """As the page counts them."""
    found = [
        name
        for name in CALIBRATORS["ets"]["rows"]
        if (data := load_logits(name)) and "imbalanced" in strata_of(data.val, data.test, data.val_logits.shape[1])
    ]
    assert (len(found), sum(name.startswith("camvid/") for name in found)) == (8, 6)
    assert "Six of these eight are CamVid's" in (leaderboard.folder().parent / "leaderboard.md").read_text()


def test_the_files_and_the_csv_say_the_same():
    assert leaderboard.table().to_csv(index=False, lineterminator="\n") == (
        leaderboard.folder() / leaderboard.CSV
    ).read_text("utf-8")
    for path in leaderboard.folder().rglob("*.json"):
        found = json.loads(path.read_text("utf-8"))
        assert leaderboard.text(found) == path.read_text("utf-8") and path.read_text("utf-8").count("\n") < 80
        assert found["tier"] in leaderboard.TIERS and (found["tier"] == "ours") == (not found["by"])


def test_what_was_withdrawn_stays_in_sight(monkeypatch):
    page = pytest.importorskip("sphinx") and importlib.import_module("book.kit.sphinx.leaderboard")
    rows = page.calibrators()[2:]
    assert len(rows) == len(CALIBRATORS) and rows[0].startswith("| increasing map | \N{MINUS SIGN}0.0066<br>[")
    assert rows[0].endswith(" | 41 | ours |")
    wrong = [
        {**of, "withdrawn": "its file read the labels" if of["key"] == "order_preserving" else ""} for of in ENTRIES
    ]
    monkeypatch.setattr(page, "entries", lambda: wrong)
    last = page.calibrators()[-1]
    assert last.startswith("| increasing map (withdrawn: its file read the labels) | \N{MINUS SIGN}0.0066<br>[")
    assert {line.split(" | ")[0] for data in ("digits", "cifar10") for line in page.losses(data)} >= {
        "| MbLS",
        "| ACLS",
    }


@pytest.mark.slow
def test_what_cannot_be_entered(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(leaderboard, "folder", lambda: tmp_path)
    judge("identity", ["digits/small_cnn-cross_entropy-s0"], n_resamples=20, jobs=1).save(tmp_path)
    file = str(tmp_path / "judge.json")
    for wrong, want in [
        (
            [file, "--by", "me"],
            "Expected `path` to be a judgement on all stored networks, without --networks, but got ",
        ),
        ([file], "Expected `by` to be who measured it, where that is not this project, but got ''"),
        ([file, "--tier", "best"], "Expected `tier` to be "),
        ([str(tmp_path / "none.json"), "--by", "me"], ""),
    ]:
        assert main(["enter", *wrong]) == 1
        assert capsys.readouterr().err.startswith(want)
    facts = json.loads((tmp_path / "judge.json").read_text())
    for damage in (
        {"made": 3},
        {"made": {}},
        {"rows": [row | {"error": [3]} for row in facts["rows"]]},
        {"rows": [3]},
        {"rows": {"network": 3}},
        {"made": facts["made"] | {"data": 3}},
        {"made": facts["made"] | {"commit": ["a", "b"]}},
        {"key": [3]},
        {"rows": [row | {"less": {"temperature_scaling": {"nll": [[1], 2]}}} for row in facts["rows"]]},
        {"rows": [row | {"less": [3]} for row in facts["rows"]]},
    ):
        (tmp_path / "judge.json").write_text(json.dumps(facts | damage))
        assert main(["enter", file, "--by", "me"]) == 1
        assert capsys.readouterr().err.startswith(NOT_OURS)
    of_loss = judge_loss("focal", folder=tmp_path, n_resamples=20).facts()
    for damage in ({"made": of_loss["made"] | {"seeds": "3"}}, {"rows": [{"network": "a", "error": [3]}]}):
        (tmp_path / "judge.json").write_text(json.dumps(of_loss | damage))
        with pytest.raises(ValueError, match=f"^{NOT_OURS}"):
            leaderboard.enter(tmp_path / "judge.json", "ours")
    with pytest.raises(ValueError, match="^Expected `by` to be who measured it"):
        leaderboard.enter(tmp_path / "judge.json", "re-run by us", by=pd.DataFrame({"a": [1]}))
    for path, want in ((3, "text or a pathlib.Path, but got 3"), (tmp_path, "a regular file, but got ")):
        refused(f"`path` to be {want}", leaderboard.enter, path, "ours")
    assert {path.name for path in tmp_path.iterdir()} == {"judge.html", "judge.json"}
