"""What is kept of a trained network: its name, and logits that say the same in fewer bits."""

from pathlib import Path

import numpy as np
import pack_logits
import pytest
from refusals import refused

from book.kit import results
from book.kit.results import record
from calibkit import Logits, TemperatureScaling, calibrator, evaluate

ROOT = Path(__file__).resolve().parents[1]
STORED = ROOT / "book" / "results" / "logits"
NAME = "cifar10/resnet20-mbls,margin=0,weight=0.05-s0"


def test_numbers_that_need_no_more_bits_stay():
    z = np.float32([0, 1, -4095.5, 2.0**-140, np.finfo(np.float32).min])
    assert pack_logits.rounded(z).dtype == np.float32
    np.testing.assert_array_equal(pack_logits.rounded(z), z)
    z = np.array([1 + 2.0**-40])
    assert pack_logits.rounded(z) is z  # float64


def test_the_nearest_of_two_neighbours():
    z = np.random.default_rng(0).normal(0, 10, 5000).astype(np.float32)
    step = 2.0 ** (np.floor(np.log2(np.abs(z))) - pack_logits.BITS + 1)
    np.testing.assert_array_equal(pack_logits.rounded(z), (np.round(z / step) * step).astype(np.float32))
    assert (np.abs(pack_logits.rounded(z) - z) <= np.abs(z) * 2.0**-pack_logits.BITS).all()


def test_a_network_keeps_its_name_and_what_it_says(tmp_path):
    whole = Logits.load(STORED / f"{NAME}.npz")
    whole.save(tmp_path / "logits.npz")
    path = pack_logits.keep(tmp_path / "logits.npz", tmp_path / "zoo")
    assert path == tmp_path / "zoo" / f"{NAME}.npz"
    kept = Logits.load(path)
    assert kept.meta == whole.meta
    for method in (calibrator("identity"), TemperatureScaling()):
        before, after = (evaluate(method.fit(*d.val)(d.test_logits), d.test_labels) for d in (whole, kept))
        assert after["accuracy"] == before["accuracy"]
        assert after["nll"] == pytest.approx(before["nll"], abs=2e-6)
        assert after["ece"] == pytest.approx(before["ece"], abs=1.1e-4)  # one image in another bin
    again = pack_logits.keep(path, tmp_path / "again")
    np.testing.assert_array_equal(Logits.load(again).test_logits, kept.test_logits)


def test_a_packed_file_holds_the_same_and_is_shorter(tmp_path):
    z = np.float32(np.random.default_rng(0).normal(size=(2000, 10)).round(2))
    np.savez_compressed(tmp_path / "plain.npz", z=z, meta=np.array("a text"))
    (tmp_path / "packed.npz").write_bytes((tmp_path / "plain.npz").read_bytes())
    path = pack_logits.packed(tmp_path / "packed.npz")
    with np.load(path, allow_pickle=False) as found:
        assert found.files == ["z", "meta"]
        np.testing.assert_array_equal(found["z"], z)
        assert found["meta"] == "a text"
    assert path.stat().st_size < 0.95 * (tmp_path / "plain.npz").stat().st_size


def test_what_is_recorded_are_the_rounded_logits(own_results, tmp_path, monkeypatch):
    monkeypatch.setattr(record, "methods", lambda *_: ["identity"])
    z, y = np.full((40, 2), [64.0019, 0], np.float32), np.arange(40) % 4 // 3  # rounded 64, and a quarter is wrong
    facts = {"dataset": "digits", "model": "small_cnn", "loss": "brier", "seed": 3, "budget": "reduced"}
    path = Logits(z, y, z, y, facts).save(tmp_path / "logits.npz")
    pack_logits.keep_and_record([path])
    assert (own_results / "logits/digits/small_cnn-brier-s3.npz").exists()
    nll = results.load("ours").set_index("metric").loc["nll"]
    assert (nll["loss"], nll["value"]) == ("brier", 16.0)


def test_logits_of_nobody_are_refused(tmp_path):
    z, y = np.random.default_rng(0).normal(size=(9, 3)), np.arange(9) % 3
    Logits(z, y, z, y).save(tmp_path / "mine.npz")
    refused("`path` to be the logits of a training", pack_logits.keep, tmp_path / "mine.npz", tmp_path)


def test_the_networks_that_the_project_keeps_are_below_60_mebibytes():
    assert sum(path.stat().st_size for path in STORED.rglob("*.npz")) < 60 * 2**20
