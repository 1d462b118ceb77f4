"""From stored logits to rows of ours.csv; a cell from probabilities by the metrics and each training's bootstrap."""

from dataclasses import replace

import numpy as np
import pytest
from drawn_logits import true_logits
from refusals import refused
from scipy.special import softmax

from book.kit import results
from book.kit.results import load_effects, record
from book.kit.results.csv_rows import MEASURED
from calibkit import _folders
from calibkit.calibrators import TemperatureScaling
from calibkit.logits import Logits
from calibkit.metrics import REPORTED, bootstrap, ece, evaluate
from calibkit.networks import PUBLISHED


def test_recorded_rows_are_those_of_the_methods(toy):
    keys = ["identity", "temperature_scaling", "class_temperature_scaling max_sweeps=1"]
    assert record.record(str(toy), keys) == len(keys) * len(REPORTED)
    frame = results.load("ours")
    assert set(frame["method"]) == set(keys) and set(frame["source"]) == {"ours"}
    nll = frame[frame["metric"] == "nll"].set_index("method")
    assert nll.loc["temperature_scaling", "value"] < nll.loc["identity", "value"]
    logits = Logits.load(toy)
    temperature = TemperatureScaling().fit(*logits.val).temperature
    assert temperature == pytest.approx(2, rel=0.2)
    assert nll.loc["temperature_scaling", "note"].startswith(f"T = {temperature:.4f}; val ECE ")
    assert record.record(str(toy), keys) == 0  # already there
    assert record.record(str(toy), keys[:1], again=True) == 0  # measured again, and the same


def test_whose_recipe_it_was_goes_with_the_numbers(toy):
    logits = Logits.load(toy)
    path = replace(logits, meta=logits.meta | {"budget": "paper", "paper": "mbls"}).save(toy)
    assert record.record(str(path), ["identity", "temperature_scaling"]) == 2 * len(REPORTED)
    assert set(results.load("ours")["paper"]) == {"mbls"}
    assert record.record(str(path), ["identity", "temperature_scaling"]) == 0
    silent = replace(logits, meta=logits.meta | {"budget": "paper", "dataset": "cifar100_lt"})
    assert record.cell("", silent)["paper"] == "class_loss_scaling"  # the only one with a recipe
    assert record.cell("", logits)["paper"] == ""


def test_an_infinite_nll_is_left_out(toy, monkeypatch):
    """A calibrator that gives a true class the probability 0 has no finite NLL; its other numbers are recorded."""
    record.record(str(toy), ["identity"])
    monkeypatch.setattr(record, "calibrator", lambda key: Sure())
    monkeypatch.setattr(record, "_fitted", lambda fitted, logits: "")
    record.record(str(toy), ["identity"], again=True)  # the NLL of before is another calibrator's
    assert set(results.load("ours")["metric"]) == {*REPORTED} - {"nll"}


def test_of_dense_prediction_the_network_is_recorded_on_all_pixels(toy):
    logits = Logits.load(toy)
    images = np.repeat(np.arange(50), 10)
    whole = {"accuracy": 0.6, "miou": 0.3, "ece": 0.02}
    facts = whole | {"pixels": 9000, "ece_by_batch": 0.04}
    meta = {**logits.meta, "test_pixels": facts}
    path = Logits(*logits.val, *logits.test, meta, images).save(toy.with_name("dense.npz"))
    record.record(str(path), ["identity", "temperature_scaling"])
    frame = results.load("ours").set_index(["method", "metric"])
    assert len(frame) == 2 * len(REPORTED) + 1  # the mIoU
    z, y = logits.test
    sample = bootstrap(softmax(z, 1), y, ["accuracy", "ece"], groups=images)
    widths = {metric: high - low for metric, (low, high) in sample.items()}
    miou = []  # by hand, of images drawn anew
    rng = np.random.default_rng(1)
    for chosen in [np.arange(50), *rng.integers(0, 50, (500, 50))]:
        true, said = (x.reshape(50, 10)[chosen].ravel() for x in (y, z.argmax(1)))
        miou.append(np.mean([((true == k) & (said == k)).sum() / ((true == k) | (said == k)).sum() for k in range(4)]))
    for name, value in whole.items():
        row = frame.loc["identity", name]
        assert row["value"] == value
        width = widths.get(name, np.diff(np.percentile(miou[1:], [2.5, 97.5]))[0])
        assert row["high"] - row["low"] == pytest.approx(width, rel=0.1 if name == "miou" else 1e-4)
        assert row["low"] < value < row["high"]
        assert row["note"] == "9000 pixels; mean of the ECE of batches 0.0400"
        assert (row["unit"], row["n_bins"], row["n_seeds"]) == ("fraction", "15" if name == "ece" else "", 1)
    assert ("temperature_scaling", "miou") not in frame.index
    assert frame.loc[("temperature_scaling", "ece"), "note"].endswith("; of a sample of pixels")
    assert frame.loc[("identity", "nll"), "note"].endswith("; of a sample of pixels")
    assert (frame.loc[("identity", "nll"), "unit"], frame.loc[("identity", "nll"), "n_bins"]) == ("nats", "")


