"""The line of a long fit: on a terminal only, after some seconds, and gone at the end."""

import io
import sys

import pytest

from calibkit import _progress
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
