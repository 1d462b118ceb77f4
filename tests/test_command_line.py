"""The command line: what it prints and leaves behind, also where the shell closed its output, and one line with exit
status 1 for whatever is wrong.
"""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from drawn_logits import true_logits
from scipy.special import softmax

from calibkit.__main__ import main
from calibkit.calibrators import Identity, load_calibrator
from calibkit.logits import ARRAYS, Logits
from calibkit.metrics import REPORTED, ece
from calibkit.networks import zoo

ERRORS = {"ece", "mce", "adaptive_ece", "classwise_ece", "ks_error", "debiased_ece"}


@pytest.fixture
def toy(too_sure, here):
    """Logits in a folder that one is in."""
    return too_sure.save(here / "toy.npz")


def row(out: str, metric: str) -> list[float]:
    """The numbers behind a metric's name."""
    line = next(line for line in out.splitlines() if line.startswith(f"{metric} "))
    return [float(word.strip("[],")) for word in line.split()[1:] if word != "*"]


def test_calibrate_prints_saves_and_the_file_loads(toy, tmp_path, shell):
    out = shell(["calibrate", str(toy), "--out", str(tmp_path / "ts.npz")]).out
    saved = load_calibrator(tmp_path / "ts.npz")
    assert out.startswith(f"{saved!r}\n") and out.endswith(f"saved {tmp_path / 'ts.npz'}\n")
    assert saved.temperature == pytest.approx(2, rel=0.2)
    before, after, low, high = row(out, "ece")
    assert low < after - before < high < 0  # half the logits: less error, and not by chance
    assert "worse" not in out
    assert len(out.splitlines()) == len(REPORTED) + 3


def test_calibrate_says_what_became_worse_and_saves_only_what_it_is_told_to(toy, tmp_path, shell):
    """Fitted where each third label is one of chance, judged where the network was calibrated."""
    logits = Logits.load(toy)
    chance = np.where(np.arange(400) % 3 == 0, np.random.default_rng(1).integers(0, 4, 400), logits.val_labels)
    bad = Logits(logits.val_logits, chance, logits.test_logits / 2, logits.test_labels).save(tmp_path / "bad.npz")
    before = set(tmp_path.iterdir())
    out = shell(["calibrate", str(bad)]).out
    said = out.splitlines()[-1].removeprefix("worse than before, beyond chance: ").split(", ")
    assert said == ["nll", "brier", "ece"]
    assert all(row(out, metric)[-2] > 0 for metric in said)
    assert set(tmp_path.iterdir()) == before


def test_a_lower_accuracy_is_worse(toy, tmp_path, shell):
    """One of four classes is rare where the calibrator is fitted, and is not predicted any more."""
    logits = Logits.load(toy)
    keep = logits.val_labels != 0
    keep[np.flatnonzero(~keep)[:2]] = True
    few = Logits(logits.val_logits[keep], logits.val_labels[keep], *logits.test).save(tmp_path / "few.npz")
    out = shell(["calibrate", str(few), "--calibrator", "vector_scaling"]).out
    assert row(out, "accuracy")[-1] < 0
    assert "accuracy" in out.splitlines()[-1]


def test_evaluate_gives_the_metrics_of_softmax_with_intervals(toy, shell):
    out = shell(["evaluate", str(toy)]).out
    data = Logits.load(toy)
    value, low, high = row(out, "accuracy")
    assert value == pytest.approx(np.mean(data.test_logits.argmax(1) == data.test_labels)) and low < value < high
    assert row(out, "ece")[0] == pytest.approx(
        ece(Identity().fit(*data.val)(data.test_logits), data.test_labels), abs=1e-5
    )
    marked = {line.split()[0] for line in out.splitlines() if line.endswith(" *")}
    assert marked <= {"mce"}  # which one bin of few samples sets


def test_both_commands_take_another_number_of_bins(toy, tmp_path, shell):
    data = Logits.load(toy)
    wanted = ece(Identity().fit(*data.val)(data.test_logits), data.test_labels, n_bins=4)
    for command in ("evaluate", "calibrate"):
        assert row(shell([command, str(toy), "--bins", "4"]).out, "ece")[0] == pytest.approx(wanted, abs=1e-5)
        assert "Expected `n_bins` to be an integer >= 1" in shell([command, str(toy), "--bins", "0"], 1).err


def test_an_error_that_a_calibrated_network_would_show_is_marked(tmp_path, shell):
    """Labels drawn from the probabilities themselves."""
    z, y = true_logits(500, 30, 1.0)
    out = shell(["evaluate", str(Logits(z, y, z, y).save(tmp_path / "noise.npz"))]).out
    value, low, high = row(out, "ece")
    assert low == 0 < value <= high
    marked = [line.split()[0] for line in out.splitlines() if line.endswith(" *")]
    assert "ece" in marked and "nll" not in marked
    assert "\n* not told apart from 0" in out


