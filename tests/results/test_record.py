"""From stored logits to rows of ours.csv."""

import shutil

import numpy as np
import pytest
from scipy.special import softmax

from calibkit import _folders, results
from calibkit.calibrators import TemperatureScaling
from calibkit.logits import Logits
from calibkit.metrics import REPORTED, nll
from calibkit.results import record


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A small Logits file whose best temperature is 2, and a results folder of its own."""
    (tmp_path / "results").mkdir()
    shutil.copy(_folders.stored() / "paper.csv", tmp_path / "results")
    monkeypatch.setattr(_folders, "stored", lambda: tmp_path / "results")
    rng = np.random.default_rng(0)
    z = rng.normal(size=(900, 4)) * 2
    y = (z + rng.gumbel(size=z.shape)).argmax(1)
    facts = {"dataset": "cifar10", "model": "resnet20", "loss": "cross_entropy", "budget": "reduced"}
    return Logits(2 * z[:400], y[:400], 2 * z[400:], y[400:], facts).save(tmp_path / "toy.npz")


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


def test_an_infinite_nll_is_left_out(toy, monkeypatch):
    """A calibrator that gives a true class the probability 0 has no finite NLL; its other numbers are recorded."""
    monkeypatch.setattr(record, "calibrator", lambda key: Sure())
    monkeypatch.setattr(record, "_fitted", lambda fitted, logits: "")
    assert record.record(str(toy), ["identity"]) == len(REPORTED) - 1
    assert "nll" not in set(results.load("ours")["metric"])


def test_of_dense_prediction_the_network_is_recorded_on_all_pixels(toy):
    logits = Logits.load(toy)
    ends = {"accuracy": [0.5, 0.7], "miou": [0.2, 0.4], "ece": [0.01, 0.03]}
    facts = {"pixels": 9000, "accuracy": 0.6, "miou": 0.3, "ece": 0.02, "ece_by_batch": 0.04, "intervals": ends}
    path = Logits(*logits.val, *logits.test, {**logits.meta, "test_pixels": facts}).save(toy.with_name("dense.npz"))
    record.record(str(path), ["identity", "temperature_scaling"])
    frame = results.load("ours").set_index(["method", "metric"])
    for name, (low, high) in ends.items():
        row = frame.loc["identity", name]
        assert [row["value"], row["low"], row["high"]] == [facts[name], low, high]
        assert row["note"] == "9000 pixels, interval over images; mean of the ECE of batches 0.0400"
    assert ("temperature_scaling", "miou") not in frame.index
    assert frame.loc[("temperature_scaling", "ece"), "note"].endswith("; of a sample of pixels")
    assert frame.loc[("identity", "nll"), "note"].endswith("; of a sample of pixels")
    assert frame.loc[("identity", "ece"), "n_bins"] == "15"


def twice(path):
    """A file with every test sample of another one twice, a pair a group: it tells as much."""
    logits = Logits.load(path)
    z, y, numbers = np.tile(logits.test_logits, (2, 1)), np.tile(logits.test_labels, 2), np.tile(np.arange(500), 2)
    return Logits(*logits.val, z, y, logits.meta, numbers).save(path.with_name("twice.npz"))


def test_samples_that_go_together_are_resampled_together(toy):
    intervals = []
    for path in (toy, twice(toy)):
        record.record(str(path), ["temperature_scaling"])
        intervals.append(results.load("ours").set_index("metric").loc[["accuracy", "nll", "ece"], ["low", "high"]])
        (_folders.stored() / "ours.csv").unlink()
    np.testing.assert_allclose(*intervals, atol=1e-9)


def test_seeds_must_have_the_same_groups(toy, tmp_path):
    logits = Logits.load(toy)
    folder = tmp_path / "cifar10"
    logits.save(folder / "resnet20-cross_entropy-s1.npz")
    first = Logits(*logits.val, *logits.test, logits.meta, np.arange(500)).save(
        folder / "resnet20-cross_entropy-s0.npz"
    )
    with pytest.raises(ValueError, match="Expected `logits` to be of the same `test_groups` for every seed"):
        record.record(str(first), ["identity"])


class Sure:
    """Probability 1 for the largest logit."""

    def fit(self, logits, labels):
        return lambda z: (z == z.amax(1, keepdim=True)).double()


def test_methods_start_with_none_and_need_only_logits():
    keys = record.methods()
    assert keys[0] == "identity" and "class_temperature_scaling" in keys
    assert not any(key.startswith("neural_clamping") for key in keys)
    assert "class_temperature_scaling:class_balanced" in keys and len(keys) == len(set(keys))


def test_replays_are_all_that_the_class_loss_paper_logs():
    """Four calibrators, six losses with the three normalisations: 24 keys with the authors' optimiser."""
    keys = [key for key in record.replays() if "solver=sctl" in key]
    assert len(keys) == len(set(keys)) == 24
    assert {"class_temperature_scaling solver=sctl:class_loss_scaling normalization=mm", "pts solver=sctl"} <= set(keys)
    for key in keys:
        record.calibrator(key)


def test_seeds_of_one_training_are_one_row(toy, tmp_path):
    """Their mean and standard deviation, whichever is recorded first; beside files and beside folders."""
    logits = Logits.load(toy)
    other = Logits(*logits.val, 0.5 * logits.test_logits, logits.test_labels, logits.meta)
    for name in ("a/cifar10/resnet20-cross_entropy-s{}.npz", "b/cifar10/resnet20-cross_entropy-s{}/logits.npz"):
        first, second = (tmp_path / name.format(seed) for seed in (0, 11))
        logits.save(first)
        record.record(str(first), ["identity"], again=True)
        assert set(results.load("ours")["n_seeds"]) == {1}
        other.save(second)
        logits.save(tmp_path / name.format("0-other"))  # not a seed
        assert record.record(str(second), ["identity"]) > 0
        row = results.load("ours").query("metric == 'nll'").squeeze()
        values = [nll(softmax(x.test_logits, axis=1), x.test_labels) for x in (logits, other)]
        assert row["n_seeds"] == 2
        assert (row["value"], row["std"]) == pytest.approx((np.mean(values), np.std(values, ddof=1)), rel=1e-5)


def test_a_file_without_facts_is_not_recorded(tmp_path):
    z, y = np.eye(3), np.arange(3)
    path = Logits(z, y, z, y).save(tmp_path / "x.npz")
    with pytest.raises(
        ValueError, match="Expected `logits` to be a file whose meta names dataset, model, loss, budget"
    ):
        record.record(str(path))
