"""One list of requirements: pyproject.toml, environment.yml, requirements.lock and the Makefile say the same, and so
do Dockerfile and Binder; and what works where only the core of it is installed."""

import ast
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from test_makefile import TARGETS

import calibkit
from calibkit.calibrators import CALIBRATORS

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
INSTALLED = ("train", "book", "test", "run")
ENVIRONMENT = yaml.safe_load((ROOT / "environment.yml").read_text())
MAKEFILE = (ROOT / "Makefile").read_text()
IMAGE = re.sub(r"\\\n", "", (ROOT / "Dockerfile").read_text())
BINDER = ROOT / "binder"


def requirements(*extras: str) -> list[Requirement]:
    """Of the core and of extras; one that asks for others, ``calibkit[plots]``, with theirs."""
    found = [Requirement(text) for text in PROJECT["dependencies"]]
    for requirement in (Requirement(text) for extra in extras for text in EXTRAS[extra]):
        found += requirements(*requirement.extras) if requirement.name == "calibkit" else [requirement]
    return found


def lock() -> dict[str, str]:
    lines = [line for line in (ROOT / "requirements.lock").read_text().splitlines() if not line.startswith("#")]
    return dict(line.lower().replace("_", "-").split("==") for line in lines if "==" in line)


def bounds() -> dict[str, SpecifierSet]:
    """What the lock bounds and does not pin."""
    lines = [line for line in (ROOT / "requirements.lock").read_text().splitlines() if not line.startswith("#")]
    return {r.name: r.specifier for r in map(Requirement, lines) if "==" not in str(r)}


def test_conda_installs_what_make_installs():
    pip = next(d["pip"] for d in ENVIRONMENT["dependencies"] if isinstance(d, dict))
    assert pip == ["-c requirements.lock", f"-e .[{','.join(INSTALLED)}]"]
    assert f"EXTRAS := {','.join(INSTALLED)}\n" in MAKEFILE


def test_the_python_of_conda_and_that_of_the_image_are_ones_the_project_supports():
    python = SpecifierSet(next(d for d in ENVIRONMENT["dependencies"] if str(d).startswith("python ")).split()[1])
    required = SpecifierSet(PROJECT["requires-python"])
    versions = [f"3.{minor}" for minor in range(8, 20)]
    assert {v for v in versions if v in python} == {"3.11", "3.12", "3.13"}
    assert all(v in required for v in versions if v in python)
    assert re.search(r"^FROM python:([0-9.]+)-slim", IMAGE, re.M)[1] + ".99" in required


def test_torch_is_bounded_where_it_is_tested_and_not_where_it_is_used():
    """A bound in pyproject.toml would replace the torch of whoever installs calibkit; unbounded, `make install` would
    take gigabytes of CUDA libraries.
    """
    texts = re.search(r"^TORCH \?= (.*)$", MAKEFILE, re.M)[1]
    named = {r.name: r.specifier for r in map(Requirement, re.findall(r'"([^"]*)"', texts))}
    assert named == bounds() and set(named) == {"torch", "torchvision"}
    assert all("<" in str(specifier) for specifier in named.values())
    for requirement in requirements(*EXTRAS):
        if requirement.name in named:
            assert {each.operator for each in requirement.specifier} == {">="}, requirement
            assert "99.0" in requirement.specifier


def test_every_environment_takes_the_bounds_of_torch(tmp_path):
    """In pip's arguments, or in the constraints file that these name."""
    calls = []
    for target in ("install", "lowest", "newest"):
        command = ["make", "-n", "-B", target, f"VENV={tmp_path}", "TORCH_INDEX="]
        said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        calls += [line for line in said.splitlines() if "pip install" in line and "-e" in line]
    assert len(calls) >= 3
    lowest = subprocess.run([sys.executable, "tools/lowest.py"], cwd=ROOT, capture_output=True, text=True, check=True)
    for call in calls:
        held = call + lowest.stdout * ("-c _build/lowest.txt" in call)
        held += (ROOT / "requirements.lock").read_text() * ("-c requirements.lock" in call)
        assert "torch<2.14" in held and "torchvision<0.29" in held, call


def test_lock_leaves_torch_free_and_holds_everything_else():
    pinned = lock()
    assert not [name for name in pinned if re.match(r"torch$|torchvision$|nvidia|triton|calibkit", name)]
    assert not [version for version in pinned.values() if "+" in version]
    for requirement in requirements(*INSTALLED):
        name = requirement.name.lower().replace("_", "-")
        if name not in ("torch", "torchvision"):
            assert pinned[name] in requirement.specifier, requirement


def test_core_dependencies_are_two():
    assert {r.name for r in requirements()} == {"numpy", "torch"}


