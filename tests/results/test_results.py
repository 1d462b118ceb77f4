"""The result files keep their schema, rows are appended whole, and verdicts follow the rule of the protocol page."""

import re
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from calibkit import _folders, results
from calibkit.__main__ import main
from calibkit.calibrators import CALIBRATORS
from calibkit.keys import Key
from calibkit.losses import LOSSES
from calibkit.metrics import METRICS, ece
from calibkit.objectives import OBJECTIVES
from calibkit.results import append, compare, load, measure, summary, table
from calibkit.results.rows import PAPERS

#: Training methods that a paper prints beside its own and that are not losses of this package.
ELSEWHERE = {"cutmix", "cape_bin", "mc_dropout", "patra"}

CTS = "class_temperature_scaling"
CELL = {"dataset": "cifar10", "model": "densenet40", "loss": "cross_entropy"}
RUN = CELL | {"unit": "fraction", "n_seeds": 1, "n_bins": 15, "metric": "ece"}
AUTHOR = RUN | {"budget": "paper", "source": "author-logits"}


def rows(*pairs, **columns) -> list[dict]:
    """One row a (method, value), with an interval of +- 0.004."""
    return [AUTHOR | {"method": m, "value": v, "low": v - 0.004, "high": v + 0.004} | columns for m, v in pairs]


def ours(folder, *batches) -> pd.DataFrame:
    for batch in batches:
        append(batch, folder)
    return load("ours", folder)


def verdict(frame, method, table="1", **options) -> str:
    """Of the ECE of DenseNet-40 on CIFAR-10 in the class-wise loss scaling paper: printed 5.50, TS 0.96, TS+LS 0.44."""
    compared = compare("class_loss_scaling", table, ours=frame, **options)
    mask = (compared[["dataset", "model", "method", "metric"]] == ["cifar10", "densenet40", method, "ece"]).all(axis=1)
    (found,) = compared[mask]["verdict"]
    return found


# ------------------------------------------------------------------------------------------------- the two files
@pytest.mark.parametrize("which", ["paper", "ours"])
def test_file_keeps_its_schema(which):
    frame = load(which)  # raises on a wrong column, number, unit, source, or a key that stands twice
    assert (frame["metric"].isin({*METRICS, "accuracy_drop", "ece_change", "miou"})).all()
    for key in frame["method"].unique():
        parsed = Key.parse(key)
        assert parsed.name in CALIBRATORS, key
        assert parsed.objective is None or parsed.objective.name in OBJECTIVES, key
    for key in frame["loss"].unique():
        assert Key.parse(key).name in {*LOSSES, *ELSEWHERE}, key


def test_every_printed_number_is_there():
    """1,835 numbers; eight accuracies are printed twice in one table of the ACLS supplement."""
    printed = load("paper").query("source == 'printed'")
    twice = printed["note"].str.contains("printed twice").sum()
    counts = Counter(printed["paper"])
    assert [counts[paper] for paper in PAPERS] == [290, 234, 788, 211, 312 - 8]
    assert len(printed) + twice == 1835


def test_printed_numbers_keep_their_text():
    printed = load("paper")
    assert printed["printed"].str.fullmatch(r"-?\d+(\.\d+)?").all()
    row = printed.query("paper == 'mbls' and table == '1' and model == 'resnet50' and dataset == 'tiny_imagenet'")
    assert row.query("loss == 'ecp' and metric == 'ece'")["printed"].item() == "4.00"


