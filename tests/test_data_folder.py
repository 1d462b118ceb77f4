"""The guard of the data folder: what a test, a doctest and a notebook see on a machine that has data."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import nbformat
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
TESTS = """
import subprocess, sys
import pytest
from calibkit.data import load_split
from calibkit.networks import published

IN_A_PROCESS = [sys.executable, "-c", "from calibkit.data import load_split; load_split('svhn', 'test')"]

@pytest.fixture(scope="module")
def labels():
    return load_split("svhn", "test").labels.tolist()

def test_unmarked():
    load_split("svhn", "test")

def test_unmarked_in_a_process():
    subprocess.run(IN_A_PROCESS, check=True)

def test_unmarked_logits():
    assert published()

@pytest.mark.data("svhn")
def test_marked(labels):
    assert labels == [3, 1, 4]
    subprocess.run(IN_A_PROCESS, check=True)

@pytest.mark.data("svhn", "logits/mine.npz")
def test_marked_logits():
    assert list(published()) == ["mine"]

@pytest.mark.data("svhn", "logits/absent.npz")
def test_absent(labels):
    raise AssertionError

TWO = [pytest.param(name, marks=pytest.mark.data(name)) for name in ("svhn", "20newsgroups")]

@pytest.mark.parametrize("name", TWO)
def test_one_of_two(name):
    load_split(name, "test")
"""
DOCTEST = '''
"""
>>> from calibkit.data import available
>>> available("svhn")
False
"""
'''


@pytest.fixture
def machine(tmp_path):
    """A checkout of five files, and the cache of someone who has one data set."""
    for name in ("conftest.py", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_reads.py").write_text(TESTS)
    (tmp_path / "module.py").write_text(DOCTEST)
    cell = nbformat.v4.new_code_cell("from calibkit.data import available\nassert not available('svhn')")
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / "page.ipynb")
    cache = tmp_path / "home" / ".cache" / "calibkit"
    for split in ("train", "test"):
        (cache / "svhn").mkdir(parents=True, exist_ok=True)
        np.save(cache / "svhn" / f"{split}_images.npy", np.zeros((3, 32, 32, 3), np.uint8))
        np.save(cache / "svhn" / f"{split}_labels.npy", np.array([3, 1, 4]))
    (cache / "logits").mkdir()
    (cache / "logits" / "mine.npz").touch()
    return tmp_path


def outcomes(folder: Path, *options: str, **variables: str) -> dict[str, str]:
    """What came of each test by its name."""
    environment = {name: value for name, value in os.environ.items() if name != "CALIBKIT_DATA"}
    environment |= {"PYTHONPATH": str(ROOT), "HOME": str(folder / "home"), **variables}
    command = [sys.executable, "-m", "pytest", "--junit-xml=found.xml", "-p", "no:cacheprovider", *options]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = {}
    for case in ElementTree.parse(folder / "found.xml").iter("testcase"):
        kinds = {child.tag for child in case} & {"failure", "error", "skipped"}
        found[case.get("name").removeprefix("test_")] = kinds.pop() if kinds else "passed"
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "variables"),
    [((), {}), (("-n", "1"), {"CALIBKIT_DATA": "home/.cache/calibkit"})],
    ids=["the default folder", "the variable, and another process"],
)
def test_only_a_test_that_says_so_sees_data(machine, options, variables):
    assert outcomes(machine, "tests", "module.py", "--doctest-modules", *options, **variables) == {
        "unmarked": "failure",
        "unmarked_in_a_process": "failure",
        "unmarked_logits": "failure",
        "marked": "passed",
        "marked_logits": "passed",
        "absent": "skipped",
        "one_of_two[svhn]": "passed",
        "one_of_two[20newsgroups]": "skipped",
        "module": "passed",
    }


@pytest.mark.slow
def test_a_notebook_sees_none_unless_it_is_asked_to(machine):
    command = ("--nbval-lax", "--nbval-current-env", "page.ipynb")
    assert outcomes(machine, *command) == {"Cell 0": "passed"}
    assert outcomes(machine, "--noconftest", *command) == {"Cell 0": "failure"}
