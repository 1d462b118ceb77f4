"""Notebooks: executed to the same bytes, checked against their source, and closed to unknown parameters."""

import base64
import io
import re
import subprocess
import sys
from pathlib import Path

import jupytext
import matplotlib.pyplot as plt
import nbformat
import nbtool
import numpy as np
import papermill
import pytest
from PIL import Image
from refusals import refused

from book.kit import notebook
from calibkit import Logits

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent

SOURCE = """\
# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # A page

# %% tags=["parameters"]
budget: str = "smoke"  # smoke, reduced or paper
n_bins: int = 15  # bins of ECE

# %% tags=["remove-input"]
from book.kit import notebook

notebook.parameters(globals(), budget=notebook.BUDGETS, n_bins=range(1, 101))

# %%
for i in range(3):
    print(i * n_bins, flush=True)

# %% mystnb={"figure": {"name": "fig-line"}} tags=["hide-input"]
1 + 1
"""


def write(folder: Path, text: str = SOURCE) -> Path:
    source = folder / "page.py"
    source.write_text(text)
    return source


def tool(*arguments) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, ROOT / "tools" / "nbtool.py", *arguments], capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def executed(tmp_path_factory) -> Path:
    """The folder of a page that ``run`` has executed."""
    folder = tmp_path_factory.mktemp("notebooks")
    write(folder)
    done = tool("run", "--folder", folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("page ")
    return folder


def stored(folder: Path) -> nbformat.NotebookNode:
    return nbformat.read(folder / "page.ipynb", 4)


@pytest.mark.slow
def test_run_stores_outputs_and_nothing_volatile(executed):
    nb = stored(executed)
    assert nb.metadata == {"kernelspec": nbtool.KERNEL}
    assert [cell.id for cell in nb.cells] == [f"cell-{i:02d}" for i in range(5)]
    assert [cell.metadata for cell in nb.cells][1] == {"tags": ["parameters"]}
    assert nb.cells[3].outputs == [{"output_type": "stream", "name": "stdout", "text": "0\n15\n30\n"}]
    assert nb.cells[4].metadata == {"tags": ["hide-input"], "mystnb": {"figure": {"name": "fig-line"}}}
    assert [c.execution_count for c in nb.cells if c.cell_type == "code"] == [1, 2, 3, 4]


@pytest.mark.slow
def test_second_run_gives_the_same_bytes(executed):
    before = (executed / "page.ipynb").read_bytes()
    nbtool.execute(executed / "page.py", executed / "page.ipynb")
    assert (executed / "page.ipynb").read_bytes() == before
    assert {path.name for path in executed.iterdir()} == {"page.py", "page.ipynb"}


@pytest.mark.slow
def test_failing_cell_fails_the_run_and_keeps_the_old_notebook(tmp_path):
    write(tmp_path, SOURCE + "\n# %%\nraise RuntimeError('no such network')\n")
    (tmp_path / "page.ipynb").write_text("old")
    done = tool("run", "page", "--folder", tmp_path)
    assert done.returncode == 1 and "no such network" in done.stderr
    assert (tmp_path / "page.ipynb").read_text() == "old"


def faults_after(executed: Path, folder: Path, change) -> list[str]:
    write(folder)
    nb = stored(executed)
    change(nb)
    nbformat.write(nb, folder / "page.ipynb")
    return nbtool.faults(folder / "page.py")


def of_cell(i: int, **values):
    """A change of one cell."""
    return lambda nb: nb.cells[i].update(values)


def puts_out(kind: str, **values):
    """A change of what a cell has put out."""
    return of_cell(3, outputs=[nbformat.v4.new_output(kind, **values)])


FAULTS = {
    "cell 3 differs from the .py": of_cell(3, source="print(n_bins)"),
    "cell 4 differs from the .py": of_cell(
        4, metadata=nbformat.from_dict({"mystnb": {"figure": {"name": "fig-line"}}})
    ),
    "cell 4 differs from the .py: run": lambda nb: nb.cells.pop(),
    "cell 3 was not executed": of_cell(3, execution_count=None),
    "cell 3 ended in KeyError": puts_out("error", ename="KeyError", evalue="", traceback=[]),
    "cell 3 writes to stderr": puts_out("stream", name="stderr", text="UserWarning: slow"),
    "cell 3 shows a path": puts_out("stream", text=f"saved {ROOT}/out.npz"),
    "cell 3 leaves rows of a table out": puts_out("display_data", data={"text/html": "<p>72 rows × 2 columns</p>"}),
    "bytes, more than 500,000": puts_out("stream", text="x" * 500_001),
}


def test_check_finds_each_fault_and_no_other(executed, tmp_path):
    for fault, change in FAULTS.items():
        (found,) = faults_after(executed, tmp_path, change)
        assert fault in found


def test_check_accepts_what_run_wrote(executed, tmp_path, capsys):
    assert faults_after(executed, tmp_path, lambda nb: None) == []
    assert nbtool.main(["check", "--folder", str(tmp_path)]) == 0
    assert "1 notebooks are the executed twins" in capsys.readouterr().out


def test_check_finds_a_missing_twin_and_missing_parameters(tmp_path, capsys):
    write(tmp_path, '# %% [markdown]\n# # A page\n\n# %%\n"no parameters"\n')
    assert nbtool.faults(tmp_path / "page.py") == ["has no .ipynb: run `make notebooks`"]
    cells = [nbformat.v4.new_markdown_cell("# A page"), nbformat.v4.new_code_cell('"no parameters"', execution_count=1)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "page.ipynb")
    assert nbtool.faults(tmp_path / "page.py") == ["has no cell tagged `parameters`"]
    (tmp_path / "page.py").unlink()
    assert nbtool.main(["check", "--folder", str(tmp_path)]) == 1
    assert "page.ipynb: has no .py" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (["binz", "3"], "Expected `binz` to be one of the parameters budget, n_bins, but got an unknown name"),
        (["n_bins", "0"], "Expected `n_bins` to be an integer in [1, 100], but got 0"),
        (["n_bins", "7"], None),
    ],
)
def test_papermill_stops_at_bad_parameters(executed, tmp_path, parameters, message):
    done = subprocess.run(
        [BIN / "papermill", executed / "page.ipynb", tmp_path / "out.ipynb", "-k", "python3", "-p", *parameters],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode == 0) == (message is None), done.stderr
    assert message is None or f"ValueError: {message}" in done.stderr
    assert message is not None or "Captions, labels" in (tmp_path / "out.ipynb").read_text()


