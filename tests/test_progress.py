"""The line of a long fit: on a terminal only, after some seconds, and gone at the end; and the log of a command."""

import io
import re
import sys
from functools import partial

import numpy as np
import pytest

from calibkit import _progress, report
from calibkit.__main__ import main
from calibkit.calibrators import ClassTemperatureScaling, VectorScaling


class Terminal(io.StringIO):
    def isatty(self):
        return True


def written(monkeypatch, stream, after, call):
    """What ``call`` writes to a standard error, if a line is shown after so many seconds."""
    monkeypatch.setattr(_progress, "AFTER", after)
    monkeypatch.setattr(_progress, "EVERY", 0.0)
    with monkeypatch.context() as context:
        context.setattr(sys, "stderr", stream)
        call()
    return stream.getvalue()


@pytest.mark.parametrize(("calibrator", "word"), [(VectorScaling, "objective"), (ClassTemperatureScaling, "sweep")])
def test_a_long_fit_shows_its_steps_and_leaves_nothing(calibrator, word, overconfident, monkeypatch):
    text = written(monkeypatch, Terminal(), 0.0, lambda: calibrator().fit(*overconfident))
    *states, last = text.split("\r\x1b[K")[1:]
    assert states and all(state.startswith(f"{calibrator.__name__} on ") and word in state for state in states)
    assert last == ""


@pytest.mark.parametrize(("stream", "after"), [(Terminal, 1000.0), (io.StringIO, 0.0)])
def test_a_short_fit_and_a_file_show_nothing(stream, after, overconfident, monkeypatch):
    assert written(monkeypatch, stream(), after, lambda: VectorScaling().fit(*overconfident)) == ""


def test_outside_of_a_fit_nothing_is_shown(monkeypatch):
    assert written(monkeypatch, Terminal(), 0.0, lambda: _progress.show("a step")) == ""


@pytest.mark.slow
def test_a_command_logs_its_steps_where_there_is_no_terminal(overconfident, tmp_path, monkeypatch):
    """One line each with the seconds since it began, none of the states of a fit; Python's own call logs nothing."""
    np.savez(tmp_path / "mine.npz", logits=overconfident[0], labels=overconfident[1])
    compare = partial(main, ["compare", str(tmp_path / "mine.npz"), "--calibrators", "vector_scaling"])
    log = written(monkeypatch, io.StringIO(), 1000.0, compare).splitlines()
    names = ("1 of 3, temperature scaling", "2 of 3, none", "3 of 3, vector scaling", "intervals of all metrics")
    assert [re.fullmatch(r"compare, \d+ s: (.*)", line)[1] for line in log] == list(names)
    call = partial(report, tmp_path / "mine.npz", methods=["vector_scaling"])
    assert written(monkeypatch, io.StringIO(), 0.0, call) == ""
    on_terminal = written(monkeypatch, Terminal(), 0.0, compare)
    assert "\n" not in on_terminal and on_terminal.startswith("\r\x1b[Kcompare, ")
