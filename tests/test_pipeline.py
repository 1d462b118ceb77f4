"""From images to a chapter without a download: train, calibrate, record and papermill in a copy of the checkout."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pandas as pd
import pytest
from checkout_copies import CHAPTER, ROOT, copy_checkout, environment, run, seem_to_have_data

from book.kit.plans import networks_of
from book.papers import PAPERS

NETWORK = "digits/small_cnn-cross_entropy-s0"
CALL = ["snakemake", "--cores", "1", "--resources", "gpu=1"]
RECORD = ["snakemake", "recorded", "--rerun-incomplete", *CALL[1:]]
GRID = ["--config", "device=cpu", "datasets=[digits]", "models=[small_cnn]"]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory) -> Path:
    return copy_checkout(tmp_path_factory.mktemp("checkout"))


@pytest.mark.slow
def test_snakemake_trains_calibrates_records_and_runs_a_chapter(checkout):
    pytest.importorskip("snakemake")
    call = [*CALL, *GRID, f"notebooks=[{CHAPTER}]"]
    run(checkout, *call)
    folder = checkout / "runs" / "reduced" / NETWORK
    assert {path.name for path in folder.iterdir()} >= {"logits.npz", "weights.npz", "trained", "recorded", "log.csv"}
    rows = pd.read_csv(checkout / "book" / "results" / "ours.csv")
    assert set(rows["dataset"]) == {"digits"} and set(rows["budget"]) == {"reduced"}
    assert {"identity", "temperature_scaling", "vector_scaling"} <= set(rows["method"])
    nll = rows[rows["metric"] == "nll"].set_index("method")["value"]
    assert nll["temperature_scaling"] < nll["identity"] + 0.05
    chapter = nbformat.read(checkout / "runs" / "reduced" / "notebooks" / f"{CHAPTER}.ipynb", 4)
    outputs = [output for cell in chapter.cells for output in cell.get("outputs", [])]
    assert outputs and not [output for output in outputs if output.output_type == "error"]

    stamp = (folder / "logits.npz").stat().st_mtime_ns
    for marker in (folder / "trained", folder / "recorded", checkout / "runs" / "reduced" / "recorded"):
        marker.unlink()  # as Snakemake does with the outputs of a job that was killed
    assert "Nothing to be done" not in run(checkout, *call, "--rerun-incomplete")
    assert (folder / "logits.npz").stat().st_mtime_ns == stamp
    assert "Nothing to be done" in run(checkout, *call)


def test_every_chapter_takes_the_budget_that_the_grid_gives_it():
    chapters = sorted((ROOT / "notebooks").glob("*.py"))
    assert chapters and all(re.search(r"^budget = ", path.read_text(), re.M) for path in chapters)


@pytest.mark.slow
def test_a_killed_grid_goes_on_as_the_page_says(tmp_path):
    """The epochs that were done are those of the end: the seconds that each took are still the same."""
    pytest.importorskip("snakemake")
    root = copy_checkout(tmp_path)
    log = root / "runs" / "reduced" / NETWORK / "log.csv"
    command = [sys.executable, "-m", *RECORD, *GRID]
    with subprocess.Popen(command, cwd=root, env=environment(root), start_new_session=True) as grid:
        until = time.monotonic() + 200
        while not log.exists() and grid.poll() is None and time.monotonic() < until:
            time.sleep(0.05)
        os.killpg(grid.pid, signal.SIGKILL)
    done = log.read_text()
    assert 2 <= len(done.splitlines()) < 31 and not log.with_name("logits.npz").exists()
    assert "lock" in run(root, *RECORD, *GRID, fails=True)
    run(root, "snakemake", "--unlock")
    run(root, *RECORD, *GRID)
    assert log.read_text().startswith(done) and len(log.read_text().splitlines()) == 31


@pytest.mark.slow
@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("device=$(touch PWN)", "Expected `device` to be one of auto, cpu, cuda"),
        ("seed=3", "Expected `config` to be one of budget, .*, seeds, but got 'seed'"),
        ("seeds=[x]", "Expected `seeds` to be an integer >= 0, but got 'x'"),
        ("notebooks=[mine]", "Expected `notebooks` to be .*, but got 'mine'"),
        ("losses=[mylos]", "Expected `loss` to be one of cross_entropy, .*, but got 'mylos'"),
        ("models=[resnet56]", "Expected `datasets` to be in .*prepare cifar10.*, but got none of cifar10"),
    ],
)
def test_a_setting_that_is_none_stops_before_any_job(checkout, setting, message):
    pytest.importorskip("snakemake")
    assert re.search(message, run(checkout, *CALL, "--dry-run", "--config", setting, fails=True))
    assert not (checkout / "PWN").exists()


def jobs(said: str) -> dict[str, int]:
    return {rule: int(n) for rule, n in re.findall(r"^(\w+) +(\d+)$", said, re.M)}


def planned(root: Path, *config: str) -> str:
    """What a dry run says where every data set seems to be there."""
    seem_to_have_data(root / "none")
    return run(root, *CALL, "--dry-run", "--printshellcmds", "--config", *config)


@pytest.mark.slow
def test_what_each_paper_trained_is_planned_before_its_chapter(tmp_path):
    """Two papers with one recipe, and one with another on the same network: each folder once, each by its recipe."""
    pytest.importorskip("snakemake")
    root = copy_checkout(tmp_path)
    wanted = {training.folder("paper").parts[-3:] for paper in PAPERS for training in networks_of(paper)}
    assert jobs(planned(root, "budget=paper"))["train"] == len(wanted) > 150
    said = planned(
        root,
        "budget=paper",
        "paper=[class_temperature_scaling,mbls,acls]",
        "datasets=cifar10",
        "models=resnet50",
        "notebooks=[]",
    )
    trained = re.findall(
        r"--loss cross_entropy --seed 0 --paper (\w+) --budget paper --device auto > (\S+)/train.txt", said
    )
    folders = [Path(folder).relative_to(root / "runs/paper").as_posix() for _, folder in trained]
    assert sorted({paper for paper, _ in trained}) == ["class_temperature_scaling", "mbls"]
    assert sorted(set(folders)) == ["cifar10/resnet50-cross_entropy-s0", "mbls/cifar10/resnet50-cross_entropy-s0"]
    assert "-p budget paper -p device auto -p comparison cifar10/resnet50" not in said  # no such chapter in the copy


@pytest.mark.slow
def test_one_value_needs_no_brackets_and_every_training_one_gpu(tmp_path):
    pytest.importorskip("snakemake")
    root = copy_checkout(tmp_path)
    said = planned(root, "datasets=digits", "models=small_cnn", "losses=brier", "seeds=3", f"notebooks={CHAPTER}")
    assert jobs(said)["train"] == jobs(said)["notebook"] == 1
    assert "tools/onegpu.py 1 -- " in said and "--model small_cnn --loss brier --seed 3 --budget reduced" in said


PROFILE = ["--workflow-profile", "profiles/slurm", "--executor", "local", "--cores", "1"]


@pytest.mark.slow
def test_a_job_asks_for_more_when_it_is_tried_again(tmp_path, monkeypatch):
    """By the profile of a cluster, here without one: the first training fails, for there is no GPU."""
    pytest.importorskip("snakemake")
    root, grid = copy_checkout(tmp_path), [*GRID, "notebooks=[]"]
    grid[grid.index("device=cpu")] = "device=cuda"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    said = run(root, "snakemake", *PROFILE, *grid, fails=True)
    asked = re.findall(r"mem_mb=(\d+),.* slurm_partition=gpu, gpu=1, runtime=(\d+)", said)
    assert asked == [("8000", "1440"), ("16000", "2880")]


@pytest.mark.slow
def test_each_rule_asks_for_what_the_page_says(tmp_path):
    """Partition, GPUs, memory and time; with ``device=cpu`` no GPU."""
    pytest.importorskip("snakemake")
    root = copy_checkout(tmp_path)
    row = r"^\| ([a-z, ]+) \| `(\w+)` \| (\d) \| ([\d,]+) MB \| (\d+) hours \|$"
    told = {
        rule: [partition, gpus, memory.replace(",", ""), str(60 * int(hours))]
        for rules, partition, gpus, memory, hours in re.findall(row, (ROOT / "book/running.md").read_text(), re.M)
        for rule in rules.split(", ")
    }
    assert sorted(told) == ["calibrate", "notebook", "train"]
    grid = ["--dry-run", "--config", "datasets=[digits]", "models=[small_cnn]", f"notebooks=[{CHAPTER}]"]
    for device in ("auto", "cpu"):
        said = run(root, "snakemake", *PROFILE, *grid, f"device={device}")
        found = re.findall(r"^rule (\w+):.*?^    resources: (.*?)$", said, re.M | re.S)
        assert {rule for rule, _ in found} >= set(told)
        for rule, resources in found:
            asked = dict(part.split("=") for part in resources.split(", "))
            gpus = asked.get("gpu", "0")
            if rule in told:
                want = told[rule] if device == "auto" else [told[rule][0], "0", *told[rule][2:]]
                assert [asked["slurm_partition"], gpus, asked["mem_mb"], asked["runtime"]] == want
            else:
                assert gpus == "0"


@pytest.mark.slow
def test_a_chapter_takes_another_network(checkout):
    if not (checkout / "runs" / "reduced" / NETWORK / "logits.npz").exists():
        run(checkout, "calibkit", "train", "--dataset", "digits", "--model", "small_cnn", "--device", "cpu")
    path = checkout / "runs" / "reduced" / NETWORK / "logits.npz"
    out = checkout / "out.ipynb"
    command = ["papermill", f"notebooks/{CHAPTER}.ipynb", str(out), "-k", "python3", "--no-progress-bar"]
    run(checkout, *command, "-p", "source", str(path), "-p", "n_resamples", "20")
    assert "497" in out.read_text()  # its test images
    assert run(checkout, "calibkit", "calibrate", str(path), "--out", "ts.npz").rstrip().endswith("ts.npz")
