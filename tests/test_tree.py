"""Names hide no module, files stay small, and nothing in the tree speaks of the machine it was written on."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "calibkit"

SOURCES = sorted(PACKAGE.rglob("*.py"))
TRACKED = subprocess.run(
    ["git", "-C", str(ROOT), "ls-files"], capture_output=True, text=True, check=False
).stdout.split("\n")
TEXT = {".py", ".md", ".toml", ".yml", ".yaml", ".cfg", ".bib", ".cff", ".csv", ".json", ".ipynb", ".lock", ""}


def test_no_name_hides_a_module():
    """A package that re-exports ``x.x`` as ``x`` has one of the two, depending on what was imported first."""
    hidden = []
    for path in (*PACKAGE.rglob("__init__.py"), *(ROOT / "book").rglob("__init__.py")):
        own = ".".join(path.parent.relative_to(ROOT).parts)
        below = {p.stem for p in path.parent.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()}
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module != own:
                hidden += [f"{path.parent.name}.{a.name}" for a in node.names if (a.asname or a.name) in below]
    assert not hidden


def test_one_module_knows_folders():
    words = re.compile(r"__file__|CALIBKIT_DATA\"|expanduser|Path\.home|Path\.cwd")
    knowing = [path.name for path in SOURCES if words.search(path.read_text())]
    assert knowing == ["_folders.py"]


def test_only_the_command_line_reads_arguments():
    reading = [path for path in SOURCES if re.search(r"argparse|sys\.argv|main\(\[", path.read_text())]
    assert {path.relative_to(PACKAGE).parts[0] for path in reading} == {"__main__.py", "cli"}


def test_no_file_over_300_lines():
    folders = ("calibkit", "book", "tests", "tools", "benchmarks")
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    assert not {path.name for path in paths if path.read_text().count("\n") > 300}


@pytest.mark.skipif(len(TRACKED) < 2, reason="not a git checkout")
def test_no_machine_paths():
    words = re.compile("|".join(["/" + "work/", "/" + "tmp/[a-z]", "/" + "root/", r"\.\." + "/shared"]))
    found = []
    for name in filter(None, TRACKED):
        path = ROOT / name
        if path.suffix in TEXT and name != ".ci/run" and path.is_file():
            found += [f"{name}:{i}" for i, line in enumerate(path.read_text().splitlines(), 1) if words.search(line)]
    assert not found
