"""The grid on a Slurm of this machine: killed midway, gone on with as the page says, and equal to a local run."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import slurm
import torch
from checkout_copies import CHAPTER, copy_checkout, environment, run
from test_makefile import commands

GRID = ["datasets=[digits]", "models=[small_cnn]", "losses=[cross_entropy,brier]", f"notebooks=[{CHAPTER}]"]
QUICK = ["--slurm-init-seconds-before-status-checks", "2", "--seconds-between-status-checks", "2"]
SECONDS = 600  # for any one step, on a machine that has other work


@pytest.fixture(scope="module")
def programs(tmp_path_factory) -> Iterator[Path]:
    """The folder of sbatch and the like, of a Slurm that ends with the tests."""
    if missing := slurm.absent():
        pytest.skip(f"no {missing[0]}: python tools/slurm.py start installs it")
    folder = tmp_path_factory.mktemp("slurm")
    try:
        yield slurm.start(folder)
    except ValueError as error:
        pytest.skip(str(error))
    finally:
        slurm.stop(folder)


def documented(program: str) -> list[list[str]]:
    """The words of the page's commands for a cluster that call a program."""
    found = [shlex.split(command) for page, command in commands() if page == "book/running.md"]
    return [words for words in found if words[0].endswith(program)]


def on_slurm(words: list[str]) -> list[str]:
    """A documented call of snakemake, for the small grid and with quick looks at the jobs."""
    settings = words.index("--config")
    return [sys.executable, "-m", "snakemake", *words[1:settings], *QUICK, "--config", *GRID]


def waits(ready: Callable[[], bool], process: subprocess.Popen) -> bool:
    until = time.monotonic() + SECONDS
    while process.poll() is None and time.monotonic() < until and not ready():
        time.sleep(0.05)
    return ready()


def test_start_twice_is_one_slurm_and_stop_leaves_none(programs):
    folder = programs.parent
    pids = {name: slurm.running(folder, name) for name in slurm.daemons(folder)}
    assert None not in pids.values()
    assert slurm.start(folder) == programs
    assert {name: slurm.running(folder, name) for name in pids} == pids
    job = slurm.ask(folder, "sbatch", "--parsable", "--output=/dev/null", "--wrap", "sleep 600")
    slurm.stop(folder)
    slurm.stop(folder)
    assert not any(slurm.running(folder, name) for name in pids)
    slurm.start(folder)  # with what it knew of its jobs
    assert f"{job} CANCELLED" in slurm.ask(folder, "squeue", "--states=all", "--noheader", "-o", "%i %T")


@pytest.mark.slow
@pytest.mark.skipif(torch.cuda.is_available(), reason="two runs on a GPU differ in the last digits")
@pytest.mark.skipif(find_spec("snakemake") is None, reason="no snakemake")
@pytest.mark.skipif(find_spec("snakemake_executor_plugin_slurm") is None, reason="no snakemake-executor-plugin-slurm")
def test_a_killed_grid_goes_on_and_gives_the_rows_of_a_local_one(programs, tmp_path):
    root, local = (copy_checkout(tmp_path / name) for name in ("cluster", "local"))
    plugin = str(Path(find_spec("snakemake_executor_plugin_slurm").origin).parents[1])
    found = environment(root, plugin)
    found["PATH"] = f"{programs}{os.pathsep}{found['PATH']}"
    (words,) = [words for words in documented("snakemake") if "squeue" in words]
    folders = [root / "runs" / "reduced" / "digits" / f"small_cnn-{loss}-s0" for loss in ("cross_entropy", "brier")]

    # One training is done, the other has begun: the end of Snakemake, then of its jobs.
    said = tmp_path / "said.txt"
    with said.open("w") as out, subprocess.Popen(on_slurm(words), cwd=root, env=found, stdout=out, stderr=out) as grid:
        half = waits(lambda: sorted(map(progress, folders)) in ([n, 31] for n in range(2, 31)), grid)
        grid.send_signal(signal.SIGKILL)
    assert half, said.read_text()
    (cancel,) = documented("scancel")
    run_id = re.search(r"SLURM run ID: (\S+)", said.read_text())[1]
    assert slurm.ask(programs.parent, "squeue", "-h", "--name", run_id), "the jobs go on"
    subprocess.run([programs / "scancel", *(w.replace("RUN_ID", run_id) for w in cancel[1:])], check=True)
    subprocess.run([sys.executable, "-m", "snakemake", "--unlock"], cwd=root, env=found, check=True)
    logs = [(folder / "log.csv").read_text() for folder in folders]

    done = subprocess.run(on_slurm(words), cwd=root, env=found, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for folder, log in zip(folders, logs, strict=True):
        text = (folder / "log.csv").read_text()
        assert text.startswith(log) and len(text.splitlines()) == 31  # the seconds of each epoch are the old ones
    assert (done.stdout + done.stderr).count("rule train:") == 1
    assert (root / "runs" / "reduced" / "notebooks" / f"{CHAPTER}.ipynb").exists()
    run_id = re.search(r"SLURM run ID: (\S+)", done.stdout + done.stderr)[1]
    columns = "Partition:10,NumCPUs:5,MinMemory:10,TimeLimit:12,tres-per-job:20,State:12,Comment:200"
    asked = slurm.ask(programs.parent, "squeue", "-h", "--states=all", "--name", run_id, "-O", columns)
    jobs = {rule.split("_")[1]: rest for *rest, rule in map(str.split, asked.splitlines())}
    assert jobs["train"] == ["gpu", "1", "8000M", "1-00:00:00", "gres:gpu:1", "COMPLETED"], asked
    assert jobs["notebook"] == jobs["train"]
    assert jobs["calibrate"] == ["cpu", "1", "4000M", "2:00:00", "N/A", "COMPLETED"], asked

    run(local, "snakemake", "recorded", "--cores", "1", "--resources", "gpu=1", "--config", *GRID)
    for name in ("ours.csv", "effects.csv"):
        assert (root / "book/results" / name).read_text() == (local / "book/results" / name).read_text()


def progress(folder: Path) -> int:
    """The lines of a log, once two epochs can be gone back to; all 31 where the logits are there."""
    if (folder / "logits.npz").exists():
        return 31
    return len((folder / "log.csv").read_text().splitlines()) if (folder / "checkpoint-previous.npz").exists() else 0


# ------------------------------------------------------------------------------------------------- what it refuses
def test_refuses_where_slurm_cannot_be_had(tmp_path, monkeypatch):
    monkeypatch.setattr(slurm, "absent", lambda: ["slurmctld"])
    monkeypatch.setattr(shutil, "which", lambda name, **_: None)
    with pytest.raises(ValueError, match="Expected `slurm` to be installed, .* but got no slurmctld and no apt-get"):
        slurm.start(tmp_path / "s")
    monkeypatch.setattr(shutil, "which", lambda name, **_: f"/usr/bin/{name}")
    monkeypatch.setattr(os, "geteuid", lambda: 65534)
    with pytest.raises(ValueError, match="Expected `user` to be root, to install Slurm by apt-get, but got nobody"):
        slurm.start(tmp_path / "s")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    failed = subprocess.CompletedProcess([], 100, "", "E: Unable to locate package slurmctld\n")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(ValueError, match="Expected `apt-get` to be able to install slurmctld, but got E: Unable"):
        slurm.start(tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_a_stale_process_number_is_no_daemon(tmp_path):
    (tmp_path / "slurmd.pid").write_text(f"{os.getpid()}\n")
    assert slurm.running(tmp_path, "slurmd") is None
    slurm.stop(tmp_path)  # and so this process is not stopped