def third_party(tree: ast.AST, *, extra: str | None = None) -> Iterator[tuple[str | None, str]]:
    """(extra, module) of each import that is run, the extra being that of the ``with needs(...)`` around it."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from ((extra, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield extra, node.module
        inside = extra
        if isinstance(node, ast.With) and getattr(node.items[0].context_expr, "func", None) is not None:
            call = node.items[0].context_expr
            inside = call.args[0].value if getattr(call.func, "id", "") == "needs" else extra
        yield from third_party(node, extra=inside)


DISTRIBUTIONS = {"PIL": "pillow", "sklearn": "scikit-learn", "lightning_fabric": "lightning-fabric"}


def test_every_import_of_an_extra_names_the_extra_that_has_it():
    found = set()
    for path in sorted((ROOT / "calibkit").rglob("*.py")):
        for extra, module in third_party(ast.parse(path.read_text())):
            name = module.partition(".")[0]
            if name not in sys.stdlib_module_names | {"calibkit", "numpy", "torch"}:
                found.add((name, extra))
                assert extra is not None, f"{path.name} imports {name} outside of needs(...)"
                assert DISTRIBUTIONS.get(name, name) in {r.name for r in requirements(extra)}, (path.name, name, extra)
    assert {extra for _, extra in found} == {"deploy", "plots", "report", "sklearn", "streaming", "train"}


#: Python where nothing but the core dependencies can be found.
CORE = """
import sys

class Without:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in %r else self.finder.find_spec(name, path, target)

sys.meta_path = [Without(finder) for finder in sys.meta_path]
"""
BLOCKED = (
    "pandas matplotlib sklearn scipy torchvision torchmetrics lightning_fabric tqdm PIL seaborn hypothesis "
    "onnx onnxscript"
).split()


def in_core(code: str, *arguments: object) -> subprocess.CompletedProcess:
    """Run code where only the core dependencies can be imported."""
    command = [sys.executable, "-c", CORE % BLOCKED + code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


@pytest.mark.slow
def test_core_install_calibrates_and_evaluates(too_sure, tmp_path):
    """By the command line, with every method on logits but isotonic regression and three that take seconds."""
    methods = sorted(set(CALIBRATORS) - {"isotonic", "neural_clamping", "ms_odir", "dir_odir", "pts"})
    code = "from calibkit.__main__ import main; sys.exit(main(['evaluate', sys.argv[1]])"
    code += " or sum(main(['calibrate', sys.argv[1], '--calibrator', name]) for name in sys.argv[2:]))"
    done = in_core(code, too_sure.save(tmp_path / "mine.npz"), *methods)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(re.findall("^ece ", done.stdout, re.M)) == 1 + len(methods)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "module", "extra"),
    [
        ("from calibkit import plots", "matplotlib", "plots"),
        ("from calibkit import read; read('mine.csv', kind='logits')", "pandas", "report"),
        ("from calibkit import models; models.build('resnet50', 10)", "torchvision", "train"),
    ],
)
def test_missing_extra_is_named(code, module, extra):
    done = in_core(code)
    text = f"{module} is not installed, and this needs it: in the checkout, pip install '.[{extra}]'"
    assert done.stderr.splitlines()[-1] == f"ModuleNotFoundError: {text}"


@pytest.mark.slow
@pytest.mark.parametrize("source", ["mine.csv", "mine.npz"])
def test_report_asks_for_its_extra_at_once(source, tmp_path):
    """Not for the one of its pictures first, and then for that of its tables; and before minutes of fitting."""
    done = in_core("from calibkit.__main__ import main; sys.exit(main(['report', sys.argv[1]]))", tmp_path / source)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr == "matplotlib is not installed, and this needs it: in the checkout, pip install '.[report]'\n"


@pytest.mark.slow
def test_a_star_takes_what_the_core_has():
    """All but what needs an extra; with these it is all that there is."""
    code = "from calibkit import *; print(*sorted(set(dir()) & set(__import__('calibkit').__dir__())))"
    done = in_core(code)
    assert done.stderr == ""
    missing = set(dir(calibkit)) - {*done.stdout.split(), "__version__"}
    assert missing == {"CalibratedClassifier", "LogitCalibrator", "estimators", "plots"}


# ------------------------------------------------------------------------------------------------ the image, Binder
def test_the_image_installs_by_make_from_files_that_are_there():
    (install,) = re.findall(r"^RUN make (.*)$", IMAGE, re.M)
    assert shlex.split(install) == ["install", "TORCH_INDEX=$TORCH_INDEX"] and "install" in TARGETS
    for copied in re.findall(r"^COPY --chown=1000 (.*) \S+$", IMAGE, re.M):
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


def test_binder_installs_the_checkout_at_the_tested_versions_on_a_supported_python_without_cuda():
    """pip runs in the folder of the file; of a Python ">=" Binder reads no version, and takes an older one."""
    python, _, pip = yaml.safe_load((BINDER / "environment.yml").read_text())["dependencies"]
    lines = dict(line.split(" ", 1) for line in pip["pip"])
    version = re.fullmatch(r"python=(\d\.\d+)", python)[1]
    assert f"{version}.99" in SpecifierSet(PROJECT["requires-python"])
    assert lines["--extra-index-url"].endswith("/whl/cpu")
    folder, extras = re.fullmatch(r"(\S+)\[(.*)\]", lines["-e"]).groups()
    assert (BINDER / folder).resolve() == ROOT and (BINDER / lines["-c"]).resolve() == ROOT / "requirements.lock"
    assert set(extras.split(",")) <= set(EXTRAS)
    assert {"jupytext", "ipykernel", "torchvision", "matplotlib"} <= {r.name for r in requirements(*extras.split(","))}


def test_nothing_goes_before_the_environment_of_binder():
    """Binder would take a Dockerfile first; in a folder ``binder`` it looks for one there alone."""
    assert [path.name for path in BINDER.iterdir()] == ["environment.yml"] and not (ROOT / ".binder").exists()
