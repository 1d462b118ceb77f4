"""A network that was trained from several seeds is one row: their mean, each fitted and measured on its own logits."""

import numpy as np
import pytest
from scipy.special import softmax

from book.kit import results
from book.kit.results import record
from calibkit.calibrators import TemperatureScaling
from calibkit.logits import Logits
from calibkit.metrics import METRICS, nll

TS = "temperature_scaling"
LAYOUTS = ("cifar10/resnet20-cross_entropy-s{}.npz", "cifar10/resnet20-cross_entropy-s{}/logits.npz")


@pytest.fixture
def logits(toy):
    return Logits.load(toy)


def scaled(logits, val=1.0, test=1.0, **meta):
    """Logits of another training: ``val`` and ``test`` times as sure."""
    arrays = (val * logits.val_logits, logits.val_labels, test * logits.test_logits, logits.test_labels)
    return Logits(*arrays, logits.meta | meta)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_row_is_their_mean(logits, tmp_path, layout):
    first, second = (tmp_path / layout.format(seed) for seed in (0, 11))
    other = scaled(logits, test=0.5)
    logits.save(first)
    record.record(str(first), ["identity"])
    assert set(results.load("ours")["n_seeds"]) == {1}
    other.save(second)
    logits.save(tmp_path / layout.format("0-other"))  # not a seed
    assert record.record(str(second), ["identity"]) > 0
    row = results.load("ours").query("metric == 'nll'").squeeze()
    values = [nll(softmax(x.test_logits, axis=1), x.test_labels) for x in (logits, other)]
    assert row["n_seeds"] == 2
    assert (row["value"], row["std"]) == pytest.approx((np.mean(values), np.std(values, ddof=1)), rel=1e-5)
    assert record.record(str(first), ["identity"]) == 0  # done, whichever is asked


def test_they_come_in_order_whichever_is_asked(logits, tmp_path):
    for seed in (10, 2, 0):
        scaled(logits, seed=seed).save(tmp_path / LAYOUTS[1].format(seed))
    for seed in (10, 2, 0):
        assert [x.meta["seed"] for x in record.trainings(str(tmp_path / LAYOUTS[1].format(seed)))] == [0, 2, 10]


def test_each_is_fitted_on_its_own_held_out_images(logits, tmp_path):
    """The second is three times as sure everywhere: temperature scaling undoes that, if it sees it. The note is of the
    lowest seed, so that the same rows come out in whatever order the jobs end.
    """
    paths = [tmp_path / LAYOUTS[0].format(seed) for seed in (0, 1)]
    for path, times in zip(paths, (1.0, 3.0), strict=True):
        scaled(logits, times, times).save(path)
    fitted = TemperatureScaling().fit(*logits.val)
    for path in reversed(paths):
        record.record(str(path), [TS], again=True)
        assert results.load("ours")["note"].str.startswith(f"T = {fitted.temperature:.4f}; ").all()
    row = results.load("ours").query("metric == 'nll'").squeeze()
    assert row["value"] == pytest.approx(nll(fitted(logits.test_logits), logits.test_labels), rel=1e-5)
    assert row["std"] < 1e-5


@pytest.mark.parametrize("layout", LAYOUTS)
def test_other_trainings_are_not_averaged_in(logits, tmp_path, layout):
    path = tmp_path / layout.format(0)
    logits.save(path)
    scaled(logits, budget="paper").save(tmp_path / layout.format(1))
    for name in ("resnet20-focal-s1", "resnet110-cross_entropy-s1", "resnet20-mbls,margin=0-s1", "notes"):
        logits.save(tmp_path / layout.replace("resnet20-cross_entropy-s{}", name))
    logits.save(tmp_path / layout.replace("cifar10/", "cifar100/").format(1))
    (tmp_path / "cifar10" / "resnet20-cross_entropy-s7").mkdir()  # a training that has not ended
    assert len(record.trainings(str(path))) == 1
    scaled(logits).save(tmp_path / layout.format(2))
    assert len(record.trainings(str(path))) == 2
    for name in ("toy.npz", "toy2.npz"):  # files of any other name are alone
        logits.save(tmp_path / name)
    assert len(record.trainings(str(tmp_path / "toy.npz"))) == 1


def test_a_job_that_saw_fewer_undoes_nothing(logits, tmp_path):
    logits.save(tmp_path / "early" / LAYOUTS[0].format(0))
    for seed in (0, 1):
        scaled(logits, test=1 + seed).save(tmp_path / "late" / LAYOUTS[0].format(seed))
    record.record(str(tmp_path / "late" / LAYOUTS[0].format(1)), ["identity"])
    before = results.load("ours")
    assert record.record(str(tmp_path / "early" / LAYOUTS[0].format(0)), ["identity"], again=True) == 0
    assert results.load("ours").equals(before) and set(before["n_seeds"]) == {2}


def test_a_number_that_is_infinite_now_does_not_stay_at_the_old_seeds(logits, tmp_path):
    paths = [tmp_path / LAYOUTS[0].format(seed) for seed in (0, 1)]
    logits.save(paths[0])
    record.record(str(paths[0]), ["identity"])
    scaled(logits, test=1e5).save(paths[1])  # float64 softmax gives wrong classes exactly 0
    record.record(str(paths[1]), ["identity"])
    frame = results.load("ours")
    assert "nll" not in set(frame["metric"]) and set(frame["n_seeds"]) == {2}
    assert len(frame) > 5 and set(frame["metric"]) <= set(METRICS)


def test_they_must_have_the_same_samples(logits, tmp_path):
    logits.save(tmp_path / LAYOUTS[0].format(1))
    z, y = logits.test
    for labels, groups in ((y[::-1].copy(), None), (y, np.arange(len(y)))):
        first = Logits(*logits.val, z, labels, logits.meta, groups).save(tmp_path / LAYOUTS[0].format(0))
        with pytest.raises(ValueError, match="Expected `logits` to be of the same test samples for every seed"):
            record.record(str(first), ["identity"])


@pytest.mark.slow
def test_pixels_are_averaged_too(logits, tmp_path):
    facts = {"pixels": 9000, "accuracy": 0.6, "miou": 0.3, "ece": 0.02, "ece_by_batch": 0.04}
    images = np.arange(len(logits.test_labels)) // 10
    for seed in (0, 1):
        meta = logits.meta | {
            "test_pixels": {name: x if name == "pixels" else x + seed / 10 for name, x in facts.items()}
        }
        Logits(*logits.val, *logits.test, meta, images).save(tmp_path / LAYOUTS[0].format(seed))
    record.record(str(tmp_path / LAYOUTS[0].format(0)), ["identity"])
    frame = results.load("ours").set_index("metric")
    numbers = ["value", "std", "n_seeds"]
    for name in ("accuracy", "miou", "ece"):
        assert frame.loc[name, numbers].to_list() == pytest.approx([facts[name] + 0.05, 0.1 / np.sqrt(2), 2], rel=1e-5)
        assert frame.loc[name, "low"] < frame.loc[name, "value"] < frame.loc[name, "high"]
    assert frame.loc["ece", "note"].endswith("mean of the ECE of batches 0.0900")
