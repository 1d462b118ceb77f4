"""``import calibkit``: what it offers, and what it costs."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest

import calibkit
from book.kit import results
from book.kit.results import COLUMNS
from calibkit import Comparison, Logits, Network, TemperatureScaling, calibrator, ece, evaluate, plots

ROOT = Path(__file__).resolve().parents[1]


def test_each_name_is_there_and_imported_once():
    for name in dir(calibkit):
        found = getattr(calibkit, name)
        assert getattr(calibkit, name) is found, name
        if inspect.ismodule(found):
            assert found.__name__ == f"calibkit.{name}"
    assert set(dir(calibkit)) - set(calibkit.__all__) == {"CalibratedClassifier", "LogitCalibrator", "plots"}


def test_what_is_not_there_is_missed_as_everywhere():
    with pytest.raises(AttributeError, match="module 'calibkit' has no attribute 'temperature'"):
        calibkit.temperature  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'temperature'"):
        exec("from calibkit import temperature")


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import calibkit; calibkit.__version__; dir(calibkit)", {"torch", "numpy", "pandas", "matplotlib"}),
        ("from calibkit import TemperatureScaling, evaluate, Logits, Network, Comparison", {"pandas", "matplotlib"}),
        ("from calibkit import plots", {"pandas"}),
        ("from book.kit import results", {"matplotlib"}),
    ],
)
def test_a_name_costs_what_it_needs_and_no_more(code, absent):
    code = f"import sys; {code}; print(*sorted(set(sys.modules) & {absent}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.split() == []


@pytest.fixture
def mine(tmp_path, monkeypatch) -> Path:
    """``mine.npz`` in the working directory: logits that are twice the true ones."""
    rng = np.random.default_rng(0)
    z = 1.5 * rng.normal(size=(3000, 4))
    y = (z + rng.gumbel(size=z.shape)).argmax(1)
    monkeypatch.chdir(tmp_path)
    return Logits(2 * z[:1000], y[:1000], 2 * z[1000:], y[1000:]).save("mine.npz")


def test_from_logits_to_a_comparison(mine):
    """The lines of the README, each with what it is to give."""
    data = Logits.load("mine.npz")
    ts = TemperatureScaling().fit(*data.val)
    assert ts.temperature == pytest.approx(2, rel=0.15)
    assert repr(ts) == f"TemperatureScaling(temperature={ts.temperature:.4g})"
    probs = ts(data.test.logits)
    assert isinstance(probs, np.ndarray) and probs.shape == (2000, 4)
    values = evaluate(probs, data.test.labels)
    assert set(values) == set(calibkit.METRICS) and all(isinstance(value, float) for value in values.values())
    assert values["accuracy"] == np.mean(probs.argmax(1) == data.test.labels)
    methods = Comparison.on(data.test, {"before": calibrator("identity").fit(*data.val), "after": ts})
    text = f"{methods.difference('after', 'before').percent:+.2f}"
    value, low, high = map(float, re.fullmatch(r"([-+.\d]+) \[([-+.\d]+), ([-+.\d]+)\]", text).groups())
    before = ece(calibrator("identity").fit(*data.val)(data.test.logits), data.test.labels)
    assert value == pytest.approx(100 * (values["ece"] - before), abs=0.005) and low < value < high < 0
    ax = plots.reliability_diagram(probs, data.test.labels)
    plt.close(ax.figure)
    assert ax.get_xlabel() == "confidence" and ax.figure.axes == [ax]


def test_from_a_name_to_logits_and_from_a_paper_to_verdicts():
    network = Network.parse("cifar10/resnet20-mbls-s0")
    logits = network.logits(budget="reduced")
    assert logits.meta["loss"] == "mbls" and logits.test_logits.shape == (10_000, 10)
    compared = results.compare("mbls", table="1")
    assert {"printed", "ours", "verdict"} <= set(compared.columns) and len(compared) > 0
    assert set(results.load("paper").columns) == {*COLUMNS, "printed"}