@pytest.mark.parametrize(
    ("where", "printed"),
    [
        # numbers read in the papers: CTS Table I, SCTL Table 1, Neural Clamping Table 1, ACLS Table 3, MbLS Table 1
        (
            (
                "class_temperature_scaling",
                "I",
                "cifar100",
                "resnet110",
                "cross_entropy",
                "class_temperature_scaling",
                "ece",
            ),
            "1.74",
        ),
        (("class_loss_scaling", "1", "cifar10", "densenet40", "cross_entropy", "temperature_scaling", "ece"), "0.96"),
        (
            (
                "class_loss_scaling",
                "1",
                "cifar10",
                "densenet40",
                "cross_entropy",
                "class_temperature_scaling:nll",
                "ece",
            ),
            "1.01",
        ),
        (("neural_clamping", "1", "cifar100", "resnet110", "cross_entropy", "neural_clamping", "ece"), "0.0085"),
        (("acls", "3", "tiny_imagenet", "resnet101", "cross_entropy", "identity", "adaptive_ece"), "4.97"),
        (("mbls", "1", "tiny_imagenet", "resnet50", "mbls", "identity", "ece"), "1.64"),
    ],
)
def test_printed_cells(where, printed):
    frame = load("paper").query("source == 'printed'")
    columns = ["paper", "table", "dataset", "model", "loss", "method", "metric"]
    assert frame[(frame[columns] == list(where)).all(axis=1)]["printed"].item() == printed


# ----------------------------------------------------------------------------------------------------- appending
def test_append_adds_replaces_and_sorts(tmp_path):
    assert append(rows(("identity", 0.05), (CTS, 0.01)), tmp_path) == 2
    assert append(rows((CTS, 0.01)), tmp_path) == 0
    assert append(rows((CTS, 0.02)), tmp_path) == 1
    frame = load("ours", tmp_path)
    assert list(zip(frame["method"], frame["value"], strict=True)) == [
        (CTS, 0.02),
        ("identity", 0.05),
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["ours.csv"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"value": float("nan")}, "Expected `value` to be a finite number"),
        ({"value": "high"}, "Expected `value` to be a number or empty, but got 'high'"),
        ({"low": 0.9}, "Expected `low` to be at most `high`"),
        ({"low": None}, "Expected `low` to be a finite number"),
        ({"budget": "smoke"}, "Expected `budget` to be one of reduced, paper, but got 'smoke'"),
        ({"source": "printed"}, "Expected `source` to be one of author-logits, ours"),
        ({"unit": "percent"}, "Expected `unit` to be one of fraction, nats"),
        ({"paper": "guo"}, "Expected `paper` to be one of"),
        ({"n_seeds": 0}, "Expected `n_seeds` to be an integer > 0"),
        ({"method": "CTS (ours)"}, "Expected `key` to be"),
        ({"epochs": 3}, "Expected `columns` to be"),
    ],
)
def test_bad_row_changes_nothing(tmp_path, change, message):
    append(rows(("identity", 0.05)), tmp_path)
    before = (tmp_path / "ours.csv").read_bytes()
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        append(rows((CTS, 0.01), **change), tmp_path)
    assert (tmp_path / "ours.csv").read_bytes() == before


def test_key_stands_once_in_a_batch(tmp_path):
    with pytest.raises(ValueError, match="Expected `rows` to be of different keys"):
        append(rows((CTS, 0.01), (CTS, 0.02)), tmp_path)


def _append_one(args) -> int:
    folder, i = args
    return append(rows((f"m{i}", 0.01)), Path(folder))


def test_concurrent_appends_lose_nothing(tmp_path):
    with ProcessPoolExecutor(2) as pool:
        assert sum(pool.map(_append_one, [(str(tmp_path), i) for i in range(12)])) == 12
    assert len(load("ours", tmp_path)) == 12


