"""The image is made from what the project says elsewhere, and the build is given every file of the checkout."""

import re
import shlex
import subprocess
from fnmatch import fnmatch
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet
from test_environment import PROJECT
from test_makefile import TARGETS

ROOT = Path(__file__).resolve().parents[1]
STEPS = re.sub(r"\\\n", "", (ROOT / "Dockerfile").read_text())


def test_its_python_is_one_the_project_supports():
    version = re.search(r"^FROM python:([0-9.]+)-slim", STEPS, re.M)[1]
    assert f"{version}.99" in SpecifierSet(PROJECT["requires-python"])


def test_it_installs_by_make_from_files_that_are_there():
    (install,) = re.findall(r"^RUN make (.*)$", STEPS, re.M)
    assert shlex.split(install) == ["install", "TORCH_INDEX=$TORCH_INDEX"] and "install" in TARGETS
    for copied in re.findall(r"^COPY --chown=1000 (.*) \S+$", STEPS, re.M):
        assert all((ROOT / name).exists() for name in copied.split())


def test_no_file_of_the_checkout_is_left_out():
    """A pattern hides what it matches and all below it; ``**`` stands for any folders, also none."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    patterns = [line for line in lines if line and not line.startswith("#")]
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if not done.stdout:
        pytest.skip("not a git checkout")
    for name in done.stdout.splitlines():
        parts = name.split("/")
        for pattern in patterns:
            anywhere = pattern.startswith("**/")
            found = parts if anywhere else parts[:1]
            assert not any(fnmatch(part, pattern.removeprefix("**/")) for part in found), (name, pattern)