def test_a_line_tells_of_captions_where_papermill_was_given_parameters(capsys):
    for given in ([], ["# Parameters\nx = 1\n"]):
        notebook.parameters({"x": 1, "In": ["", "x = 0", *given]}, x=range(3))
        assert ("typed sentences do not." in capsys.readouterr().out) == bool(given)


def test_impossible_values_are_refused():
    for value, allowed in (
        ("huge", ("smoke", "paper")), (["mbls", "mb"], [{"mbls": 1}]), (["mbls"], {"mbls": 1}),
        ("mbls", [str]), ([], [str]),
        (6.0, [notebook.Real(0, 9)]), ([1], [str, ...]), (15.0, range(1, 101)), (True, range(1, 101)),
        (101, range(1, 101)), (0.0, notebook.Real(0, 1, open_low=True)), ("1", notebook.Real(0, 1)), (3, str),
        (True, int), (3, 3),
    ):  # fmt: skip
        refused("`x` to be", notebook.parameters, {"x": value}, x=allowed)


def test_possible_values_are_accepted():
    namespace = {"a": "smoke", "b": 15, "c": 0.5, "d": ["mbls"], "e": "x.npz", "f": True, "namespace": 1}
    namespace["g"] = []
    notebook.parameters(
        namespace, a=notebook.BUDGETS, b=range(1, 101), c=notebook.Real(0, 1), d=[{"mbls": 1}], e=str, f=bool,
        namespace=range(3), g=[str, ...],
    )  # fmt: skip