def test_a_difference_to_another_loss_is_none_to_another_method(toy):
    """Rows that hold the loss against another do not stand for those that hold its calibrators against each other."""
    record.record(str(toy), ["identity", "temperature_scaling"])
    rows = load_effects()
    other = rows.assign(base_loss="mbls").drop(columns="fit_error")
    (toy.parent / "results" / "effects.csv").write_text(other.to_csv(index=False))
    record.record(str(toy), ["temperature_scaling"])
    assert set(load_effects()["base_loss"]) == {"mbls", "cross_entropy"}


@pytest.mark.slow
def test_by_default_every_method_of_the_loss(toy, monkeypatch):
    monkeypatch.setattr(record, "methods", lambda loss, dataset: {"cross_entropy": ["identity", "ets"]}[loss])
    monkeypatch.setattr(record, "replays", lambda name: ["temperature_scaling solver=sctl"])
    record.record(str(toy))
    assert set(results.load("ours")["method"]) == {"identity", "ets"}
    logits = Logits.load(toy)
    path = Logits(*logits.val, *logits.test).save(toy.with_name("published.npz"))
    monkeypatch.setattr(record, "trainings", lambda name: [Logits.load(path)])
    record.record("sctl-cifar10lt-resnet110")
    frame = results.load("ours").query("source == 'published-logits'")
    assert set(frame["method"]) == {"identity", "ets", "temperature_scaling solver=sctl"}
    for column, value in {"dataset": "cifar10_lt", "model": "resnet110", "budget": "paper"}.items():
        assert set(frame[column]) == {value}


def test_a_note_names_a_single_temperature_and_no_other(toy):
    logits = Logits.load(toy)
    for key in ("ets", "class_temperature_scaling:nll", "pts", "identity"):
        note = record._fitted(record.calibrator(key).fit(*logits.val), logits)
        assert note.startswith("T = ") == (key == "ets") and "val ECE " in note


def test_names_of_published_logits_say_their_cell():
    for name in PUBLISHED:
        facts = record.cell(name, None)
        assert (facts["budget"], facts["source"]) == ("paper", "published-logits")
        assert (facts["dataset"], facts["model"], facts["loss"]) == PUBLISHED[name]


def test_samples_that_go_together_are_resampled_together(toy):
    """A file with every test sample twice, a pair a group, tells as much."""
    logits = Logits.load(toy)
    z, y, numbers = np.tile(logits.test_logits, (2, 1)), np.tile(logits.test_labels, 2), np.tile(np.arange(500), 2)
    twice = Logits(*logits.val, z, y, logits.meta, numbers).save(toy.with_name("twice.npz"))
    intervals = []
    for path in (toy, twice):
        record.record(str(path), ["temperature_scaling"])
        intervals.append(results.load("ours").set_index("metric").loc[["accuracy", "nll", "ece"], ["low", "high"]])
        (_folders.stored() / "ours.csv").unlink()
    np.testing.assert_allclose(*intervals, atol=1e-9)


