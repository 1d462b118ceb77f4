"""``import calibkit``: what it offers, and what it costs."""

import inspect
import re
import subprocess
import sys
from operator import attrgetter
from pathlib import Path

import pytest

import calibkit

ROOT = Path(__file__).resolve().parents[1]


def test_each_name_is_there_and_imported_once():
    for name in dir(calibkit):
        found = getattr(calibkit, name)
        assert getattr(calibkit, name) is found, name
        if inspect.ismodule(found):
            assert found.__name__ == f"calibkit.{name}"
    of_extras = {"CalibratedClassifier", "LogitCalibrator", "estimators", "plots"}
    assert set(dir(calibkit)) - set(calibkit.__all__) == of_extras


def test_what_the_pages_document_is_found_from_the_package():
    """By the list of the package, not by what happens to be imported."""
    for page in sorted((ROOT / "book" / "api").glob("*.md")):
        for name in re.findall(r"^\.\. auto(?:class|function):: calibkit\.([\w.]+)$", page.read_text("utf-8"), re.M):
            assert name.split(".")[0] in dir(calibkit), name
            assert attrgetter(name)(calibkit)


def test_what_is_not_there_is_missed_as_everywhere():
    with pytest.raises(AttributeError, match="module 'calibkit' has no attribute 'temperature'"):
        calibkit.temperature  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'temperature'"):
        exec("from calibkit import temperature")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import calibkit; calibkit.__version__; dir(calibkit)", {"torch", "numpy", "pandas", "matplotlib"}),
        ("from calibkit import TemperatureScaling, evaluate, Logits, Network, Comparison", {"pandas", "matplotlib"}),
        ("from calibkit import plots", {"pandas"}),
        ("import calibkit.models", {"torchvision"}),
        ("from book.kit import results", {"matplotlib"}),
    ],
)
def test_a_name_costs_what_it_needs_and_no_more(code, absent):
    code = f"import sys; {code}; print(*sorted(set(sys.modules) & {absent}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.split() == []
