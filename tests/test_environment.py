"""One list of requirements: pyproject.toml, environment.yml, requirements.lock and the Makefile say the same."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
INSTALLED = ("train", "book", "test", "run")
ENVIRONMENT = yaml.safe_load((ROOT / "environment.yml").read_text())
MAKEFILE = (ROOT / "Makefile").read_text()


def requirements(*extras: str) -> list[Requirement]:
    return [Requirement(text) for text in PROJECT["dependencies"] + [r for extra in extras for r in EXTRAS[extra]]]


def lock() -> dict[str, str]:
    lines = [line for line in (ROOT / "requirements.lock").read_text().splitlines() if not line.startswith("#")]
    return dict(line.lower().replace("_", "-").split("==") for line in lines)


def test_conda_installs_what_make_installs():
    pip = next(d["pip"] for d in ENVIRONMENT["dependencies"] if isinstance(d, dict))
    assert pip == ["-c requirements.lock", f"-e .[{','.join(INSTALLED)}]"]
    assert f"EXTRAS := {','.join(INSTALLED)}\n" in MAKEFILE


def test_conda_python_is_one_the_project_supports():
    python = SpecifierSet(next(d for d in ENVIRONMENT["dependencies"] if str(d).startswith("python ")).split()[1])
    required = SpecifierSet(PROJECT["requires-python"])
    versions = [f"3.{minor}" for minor in range(8, 20)]
    assert {v for v in versions if v in python} == {"3.11", "3.12", "3.13"}
    assert all(v in required for v in versions if v in python)


def test_makefile_bounds_torch_as_pyproject_does():
    bounds = {r.name: r.specifier for r in requirements("train") if r.name in ("torch", "torchvision")}
    texts = re.findall(r'"(torch[^"]*)"', MAKEFILE)
    named = {r.name: r.specifier for r in map(Requirement, texts)}
    assert named == bounds
    assert all("<" in str(specifier) for specifier in bounds.values())


def test_lock_leaves_torch_free_and_holds_everything_else():
    pinned = lock()
    assert not [name for name in pinned if re.match(r"torch$|torchvision$|nvidia|triton|calibkit", name)]
    assert not [version for version in pinned.values() if "+" in version]
    for requirement in requirements(*INSTALLED):
        name = requirement.name.lower().replace("_", "-")
        if name not in ("torch", "torchvision"):
            assert pinned[name] in requirement.specifier, requirement


@pytest.mark.parametrize("extra", ["train", "book", "test", "run", "peers"])
def test_extra_exists(extra):
    assert EXTRAS[extra]


def test_core_dependencies_are_two():
    assert {r.name for r in requirements()} == {"numpy", "torch"}


def test_import_needs_core_dependencies_only():
    """Logits can be calibrated and measured where neither pandas nor matplotlib nor scipy is installed."""
    modules = "calibkit.metrics, calibkit.calibrators, calibkit.losses, calibkit.objectives, calibkit.logits"
    heavy = "{'pandas', 'matplotlib', 'sklearn', 'scipy', 'torchvision', 'torchmetrics', 'lightning_fabric'}"
    code = f"import sys, {modules}; print(*sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.split() == []
