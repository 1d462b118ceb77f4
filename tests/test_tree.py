"""Names hide no module, files stay small, and nothing speaks of the machine or rests on the order of the samples."""

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


# ------------------------------------------------------------------------------------- the order of the samples
# Nothing rests on it: no chapter, tool, page or module takes the first or the last n of them. A sorted data set gives
# some classes that way. ``calibkit.data.subset`` and ``halves`` draw instead.
#
# It is looked for in the syntax: a slice with one end, ``[:n]`` or ``[n:]``, along the first axis of what is named as
# samples are, and numpy's and pandas' own ways to take a head or to cut. What was permuted is named for its order and
# not for what it orders: ``labels[order[:n]]`` passes. So do one sample or none, of which only the shape is of use.
SAMPLES = re.compile(r"(^|_)(images|labels|logits|inputs|probs|samples|confidence)$|^(val|test|train|z|y|x)_\w+$")
CUTS = ("head", "tail", "array_split", "hsplit", "vsplit", "chunk", "narrow", "take")


def named(node: ast.expr) -> str:
    """What is sliced: ``data.test_logits`` and ``data["test_logits"]`` are test_logits, ``x.test[0]`` is test."""
    if isinstance(node, ast.Subscript):
        text = isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str)
        return node.slice.value if text else named(node.value)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return named(node.func.value)  # test_labels.astype(int)
    return {ast.Name: lambda: node.id, ast.Attribute: lambda: node.attr}.get(type(node), str)()


def cuts(source: str) -> list[str]:
    """Heads, tails and halves of samples in Python code."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Subscript):
            first = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) and node.slice.elts else node.slice
            one_end = isinstance(first, ast.Slice) and (first.lower is None) != (first.upper is None)
            few = isinstance(first, ast.Slice) and getattr(first.upper, "value", None) in (0, 1)
            if one_end and not few and SAMPLES.search(named(node.value)):
                found.append(ast.unparse(node))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            of_library = named(node.func.value) in ("np", "torch")
            of = node.args[0] if of_library and node.args else node.func.value
            split = of_library and node.func.attr == "split"  # tensor.split() makes batches
            if (split or node.func.attr in CUTS) and SAMPLES.search(named(of)):
                found.append(ast.unparse(node))
    return found


def test_no_module_takes_a_head():
    for folder in ["calibkit", "notebooks", "tools"]:
        found = {path.name: cuts(path.read_text()) for path in sorted((ROOT / folder).rglob("*.py"))}
        assert found and not {name: of for name, of in found.items() if of}


def test_no_page_takes_a_head():
    pages = [*ROOT.glob("*.md"), *(ROOT / "book").rglob("*.md")]
    blocks = {path: re.findall(r"^```python\n(.*?)^```", path.read_text(), re.M | re.S) for path in pages}
    found = {path.name: [cut for block in of for cut in cuts(block)] for path, of in blocks.items() if of}
    assert found and not {name: of for name, of in found.items() if of}
