"""Imports go one way, files stay small, and nothing in the tree speaks of the machine it was written on."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "calibkit"

#: A part of the package imports, anywhere in its files, only from parts of earlier lines, or of its own line without
#: going in a circle.
LEVELS = (
    ("_blocks", "_checks", "_extras", "_files", "_folders", "_progress", "_torchvision", "keys"),
    ("_columns", "_formats", "data", "logits", "losses", "metrics", "models", "reading"),
    ("objectives",),
    ("fitting", "training"),
    ("calibrators", "networks"),
    ("plans",),
    ("conformal", "deploy", "estimators", "plots", "results"),
    ("reporting",),
    ("notebook",),
    ("_shell", "__main__"),
)
LEVEL = {name: i for i, names in enumerate(LEVELS) for name in names}
SOURCES = sorted(PACKAGE.rglob("*.py"))
TRACKED = subprocess.run(
    ["git", "-C", str(ROOT), "ls-files"], capture_output=True, text=True, check=False
).stdout.split("\n")
TEXT = {".py", ".md", ".toml", ".yml", ".yaml", ".cfg", ".bib", ".cff", ".csv", ".json", ".ipynb", ".lock", ""}


def module_of(path: Path) -> str:
    """``calibkit.metrics.binning`` of its file."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_of(path) for path in SOURCES}


def imports(source: str) -> set[str]:
    """The modules of the package that a text imports, wherever the statement stands; doctests are left out."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    while unknown := found - MODULES:  # a name inside a module stands for the module
        found = (found & MODULES) | {name.rpartition(".")[0] for name in unknown if name.startswith("calibkit.")}
    return found


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """A circle for each node from which one is reached: a walk along arrows that meets itself."""
    state, found = {}, []

    def visit(node: str, path: list[str]) -> None:
        state[node] = "open"
        for other in sorted(graph.get(node, ())):
            if state.get(other) == "open":
                found.append([*path[path.index(other) :], other])
            elif other not in state:
                visit(other, [*path, other])
        state[node] = "done"

    for node in graph:
        if node not in state:
            visit(node, [node])
    return found


def part(module: str) -> str:
    """The part of the package that a module belongs to: ``metrics`` for ``calibkit.metrics.binning``."""
    return (module.split(".") + [""])[1]


IMPORTS = {module_of(path): imports(path.read_text()) for path in SOURCES}


@pytest.mark.parametrize("module", sorted(MODULES - {"calibkit"}))
def test_imports_go_one_way(module):
    own = part(module)
    assert own in LEVEL, f"{own} has no level: name it in LEVELS"
    upward = {other for other in IMPORTS[module] if LEVEL.get(part(other), -1) > LEVEL[own]}
    assert not upward, f"{module} imports from a higher level: {upward}"


def test_no_module_and_no_part_imports_itself_by_a_detour():
    assert circles({name: others - {name} for name, others in IMPORTS.items()}) == []
    parts = {own: set() for own in LEVEL}
    for module in MODULES - {"calibkit"}:
        parts[part(module)] |= {part(other) for other in IMPORTS[module]} - {part(module), ""}
    assert circles(parts) == []


def test_every_level_names_what_exists():
    assert set(LEVEL) == {part(module) for module in MODULES} - {""}


def test_a_circle_is_seen_inside_a_function_too():
    source = "def f():\n    from book.kit.results import load\n    import calibkit.plots\n"
    assert imports(source) == {"book.kit.results", "calibkit.plots"}
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == [["b", "c", "b"]]
    graph = {name: others - {name} for name, others in IMPORTS.items()}
    graph["book.kit.results.record"] = graph["book.kit.results.record"] | imports("def f(): import calibkit.__main__")
    assert circles(graph)


def test_no_name_hides_a_module():
    """A package that re-exports ``x.x`` as ``x`` has one of the two, depending on what was imported first."""
    hidden = []
    for path in PACKAGE.rglob("__init__.py"):
        below = {p.stem for p in path.parent.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()}
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module != module_of(path):
                hidden += [f"{path.parent.name}.{a.name}" for a in node.names if (a.asname or a.name) in below]
    assert not hidden


def test_one_module_knows_folders():
    words = re.compile(r"__file__|CALIBKIT_DATA\"|expanduser|Path\.home|Path\.cwd")
    knowing = [path.name for path in SOURCES if words.search(path.read_text())]
    assert knowing == ["_folders.py"]


def test_only_the_command_line_reads_arguments():
    reading = [path.name for path in SOURCES if re.search(r"argparse|sys\.argv|main\(\[", path.read_text())]
    assert reading == ["__main__.py", "_shell.py"]


def test_the_package_needs_neither_notebooks_nor_tools():
    text = "\n".join(path.read_text() for path in SOURCES)
    assert not re.search(r"^\s*(from|import) (notebooks|tools|tests|benchmarks)\b", text, re.M)


@pytest.mark.parametrize("folder", ["calibkit", "tests", "tools", "benchmarks"])
def test_no_file_over_300_lines(folder):
    long = {p.name: n for p in (ROOT / folder).rglob("*.py") if (n := p.read_text().count("\n")) > 300}
    assert not long


def test_toc_lists_the_notebooks_that_exist():
    listed = set(re.findall(r"file: (notebooks/\w+)", (ROOT / "_toc.yml").read_text()))
    assert listed == {f"notebooks/{path.stem}" for path in (ROOT / "notebooks").glob("*.ipynb")}


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
