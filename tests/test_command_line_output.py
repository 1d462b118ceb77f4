"""What the command line stars, refuses before it fits, and does where the shell closed its output."""

import os
import subprocess
import sys

import numpy as np
import pytest

from calibkit import calibrators
from calibkit.__main__ import main
from calibkit.logits import Logits
from calibkit.networks import zoo

ERRORS = {"ece", "mce", "adaptive_ece", "classwise_ece", "ks_error", "debiased_ece"}


@pytest.fixture
def toy(too_sure, tmp_path, monkeypatch):
    """Logits in a folder that one is in."""
    monkeypatch.chdir(tmp_path)
    return too_sure.save("toy.npz")


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


def test_what_cannot_be_written_is_refused_before_the_fit(toy, tmp_path, shell, monkeypatch):
    def fitted(*_):
        raise AssertionError

    (tmp_path / "folder").mkdir()
    monkeypatch.setattr(calibrators.TemperatureScaling, "fit", fitted)
    for out, message in (
        ("folder", "Expected `out` to be the path of a file, but got 'folder', which is none\n"),
        ("toy.npz/c.npz", "Expected `out` to be a file that can be written, but got 'toy.npz/c.npz'\n"),
    ):
        printed = shell(["calibrate", str(toy), "--out", out], 1)
        assert (printed.out, printed.err) == ("", message)


def test_a_calibrator_may_be_saved_into_a_new_folder_and_over_another(toy, tmp_path):
    for _ in range(2):
        assert main(["calibrate", str(toy), "--out", "new/folder/c.npz"]) == 0
    assert calibrators.load_calibrator(tmp_path / "new/folder/c.npz").temperature == pytest.approx(2, rel=0.2)


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