def test_evaluate_as_json_has_the_numbers_of_the_table(toy, tmp_path, shell):
    """Of one set, which is no test set; an infinite NLL, which JSON has not, is null."""
    data = Logits.load(toy)
    np.savez(tmp_path / "one.npz", logits=data.test_logits, labels=data.test_labels)
    printed = shell(["evaluate", str(tmp_path / "one.npz")]).out
    assert printed.splitlines()[0].endswith("on 500 samples")
    found = json.loads(shell(["evaluate", str(tmp_path / "one.npz"), "--json"]).out)
    assert list(found) == list(REPORTED)
    for name, of in found.items():
        assert list(of) == ["value", "low", "high"]
        assert row(printed, name) == pytest.approx([*of.values()], abs=1e-5)
    sure = {"probs": np.array([[1.0, 0.0], [0.5, 0.5]]), "labels": np.array([1, 0])}
    np.savez(tmp_path / "sure.npz", **sure)
    printed = shell(["evaluate", str(tmp_path / "sure.npz"), "--json"])
    assert json.loads(printed.out)["nll"]["value"] is None
    assert "2 samples; intervals from fewer than 50 are too short" in printed.err


def test_help_is_plain_text(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "``" not in capsys.readouterr().out


@pytest.mark.parametrize("command", ["evaluate", "calibrate"])
def test_few_test_samples_are_said_to_be_few(too_sure, tmp_path, command, shell):
    z, y = too_sure.test
    said = shell([command, str(Logits(*too_sure.val, z[:5], y[:5]).save(tmp_path / "few.npz"))]).err
    assert "5 test samples; intervals from fewer than 50 are too short" in said
    pairs = Logits(*too_sure.val, z[:80], y[:80], {}, np.arange(80) // 2).save(tmp_path / "pairs.npz")
    assert "40 test groups; intervals from fewer than 50 are too short" in shell([command, str(pairs)]).err


def test_intervals_are_of_groups_and_a_folder_of_npy_files_is_a_logits_file(toy, tmp_path, shell):
    """Every test sample twice, a pair a group, tells as much as once."""
    logits = Logits.load(toy)
    z, y, numbers = np.tile(logits.test_logits, (2, 1)), np.tile(logits.test_labels, 2), np.tile(np.arange(500), 2)
    twice = Logits(*logits.val, z, y, {}, numbers).save(toy.with_name("twice.npz"))
    (tmp_path / "mine").mkdir()
    for name in ARRAYS:
        np.save(tmp_path / "mine" / f"{name}.npy", getattr(logits, name))
    for command in ("evaluate", "calibrate"):
        printed = []
        for path in (toy, twice, tmp_path / "mine"):
            lines = shell([command, str(path)]).out.splitlines()
            printed.append([line for line in lines if line.startswith(("accuracy", "ece ", "nll"))])
        assert printed[0] == printed[1] == printed[2]


def test_networks_lists_the_zoo(shell):
    listed = shell(["networks"]).out.splitlines()[1:]
    assert [line.split()[0] for line in listed][: len(zoo())] == list(zoo())
    name, path = next(iter(zoo().items()))
    meta = Logits.load(path).meta
    assert listed[0].split() == [name, meta["budget"], f"{100 * meta['accuracy']:.2f}%"]


@pytest.mark.parametrize(("command", "lines"), [("evaluate", 1), ("calibrate", 2)])
def test_what_takes_time_is_told_only_to_a_person(toy, command, lines, shell, monkeypatch):
    quiet = shell([command, str(toy)])
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    watched = shell([command, str(toy)])
    assert watched.out == quiet.out and quiet.err == ""
    assert len(watched.err.splitlines()) == lines and "500 samples" in watched.err


def test_labels_of_other_rows_are_told_and_no_calibrator_is_saved(toy, tmp_path, shell):
    data, mixed = Logits.load(toy), np.random.default_rng(0).permutation
    path = Logits(data.val_logits, mixed(data.val_labels), data.test_logits, mixed(data.test_labels)).save(toy)
    printed = shell(["calibrate", str(path), "--out", str(tmp_path / "c.npz")], 1)
    assert printed.err.splitlines()[-1].startswith("Expected `source` to be outputs beside the labels of the same")
    assert printed.out == "" and not (tmp_path / "c.npz").exists()
    assert "say nothing about the labels" in shell(["evaluate", str(path)]).err


@pytest.mark.parametrize("command", ["evaluate", "calibrate"])
def test_what_is_in_doubt_and_what_was_rounded_is_told_beside_the_numbers(toy, tmp_path, command, shell):
    data = Logits.load(toy)
    np.savez(tmp_path / "one.npz", logits=data.val_logits, labels=data.val_labels)
    said = shell([command, str(tmp_path / "one.npz"), str(tmp_path / "one.npz")]).err
    assert "400 test samples have outputs that are in the validation set too" in said
    less = {f"{name}_probs": 0.98 * softmax(getattr(data, name).logits, 1) for name in ("val", "test")}
    np.savez(tmp_path / "less.npz", **less, val_labels=data.val_labels, test_labels=data.test_labels)
    assert "each was divided by its sum" in shell([command, str(tmp_path / "less.npz")]).err


LONG = "x" * 400
TRAIN = "train --dataset digits --model"


def test_bad_input_says_so_in_one_line_and_exits_1(toy, tmp_path, shell):
    (tmp_path / "EMPTY.npz").touch()
    for name in ("FOLDER", "FOLDER.npz"):
        (tmp_path / name).mkdir()
    words = {"TOY": str(toy), "EMPTY": "EMPTY.npz"}
    for command, message in (
        ("calibrate absent.npz", "`path` to be one that can be used, but got 'absent.npz': No such file"),
        ("evaluate absent", "`logits` to be a path that ends in .npz, or a name"),
        ("evaluate FOLDER.npz", "`source` to be an .npz, .npy, .pt, .csv,"),
        ("evaluate EMPTY", "`path` to be"),
        (f"evaluate {LONG}", f"`path` to be one that can be used, but got '{LONG}"),
        (f"calibrate TOY --out {LONG}.npz", "`path` to be one that can be used, but got"),
        ("calibrate TOY --calibrator neural_clamping", "`calibrator` to be one of identity, temperature_sc"),
        ("calibrate TOY --calibrator identity --objective nll", "`calibrator` to be without options, but got"),
        (f"{TRAIN} vgg --budget smoke", "`model` to be one of"),
        (f"{TRAIN} small_cnn --budget paper", "`budget` to be one with a recipe"),
        (f"{TRAIN} resnet20 --budget smoke", "`model` to be one of small_cnn, but got 'resnet20'"),
        (f"{TRAIN} small_cnn --seed 99999999999999999999", "`seed` to be an integer in [0, 9223372036854775808"),
        ("data prepare mnist", "`name` to be one of"),
    ):
        printed = shell([words.get(word, word) for word in command.split()], 1)
        assert printed.err.startswith(f"Expected {message}"), command
        assert (printed.out, printed.err.count("\n")) == ("", 1) or "--out" in command


def test_only_calibration_errors_are_starred(tmp_path, shell):
    """Nearly all predictions are wrong, and made with hardly a doubt: accuracy and entropy, too, begin at 0."""
    y = np.zeros(60, int)
    z = np.zeros((60, 3))
    z[np.arange(60), np.where(np.arange(60) < 1, 0, 1 + np.arange(60) % 2)] = 60.0
    z[0] = [3.0, 0.0, 0.0]
    lines = shell(["evaluate", str(Logits(z, y, z, y).save(tmp_path / "wrong.npz"))]).out.splitlines()
    begins_at_0 = {line.split()[0] for line in lines if "[0.00000," in line}
    assert begins_at_0 >= {"accuracy", "entropy"}
    assert {line.split()[0] for line in lines if line.endswith(" *")} == begins_at_0 & ERRORS


def test_a_calibrator_may_be_saved_into_a_new_folder_and_over_another(toy, tmp_path):
    for _ in range(2):
        assert main(["calibrate", str(toy), "--out", "new/folder/c.npz"]) == 0
    assert load_calibrator(tmp_path / "new/folder/c.npz").temperature == pytest.approx(2, rel=0.2)


@pytest.mark.slow
def test_equal_infinities_are_no_change_and_no_warning(toy):
    logits = Logits.load(toy)
    (val_z, val_y), (test_z, test_y) = logits.val, logits.test
    Logits(1000 * val_z, val_y, 1000 * test_z, test_y).save("huge.npz")
    words = [sys.executable, "-m", "calibkit", "calibrate", "huge.npz", "--calibrator", "identity"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    line = next(line for line in done.stdout.splitlines() if line.startswith("nll "))
    assert line.split() == ["nll", "inf", "inf", "[+0.00000,", "+0.00000]"]
    assert done.stderr == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "closed"),
    [
        (["networks"], (2,)),
        (["--version"], (1, 2)),
        (["evaluate", "toy.npz"], (1, 2)),
        (["evaluate", "absent.npz"], (1,)),
        (["evaluate", "absent.npz"], (2,)),
    ],
)
def test_closed_streams_take_nothing_and_break_nothing(command, closed, toy):
    """As ``calibkit networks >&-``."""

    def close():
        for stream in closed:
            os.close(stream)

    words = [sys.executable, "-m", "calibkit", *command]
    done = subprocess.run(words, capture_output=True, text=True, preexec_fn=close)
    assert done.returncode == (command[-1] == "absent.npz")
    shown = {1: done.stdout, 2: done.stderr}
    assert [shown[stream] for stream in closed] == [""] * len(closed)
    assert "Traceback" not in done.stdout + done.stderr
    if command == ["networks"] and closed == (2,):
        assert next(iter(zoo())) in done.stdout
    if command[-1] == "absent.npz" and closed == (1,):
        assert "absent.npz" in done.stderr


def test_an_interrupt_of_the_imports_is_one_line(tmp_path, monkeypatch):
    """They take the first seconds."""
    (tmp_path / "torch.py").write_text("raise KeyboardInterrupt")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    done = subprocess.run([sys.executable, "-m", "calibkit", "networks"], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")