def test_command_line_appends_files(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(_folders, "stored", lambda: tmp_path / "book")
    append(rows((CTS, 0.01)), tmp_path)
    assert main(["append", str(tmp_path / "ours.csv")]) == 0
    assert capsys.readouterr().out.endswith("ours.csv: 1 of 1 rows are new\n")
    assert len(load("ours")) == 1


def test_measure_two_seeds(overconfident, tmp_path):
    logits, labels = overconfident
    runs = [(logits[:2000].softmax(1), labels[:2000]), (logits[2000:].softmax(1), labels[2000:])]
    found = measure(runs, method="identity", budget="reduced", source="ours", **CELL)
    assert append(found, tmp_path) == len(found) == 7
    frame = load("ours", tmp_path).set_index("metric")
    values = [ece(*run) for run in runs]
    assert frame.loc["ece", "value"] == pytest.approx(np.mean(values), rel=1e-5)
    assert frame.loc["ece", "std"] == pytest.approx(np.std(values, ddof=1), rel=1e-5)
    assert frame.loc["ece", "n_bins"] == "15" and frame.loc["nll", "n_bins"] == ""
    assert frame.loc["nll", "unit"] == "nats" and frame.loc["ece", "unit"] == "fraction"
    with pytest.raises(ValueError, match="Expected `runs` to be at least one"):
        measure([], method="identity", budget="reduced", source="ours", **CELL)


# ------------------------------------------------------------------------------------------------------ verdicts
def test_nothing_measured_is_not_run(tmp_path):
    compared = compare("mbls", ours=load("ours", tmp_path))
    assert set(compared["verdict"]) == {"not run"} and compared["ours"].isna().all()


def test_author_logits_are_held_to_five_hundredths_of_a_point(tmp_path):
    frame = ours(tmp_path, rows(("identity", 0.0550), ("temperature_scaling", 0.00946)))
    assert verdict(frame, "identity") == "reproduced"
    assert verdict(frame, "temperature_scaling") == "reproduced"
    frame = ours(tmp_path, rows(("identity", 0.0556), ("temperature_scaling", 0.0085)))
    assert verdict(frame, "identity") == "not reproduced"  # 5.56 for 5.50
    assert verdict(frame, "temperature_scaling") == "partly"  # 0.85 for 0.96, but the fall is there


def test_effect_in_the_other_direction_is_not_reproduced(tmp_path):
    frame = ours(tmp_path, rows(("identity", 0.0550), ("temperature_scaling:label_smoothing", 0.0873)))
    assert verdict(frame, "temperature_scaling:label_smoothing") == "not reproduced"


@pytest.mark.parametrize(
    ("base", "value", "width", "expected"),
    [
        (0.0550, 0.0096, 0.004, "reproduced"),
        (0.0590, 0.0140, 0.004, "reproduced"),  # 0.44 points off, sqrt(2) * 0.4 allowed
        (0.0900, 0.0400, 0.004, "partly"),  # another level, the same fall
        (0.0550, 0.0540, 0.004, "not reproduced"),  # no fall beyond chance
        (0.0090, 0.0092, 0.004, "partly"),  # the level, but nothing to fall from
    ],
)
def test_own_training_at_the_papers_budget(tmp_path, base, value, width, expected):
    pairs = [("identity", base), ("temperature_scaling", value)]
    found = rows(*pairs, source="ours")
    for row in found:
        row |= {"low": row["value"] - width, "high": row["value"] + width}
    assert verdict(ours(tmp_path, found), "temperature_scaling") == expected


def test_seeds_widen_the_interval(tmp_path):
    frame = ours(tmp_path, rows(("identity", 0.0650), source="ours"))
    assert verdict(frame, "identity") == "not reproduced"
    frame = ours(tmp_path, rows(("identity", 0.0650), source="ours", std=0.004, n_seeds=3))
    assert verdict(frame, "identity") == "reproduced"


def test_reduced_budget_is_at_most_partly_and_its_baseline_says_nothing(tmp_path):
    pairs = [("identity", 0.0550), ("temperature_scaling", 0.0096), ("temperature_scaling:label_smoothing", 0.09)]
    frame = ours(tmp_path, rows(*pairs, source="ours", budget="reduced"))
    assert [verdict(frame, m) for m, _ in pairs] == ["not run", "partly", "not reproduced"]


def test_strongest_evidence_is_taken(tmp_path):
    frame = ours(
        tmp_path,
        rows(("identity", 0.09), source="ours", budget="reduced"),
        rows(("identity", 0.08), source="ours"),
        rows(("identity", 0.055)),
    )
    compared = compare("class_loss_scaling", "1", ours=frame).query("verdict != 'not run'")
    assert compared["source"].item() == "author-logits" and compared["ours"].item() == pytest.approx(5.5)
    followed = rows(("identity", 0.07), source="ours", paper="class_loss_scaling")
    compared = compare("class_loss_scaling", "1", ours=ours(tmp_path, followed)).query("verdict != 'not run'")
    assert compared["ours"].item() == pytest.approx(7.0)
    other = rows(("identity", 0.07), source="ours", paper="mbls")
    assert set(compare("class_loss_scaling", "1", ours=ours(tmp_path / "x", other))["verdict"]) == {"not run"}


def test_stand_in_is_at_most_partly(tmp_path):
    pairs = [("identity", 0.0550), ("temperature_scaling", 0.0096)]
    frame = ours(tmp_path, rows(*pairs, source="ours", model="resnet20"))
    assert verdict(frame, "temperature_scaling") == "not run"
    assert verdict(frame, "temperature_scaling", stand_in={"densenet40": "resnet20"}) == "partly"
    assert verdict(frame, "identity", stand_in={"densenet40": "resnet20"}) == "not run"
    elsewhere = ours(tmp_path / "x", rows(*pairs, source="ours", model="resnet20", dataset="cifar100"))
    assert verdict(elsewhere, "temperature_scaling", stand_in={"densenet40": "resnet20"}) == "not run"
    assert verdict(elsewhere, "temperature_scaling", stand_in={"densenet40": "cifar100/resnet20"}) == "partly"
    of_data = {"densenet40": "resnet20", "cifar10/densenet40": "cifar100/resnet20"}
    assert verdict(elsewhere, "temperature_scaling", stand_in=of_data) == "partly"


def test_unit_is_the_printed_one(tmp_path):
    where = {"dataset": "cifar100", "model": "resnet110"}
    frame = ours(tmp_path, rows(("identity", 0.1074), source="ours", **where))
    compared = compare("neural_clamping", "3", ours=frame).query("verdict != 'not run'")
    assert compared["unit"].item() == "fraction" and compared["ours"].item() == pytest.approx(0.1074)


def test_train_time_baseline_is_cross_entropy(tmp_path):
    """MbLS Table 1, Tiny-ImageNet, ResNet-50: ECE 3.73 with cross-entropy, 1.64 with MbLS."""
    where = {"dataset": "tiny_imagenet", "model": "resnet50", "source": "ours"}
    frame = ours(tmp_path, rows(("identity", 0.06), **where), rows(("identity", 0.039), loss="mbls", **where))
    compared = compare("mbls", "1", ours=frame).query("verdict != 'not run'").set_index("loss")
    assert compared.loc["mbls", "verdict"] == "partly"
    assert compared.loc["cross_entropy", "verdict"] == "not reproduced"


def test_bad_names_are_refused():
    with pytest.raises(ValueError, match="Expected `paper` to be one of neural_clamping, "):
        compare("guo")
    with pytest.raises(ValueError, match="Expected `table` to be one of I, II, III, but got '1'"):
        compare("class_temperature_scaling", "1")
    with pytest.raises(ValueError, match="Expected `which` to be one of paper, ours"):
        load("theirs")


def test_summary_counts_every_number():
    counts = summary()
    assert counts["printed"].sum() == 1827
    assert (counts[list(results.VERDICTS)].sum(axis=1) == counts["printed"]).all()
    assert list(dict.fromkeys(paper for paper, _ in counts.index)) == list(PAPERS)


# -------------------------------------------------------------------------------------------------------- tables
def test_table_long_and_wide(tmp_path):
    frame = ours(tmp_path, rows(("identity", 0.0550), ("temperature_scaling", 0.0085)))
    compared = compare("class_loss_scaling", "1", ours=frame)
    compared = compared.query("metric == 'ece' and method in ['identity', 'temperature_scaling', 'ets']")
    long = table(compared)
    assert long.index.names == ["dataset", "model", "method"]
    assert list(long.loc[("cifar10", "densenet40", "temperature_scaling")]) == ["0.96", "0.85 [0.45, 1.25]", "partly"]
    wide = table(compared, "method")
    cells = ["5.50 / 5.50\N{NO-BREAK SPACE}=", "0.96 / 0.85\N{NO-BREAK SPACE}~", "0.97"]
    assert list(wide.loc[("cifar10", "densenet40")]) == cells
    assert wide.equals(table(compared, "method")) and "object at 0x" not in wide.to_html()
    with pytest.raises(ValueError, match=re.escape("Expected `compared` to be rows of compare(), but got none")):
        table(compared.iloc[:0])
    with pytest.raises(ValueError, match="Expected `wide` to be one of"):
        table(compared, "networks")
