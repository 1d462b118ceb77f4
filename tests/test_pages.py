"""What the pages show is run: Python blocks and cheap commands for real, expensive ones without their work."""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import torch
from checkout_copies import seem_to_have_data
from drawn_logits import true_logits
from test_makefile import TARGETS

from book.kit import __main__ as kit
from book.kit import results
from book.kit.judging import names_a_loss
from book.kit.results.csv_rows import CELL
from book.kit.results.verdicts import informative
from calibkit import _folders, load_calibrator
from calibkit.__main__ import main
from calibkit.calibrators import CALIBRATORS, Identity
from calibkit.logits import Logits
from calibkit.metrics import nll

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "CONTRIBUTING.md", "book/using.md", "book/running.md", "book/deploy.md")
#: Those whose commands are run, too.
SHOW_COMMANDS = (*PAGES, "book/index.md", "book/protocol.md")
CLASSES = ["cat", "dog", "fox"]


def blocks(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.S)


def commands(page: str) -> list[str]:
    """Each line of each bash block, and each `make ...` in running text, once."""
    text = (ROOT / page).read_text()
    joined = "".join(re.findall(r"```bash\n(.*?)```", text, re.S)).replace("\\\n", " ")
    shown = [line.split("  #")[0].strip() for line in joined.splitlines() if line.strip()]
    return list(dict.fromkeys(shown + re.findall(r"`(make [^`]+)`", text)))


@pytest.fixture
def mine(here) -> dict[str, object]:
    """A working directory with what a page takes for granted, and the arrays that its reader has."""
    z, y = true_logits(900, 3)
    arrays = {"z_val": 2 * z[:400], "y_val": y[:400], "z_test": 2 * z[400:], "y_test": y[400:]}
    for split in ("val", "test"):
        frame = pd.DataFrame(arrays[f"z_{split}"], columns=CLASSES)
        frame.assign(label=[CLASSES[k] for k in arrays[f"y_{split}"]]).to_csv(f"{split}.csv", index=False)
    both = [pd.read_csv(f"{split}.csv").assign(split=split) for split in ("val", "test")]
    pd.concat(both).to_csv("mine.csv", index=False)
    both[1].drop(columns=["label", "split"]).to_csv("new.csv", index=False)
    Path("mine-report").mkdir()
    Identity().fit(arrays["z_val"], arrays["y_val"]).save("mine-report/calibrator.npz")
    for name in ("mine.npz", "runs/digits/logits.npz"):
        Logits(*arrays.values()).save(name)
    (here / "results").mkdir()
    return arrays


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_python_runs(page, mine, monkeypatch):
    """One after the other, as a reader would; what is recorded goes into a folder of its own."""
    if page == "book/deploy.md" and torch.__version__ < (2, 5):
        pytest.skip("torch 2.4 writes no exported program as ONNX")
    stored = _folders.stored()
    for name in ("logits", "paper.csv"):
        Path("results", name).symlink_to(stored / name)
    monkeypatch.setattr(_folders, "stored", lambda: Path("results").resolve())
    many = (mine["z_val"] + np.random.default_rng(1).logistic(size=(400, 3)) > 0).astype(int)
    seen = {**mine, "labels": many, "network": torch.nn.Linear(5, len(CLASSES))}
    for block in blocks(page):
        exec(
            compile(block, page, "exec"), {**seen, "budget": "smoke", "n_bins": 15} if "parameters(" in block else seen
        )
    plt.close("all")
    if page == "book/using.md":
        for name, array in mine.items():
            np.testing.assert_allclose(seen[name], array, rtol=1e-12)  # the tables hold what the arrays hold
        np.testing.assert_array_equal(load_calibrator("calibrator.npz")(seen["z_test"]), seen["probs"])
    if page == "CONTRIBUTING.md":
        fitted = seen["Mixture"]().fit(mine["z_val"], mine["y_val"])
        assert 0 < fitted.share < 1
        before = Identity().fit(mine["z_val"], mine["y_val"])
        assert nll(fitted(mine["z_val"]), mine["y_val"]) < nll(before(mine["z_val"]), mine["y_val"])
        assert set(results.load("ours")["method"]) == {"vector_scaling"}


@pytest.mark.slow
@pytest.mark.parametrize("page", SHOW_COMMANDS)
def test_commands_run(page, mine):
    """One after the other, as a reader would."""
    for command in commands(page):
        check_command(command)


