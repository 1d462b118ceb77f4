"""What Binder reads: one supported Python, and this package with what its notebooks need."""

import re

import yaml
from packaging.specifiers import SpecifierSet
from test_environment import EXTRAS, PROJECT, ROOT, requirements

FOLDER = ROOT / "binder"
PYTHON, _, PIP = yaml.safe_load((FOLDER / "environment.yml").read_text())["dependencies"]
LINES = dict(line.split(" ", 1) for line in PIP["pip"])


def test_it_installs_the_checkout_at_the_tested_versions_on_a_supported_python_without_cuda():
    """pip runs in the folder of the file; of a Python ">=" Binder reads no version, and takes an older one."""
    version = re.fullmatch(r"python=(\d\.\d+)", PYTHON)[1]
    assert f"{version}.99" in SpecifierSet(PROJECT["requires-python"])
    assert LINES["--extra-index-url"].endswith("/whl/cpu")
    folder, extras = re.fullmatch(r"(\S+)\[(.*)\]", LINES["-e"]).groups()
    assert (FOLDER / folder).resolve() == ROOT and (FOLDER / LINES["-c"]).resolve() == ROOT / "requirements.lock"
    assert set(extras.split(",")) <= set(EXTRAS)
    assert {"jupytext", "ipykernel", "torchvision", "matplotlib"} <= {r.name for r in requirements(*extras.split(","))}


def test_nothing_goes_before_the_environment():
    """Binder would take a Dockerfile first; in a folder ``binder`` it looks for one there alone."""
    assert [path.name for path in FOLDER.iterdir()] == ["environment.yml"] and not (ROOT / ".binder").exists()