class Sure:
    """Probability 1 for the largest logit."""

    def fit(self, logits, labels):
        return lambda z: (z == z.amax(1, keepdim=True)).double()


def test_methods_start_with_none_and_need_only_logits():
    keys = record.methods()
    assert keys[0] == "identity" and "class_temperature_scaling" in keys
    assert not any(key.startswith("neural_clamping") for key in keys)
    assert "class_temperature_scaling:class_balanced" in keys and len(keys) == len(set(keys))
    assert record.methods("flsd") == ["identity", "temperature_scaling", "temperature_scaling:ece"]  # ACLS, Table 3


def test_replays_are_all_that_the_class_loss_paper_logs():
    """Four calibrators, six losses with the three normalisations: 24 keys with the authors' optimiser."""
    keys = [key for key in record.replays("sctl-cifar10-densenet40") if "solver=sctl" in key]
    assert len(keys) == len(set(keys)) == 24
    assert {"class_temperature_scaling solver=sctl:class_loss_scaling normalization=mm", "pts solver=sctl"} <= set(keys)
    for key in keys:
        record.calibrator(key)


def test_a_file_without_facts_is_not_recorded(tmp_path):
    z, y = np.eye(3), np.arange(3)
    path = Logits(z, y, z, y).save(tmp_path / "x.npz")
    refused("`logits` to be a file whose meta names dataset, model, loss, budget", record.record, str(path))


CELL = {"dataset": "cifar10", "model": "densenet40", "loss": "cross_entropy", "method": "identity"}
CELL |= {"budget": "reduced", "source": "ours"}


@pytest.fixture(scope="module")
def runs():
    """Three trainings, that differ in how sure they are and not evenly."""
    z, y = true_logits(300, 3, 1.0)
    return [(np.exp(t * z) / np.exp(t * z).sum(1, keepdims=True), y) for t in (1.0, 2.0, 5.0)]


def by_metric(rows):
    return {row["metric"]: row for row in rows}


def test_a_row_is_the_mean_over_trainings(runs):
    found = by_metric(results.measure(runs, metrics=["ece", "nll"], **CELL))
    for name in ("ece", "nll"):
        values = [evaluate(*run, [name])[name] for run in runs]
        ends = [bootstrap(*run, [name])[name] for run in runs]
        row = found[name]
        assert row["value"] == pytest.approx(sum(values) / 3)
        assert row["std"] == pytest.approx(np.sqrt(sum((v - sum(values) / 3) ** 2 for v in values) / 2))
        assert (row["low"], row["high"]) == pytest.approx([sum(column) / 3 for column in zip(*ends, strict=True)])
        assert row["n_seeds"] == 3
    row = by_metric(results.measure(runs[:1], metrics=["ece"], **CELL))["ece"]
    assert (row["value"], row["std"], row["n_seeds"]) == (ece(*runs[0]), None, 1)
    refused("`runs`", results.measure, [], **CELL)


def test_units_and_bins(runs, own_results):
    rows = results.measure(runs, note="as it is", **CELL)
    assert [row["metric"] for row in rows] == list(MEASURED)
    assert results.append(rows) == len(rows)
    frame = results.load("ours").set_index("metric")
    binned = {"ece", "adaptive_ece", "classwise_ece"}
    assert dict(frame["n_bins"]) == {name: "15" if name in binned else "" for name in MEASURED}
    assert dict(frame["unit"]) == {name: "nats" if name in ("nll", "entropy") else "fraction" for name in MEASURED}
    assert set(frame["note"]) == {"as it is"} and set(frame["n_seeds"]) == {3}
    for column, value in CELL.items():
        assert set(frame[column]) == {value}


def test_bins_are_used(runs):
    p, y = runs[1]
    row = by_metric(results.measure([(p, y)], metrics=["ece"], n_bins=5, **CELL))["ece"]
    assert row["n_bins"] == 5 and row["value"] == ece(p, y, n_bins=5) != ece(p, y)
    assert (row["low"], row["high"]) == bootstrap(p, y, ["ece"], n_bins=5)["ece"]