def check_command(command: str) -> None:
    words = shlex.split(command)
    program = words[0].removeprefix(".venv/bin/")
    if program == "calibkit":
        check_command_line(words[1:])
    elif program == "make":
        dry(["make", "-n", *words[1:]], cwd=ROOT)
    elif program == "papermill":
        path = ROOT / next(word for word in words if word.endswith(".ipynb")).replace("NAME", "metrics")
        rest = [word for word in words[1:] if not word.endswith(".ipynb")]
        names = [str(path)] if "--help-notebook" in rest else [str(path), "out.ipynb", "--prepare-only"]
        said = dry([sys.executable, "-m", "papermill", *names, *rest])
        assert "Passed unknown parameter" not in said
    elif program == "snakemake":
        check_snakemake(words[1:])
    elif program == "python" and words[1:3] == ["-m", "book.kit"]:
        kit.parser().parse_args(words[3:])
    elif program == "python":
        assert all((ROOT / word).exists() for word in words if word.endswith(".py"))
    elif program == "pip":
        assert words[1] == "install" and len(words) > 2
        for extra in re.findall(r"\[(.*)\]", command):
            assert f"\n{extra} = [" in (ROOT / "pyproject.toml").read_text()
    elif program == "docker":
        assert "make" not in words or words[-1] in TARGETS
    elif program == "scancel":
        assert words[1:] == ["--name", "RUN_ID"]
    else:
        assert program == "conda" and (ROOT / words[-1]).exists()


def check_command_line(words: list[str]) -> None:
    """Run it; of what would train or download, only see that it is understood."""
    if words[0] in ("train", "data") and words[1] != "list":
        out, below = io.StringIO(), [word for word in words[:2] if word in ("data", "prepare")] or words[:1]
        with contextlib.redirect_stdout(out), pytest.raises(SystemExit) as stop:
            main([*below, "--help"])
        assert stop.value.code == 0 and all(word in out.getvalue() for word in words if word.startswith("--"))
    else:
        assert main(words) == 0


def check_snakemake(words: list[str]) -> None:
    """Plan it, on this machine even where a profile names a cluster; unlock a folder that nobody else uses."""
    pytest.importorskip("snakemake")
    command = [sys.executable, "-m", "snakemake"]
    if "--unlock" in words:
        dry([*command, "--snakefile", str(ROOT / "Snakefile"), *words])
        return
    if find_spec("snakemake_executor_plugin_slurm") is None:  # which has these options
        of_plugin = {i + more for i, word in enumerate(words) if word.startswith("--slurm") for more in (0, 1)}
        words = [word for i, word in enumerate(words) if i not in of_plugin]
    here = ["--executor", "local", "--cores", "1"] if "--workflow-profile" in words else []
    with tempfile.TemporaryDirectory() as data:
        seem_to_have_data(Path(data))
        plan = [*command, "--dry-run", "--nolock", *here, *words]
        said = dry(plan, cwd=ROOT, env=os.environ | {"CALIBKIT_DATA": data})
    assert re.search(r"^train|^recorded", said, re.M)


def dry(command: list[str], **options) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.slow
def test_readme_front_page_ledger_and_changelog_count_what_the_papers_print():
    """And are true where they say that for half of the numbers nothing was measured."""
    readme, front, ledger = ((ROOT / page).read_text() for page in ("README.md", "book/index.md", "book/ledger.md"))
    counts = results.summary().sum()
    repeats = results.everything().duplicated(["paper", *CELL]).sum()
    said = f"We transcribed {counts['printed']:,} numbers of the"
    assert f"{said} papers' tables, of which {repeats} repeat one" in ledger
    assert said in readme and "For half of them it has not" in readme
    assert f"{counts['printed']:,} printed numbers of five papers" in (ROOT / "CHANGELOG.md").read_text()
    assert 0.45 < counts["not run"] / counts["printed"] < 0.55
    n = int(informative(results.everything()).sum())
    assert f"something about a method for {n} of the papers' {counts['printed']:,} printed numbers" in front


def test_pages_name_what_exists():
    text = "\n".join((ROOT / page).read_text() for page in PAGES)
    for path in re.findall(r"`((?:calibkit|book|tests|notebooks|benchmarks|profiles)/[\w/.]*)`", text):
        assert (ROOT / path).exists(), path
    for key in re.findall(r"--calibrator \"?(\w+)", text):
        assert key in CALIBRATORS
    extras = re.findall(r"^\| `(\w+)` \| ", (ROOT / "README.md").read_text(), re.M)
    known = (ROOT / "pyproject.toml").read_text()
    assert all(f"\n{extra} = [" in known for extra in extras), extras


@pytest.mark.slow
def test_the_page_on_judging_prints_what_it_says(here, shell):
    text = (ROOT / "book" / "judge.md").read_text()
    codes, commands, printed = (re.findall(f"```{kind}\n(.*?)```", text, re.S) for kind in ("python", "bash", "text"))
    for code in codes:
        Path(re.match("# (.*)", code)[1]).write_text(code)
    for command, said in zip(commands, printed, strict=True):
        program, rest = command.split(" -m book.kit ")
        assert program == "python" and shell(shlex.split(rest), main=kit.main).out == said
    assert names_a_loss("losses.py:Smoothed") and not names_a_loss("mine.py:BrierTemperature")
