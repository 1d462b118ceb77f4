"""A network that was trained from several seeds is one row: their mean, each fitted and measured on its own logits.
Training losses side by side: which networks are compared, and what their differences are.
"""

import numpy as np
import pytest
from refusals import refused
from scipy.special import softmax

from book.kit import results
from book.kit.__main__ import main
from book.kit.results import load_effects, record
from book.kit.results.record_losses import record_losses
from calibkit import _folders
from calibkit.calibrators import TemperatureScaling
from calibkit.logits import Logits
from calibkit.metrics import METRICS, nll

TS = "temperature_scaling"
SURE = {"cross_entropy": 1.0, "mbls": 0.5}
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
        refused("`logits` to be of the same test samples for every seed", record.record, str(first), ["identity"])


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


@pytest.fixture
def save(logits, tmp_path, monkeypatch):
    """Puts the network of a loss and seed into the zoo or the folder of trainings; ``sure`` scales its logits."""
    monkeypatch.setattr(_folders, "runs", lambda budget: tmp_path / "runs" / budget)

    def save(loss, seed, sure, *, zoo=False, budget="reduced"):
        made = scaled(logits, sure, sure, loss=loss, seed=seed, budget=budget)
        name = f"cifar10/resnet20-{loss}-s{seed}"
        folder = _folders.stored() / "logits" if zoo else _folders.runs(budget)
        return made.save(folder / (f"{name}.npz" if zoo else f"{name}/logits.npz")), made

    return save


def difference(**where):
    rows = load_effects()
    for column, value in where.items():
        rows = rows[rows[column] == value]
    return rows.squeeze()


@pytest.mark.slow
def test_differences_of_trainings_and_of_the_zoo(save):
    """Cross-entropy in the zoo, another loss trained here, on two seeds: as trained, and against one temperature."""
    _, plain = save("cross_entropy", 0, 1.0, zoo=True)
    (path, first), (_, second) = (save("mbls", seed, sure) for seed, sure in enumerate((0.5, 0.6)))
    others, names = [first, second], ["cifar10/resnet20-cross_entropy-s0", str(path)]
    assert record_losses(names) > 0
    of = [nll(softmax(x.test_logits, axis=1), x.test_labels) for x in (plain, *others)]
    row = difference(loss="mbls", method="identity", base_loss="cross_entropy", base_method="identity", metric="nll")
    assert row["value"] == pytest.approx(np.mean(of[1:]) - of[0], rel=1e-5)
    assert (row["n_seeds"], row["base_seeds"], row["budget"], row["source"]) == (2, 1, "reduced", "ours")
    scaled = nll(TemperatureScaling().fit(*plain.val)(plain.test_logits), plain.test_labels)
    where = {"base_loss": "cross_entropy", "base_method": "temperature_scaling", "metric": "nll"}
    row = difference(loss="mbls", method="identity", **where)
    assert row["value"] == pytest.approx(np.mean(of[1:]) - scaled, rel=1e-5)
    assert record_losses(names) == 0  # the same numbers


def test_of_two_sets_of_seeds_the_larger_counts(save):
    save("cross_entropy", 0, 1.0, zoo=True)
    stored = [save("mbls", seed, sure, zoo=True)[1] for seed, sure in enumerate((0.5, 0.6))]
    path, _ = save("mbls", 0, 3.0)
    record_losses(["cifar10/resnet20-cross_entropy-s0", str(path), "cifar10/resnet20-mbls-s0"])
    where = {"loss": "mbls", "method": "identity", "base_method": "identity", "metric": "nll"}
    value = difference(**where)["value"]
    plain = nll(softmax(2 * stored[0].test_logits, axis=1), stored[0].test_labels)  # 0.5 of the logits of CE
    want = np.mean([nll(softmax(x.test_logits, axis=1), x.test_labels) for x in stored]) - plain
    assert value == pytest.approx(want, rel=1e-5)


def test_the_seeds_of_both_sides_count(save):
    """As trained against one temperature: the spread of trainings on one side, of scaled ones on the other."""
    runs = {loss: [save(loss, seed, sure * k) for seed, k in enumerate((1.0, 1.2))] for loss, sure in SURE.items()}
    record_losses([str(of[0][0]) for of in runs.values()])
    sigma = {"identity": [], "temperature_scaling": []}
    for of in runs.values():
        raw = [nll(softmax(x.test_logits, axis=1), x.test_labels) for _, x in of]
        scaled = [nll(TemperatureScaling().fit(*x.val)(x.test_logits), x.test_labels) for _, x in of]
        sigma["identity"].append(np.var(raw, ddof=1))
        sigma["temperature_scaling"].append(np.var(scaled, ddof=1))
    row = difference(loss="mbls", method="identity", base_method="temperature_scaling", metric="nll")
    want = np.sqrt(sum(np.mean(of) / 2 for of in sigma.values()))
    assert row["seed_error"] == pytest.approx(want, rel=1e-4) and row["seed_df"] == 2


def test_other_budgets_and_single_losses_are_not_compared(save):
    names = [save("cross_entropy", 0, 1.0)[0], save("mbls", 0, 0.5, budget="paper")[0]]
    assert record_losses(map(str, names)) == 0 and load_effects().empty


def test_other_test_samples_are_refused(save):
    path, logits = save("mbls", 0, 0.5)
    Logits(*logits.val, logits.test_logits[:300], logits.test_labels[:300], logits.meta).save(path)
    with pytest.raises(ValueError, match="Expected `logits` to be of the same test samples for every loss"):
        record_losses([str(save("cross_entropy", 0, 1.0)[0]), str(path)])


@pytest.mark.slow
def test_one_command_records_networks_and_compares_their_losses(save, capsys):
    """What trainings on a GPU end with; each seed is found beside the first."""
    names = [str(save(loss, 0, sure, budget="paper")[0]) for loss, sure in SURE.items()]
    main(["record", *names])
    assert "differences of losses are new" in capsys.readouterr().out
    where = {"loss": "mbls", "method": "identity", "base_loss": "cross_entropy", "base_method": "temperature_scaling"}
    assert difference(**where, metric="nll")["budget"] == "paper"
    assert main(["record"]) == 1
    assert "Expected `logits` to be networks, or --all, but got neither" in capsys.readouterr().err