def test_missing_parameter_is_named():
    refused("`x` to be defined in the cell tagged `parameters`, but got nothing", notebook.parameters, {}, x=range(3))


def test_a_largest_temperature_below_the_spacing_is_told_by_its_name():
    """And not as an empty grid, which no reader has set."""
    cells = (cell.source for cell in jupytext.read(ROOT / "notebooks" / "class_temperature_scaling.py").cells)
    given, checks = (next(cell for cell in cells if start in cell) for start in ("grid_max = 10.0", "grid_max="))
    with pytest.raises(ValueError, match="^Expected `grid_max` to be .*, but got 0.05"):
        exec(f"{given.replace('grid_max = 10.0', 'grid_max = 0.05')}\n{checks.partition('from functools')[0]}", {})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("chapter", "choosing"),
    [
        ("acls", ["rows = subset(test_y"]),
        (
            "class_temperature_scaling",
            ["data = notebook", "def gap_of", "def naive", "few = ", "search = partial", "sizes = ", "full = gains"],
        ),
    ],
)
def test_a_chapter_takes_the_logits_of_few_samples(tmp_path, chapter, choosing):
    """Through papermill, of each chapter the cells that choose among the samples."""
    rng = np.random.default_rng(0)
    z, y = rng.normal(size=(90, 3)), rng.integers(0, 3, 90)
    given = {"logits": str(Logits(z, y, z, y, {}).save(tmp_path / "mine.npz")), "n_resamples": 10}
    page, first = jupytext.read(ROOT / "notebooks" / f"{chapter}.py"), "notebook.parameters("
    page.cells = [
        cell
        for cell in page.cells
        if "parameters" in cell.metadata.get("tags", ())
        or (cell.cell_type == "code" and any(start in cell.source for start in [first, *choosing]))
    ]
    assert len(page.cells) == 2 + len(choosing)
    papermill.execute_notebook(page, None, given, kernel_name="python3", cwd=ROOT, progress_bar=False)


def test_running_the_cell_again_looks_at_values_only():
    namespace = {"x": 1}
    notebook.parameters(namespace, x=range(3))
    namespace["temperature"] = 2.0  # a later cell's variable
    notebook.parameters(namespace, x=range(3))
    namespace["x"] = 9
    refused(r".*an integer in \[0, 2\]", notebook.parameters, namespace, x=range(3))


def test_figures_shrink_to_a_palette_and_look_the_same():
    fig, ax = plt.subplots()
    for i in range(5):
        ax.plot(np.cumsum(np.sin(np.arange(200) * (i + 1))), alpha=0.6)
    ax.fill_between(range(200), -5, 5, alpha=0.2)
    stream = io.BytesIO()
    fig.savefig(stream)
    plt.close(fig)
    before = base64.b64encode(stream.getvalue()).decode()
    after = nbtool.shrink(before)
    assert len(after) < 0.6 * len(before) and nbtool.shrink(after) == after == nbtool.shrink(before)
    a, b = (np.asarray(Image.open(io.BytesIO(base64.b64decode(p))).convert("RGB"), int) for p in (before, after))
    assert a.shape == b.shape and np.abs(a - b).mean() < 1 and np.abs(a - b).max() < 16


@pytest.mark.slow
def test_run_into_a_folder_leaves_the_sources_alone_and_what_is_unchanged_out(executed, tmp_path):
    """What `make book` does: no file of the checkout changes, and a second call executes nothing."""
    write(tmp_path)
    into = tmp_path / "built"

    done = tool("run", "--folder", tmp_path, "--into", into)
    assert done.returncode == 0 and re.match(r"page +\d+\.\d s\n$", done.stdout), done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["built", "page.py"]
    assert (into / "page.ipynb").read_bytes() == (executed / "page.ipynb").read_bytes()
    assert re.match(r"page +as before\n$", tool("run", "--folder", tmp_path, "--into", into).stdout)
    write(tmp_path, SOURCE.replace("range(3)", "range(4)"))
    assert re.match(r"page +\d+\.\d s\n$", tool("run", "--folder", tmp_path, "--into", into).stdout)
