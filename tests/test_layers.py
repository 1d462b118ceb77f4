"""Imports go one way, files stay small, and nothing in the tree speaks of the machine it was written on."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "calibkit"

#: A module imports only from lower levels, or from its own folder.
LEVELS = (
    ("_checks", "_io", "_keys", "_torchvision"),
    ("metrics", "logits", "models", "data", "notebook"),
    (
        "objectives",
        "losses",
        "comparison",
        "results",
        "plots",
        "_run",
        "recipes",
        "_batches",
        "_held_out",
        "_distributed",
    ),
    ("calibrators", "train"),
    ("deploy", "record"),
    ("__main__",),
)
LEVEL = {name: i for i, names in enumerate(LEVELS) for name in names}
SOURCES = sorted(PACKAGE.rglob("*.py"))
TRACKED = subprocess.run(
    ["git", "-C", str(ROOT), "ls-files"], capture_output=True, text=True, check=False
).stdout.split("\n")
TEXT = {".py", ".md", ".toml", ".yml", ".yaml", ".cfg", ".bib", ".cff", ".csv", ".json", ".ipynb", ".lock", ""}


def part(path: Path) -> str:
    """The name of a source file at the top of the package: ``metrics`` for ``calibkit/metrics/binning.py``."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_parts(path: Path) -> set[str]:
    """The top-level parts of the package that a file imports when it is imported."""
    found = set()
    for node in ast.parse(path.read_text()).body:  # imports inside functions come late on purpose
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "calibkit":
            below = node.module.split(".")[1:2]
            found.update(below or [alias.name for alias in node.names])
        elif isinstance(node, ast.Import):
            found.update(alias.name.split(".")[1] for alias in node.names if alias.name.startswith("calibkit."))
    return found


@pytest.mark.parametrize(
    "path", [p for p in SOURCES if p != PACKAGE / "__init__.py"], ids=lambda p: str(p.relative_to(ROOT))
)
def test_imports_go_one_way(path):
    own = part(path)
    assert own in LEVEL, f"{own} has no level: name it in LEVELS"
    upward = {name for name in imported_parts(path) if name != own and LEVEL.get(name, -1) > LEVEL[own]}
    assert not upward, f"{path.name} imports from a higher level: {upward}"


def test_the_package_needs_neither_notebooks_nor_tools():
    text = "\n".join(path.read_text() for path in SOURCES)
    assert not re.search(r"^\s*(from|import) (notebooks|tools|tests|benchmarks)\b", text, re.M)


@pytest.mark.parametrize("folder", ["calibkit", "tests", "tools", "benchmarks"])
def test_no_file_over_300_lines(folder):
    long = {p.name: n for p in (ROOT / folder).rglob("*.py") if (n := p.read_text().count("\n")) > 300}
    assert not long


def test_toc_lists_the_notebooks_that_exist():
    listed = set(re.findall(r"file: (notebooks/\w+)", (ROOT / "_toc.yml").read_text()))
    assert listed == {name.removesuffix(".ipynb") for name in TRACKED if re.fullmatch(r"notebooks/\w+\.ipynb", name)}


def test_notebooks_are_small():
    big = {
        path.name: path.stat().st_size for path in (ROOT / "notebooks").glob("*.ipynb") if path.stat().st_size > 500_000
    }
    assert not big


@pytest.mark.skipif(len(TRACKED) < 2, reason="not a git checkout")
def test_no_machine_paths():
    words = re.compile("|".join(["/" + "work/", "/" + "tmp/[a-z]", "/" + "root/", r"\.\." + "/shared"]))
    found = []
    for name in filter(None, TRACKED):
        path = ROOT / name
        if path.suffix in TEXT and name != ".ci/run" and path.is_file():
            found += [f"{name}:{i}" for i, line in enumerate(path.read_text().splitlines(), 1) if words.search(line)]
    assert not found
