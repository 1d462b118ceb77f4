"""From images to a chapter without a download: train, calibrate, record and papermill in a copy of the checkout."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pandas as pd
import pytest

ROOT = Path(__file__).resolve().parents[1]
NETWORK = "digits/small_cnn-cross_entropy-s0"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory) -> Path:
    """The package, one chapter with the network and the simulations that it shows, and the printed numbers; no row of
    ours.
    """
    root = tmp_path_factory.mktemp("checkout")
    shutil.copytree(ROOT / "calibkit", root / "calibkit", ignore=shutil.ignore_patterns("__pycache__"))
    (root / "book" / "results" / "chapters").mkdir(parents=True)
    for name in ("paper.csv", "chapters/metrics.csv"):
        shutil.copy(ROOT / "book" / "results" / name, root / "book" / "results" / name)
    stored = Path("book/results/logits/cifar10/resnet20-cross_entropy-s0.npz")
    (root / stored).parent.mkdir(parents=True)
    shutil.copy(ROOT / stored, root / stored)
    (root / "notebooks").mkdir()
    shutil.copy(ROOT / "notebooks" / "metrics.ipynb", root / "notebooks")
    shutil.copy(ROOT / "Snakefile", root)
    return root


def run(root: Path, *command: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(root), "OMP_NUM_THREADS": "1", "CALIBKIT_DATA": str(root / "none")}
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=root, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_snakemake_trains_calibrates_records_and_runs_a_chapter(checkout):
    pytest.importorskip("snakemake")
    call = ["snakemake", "--cores", "1", "--resources", "gpu=1", "--config", "budget=reduced", "device=cpu"]
    call += ["datasets=[digits]", "models=[small_cnn]", "notebooks=[metrics]"]
    run(checkout, *call)
    folder = checkout / "runs" / "reduced" / NETWORK
    assert {path.name for path in folder.iterdir()} >= {"logits.npz", "weights.npz", "trained", "recorded", "log.csv"}
    rows = pd.read_csv(checkout / "book" / "results" / "ours.csv")
    assert set(rows["dataset"]) == {"digits"} and set(rows["budget"]) == {"reduced"}
    assert {"identity", "temperature_scaling", "vector_scaling"} <= set(rows["method"])
    nll = rows[rows["metric"] == "nll"].set_index("method")["value"]
    assert nll["temperature_scaling"] < nll["identity"] + 0.05
    chapter = nbformat.read(checkout / "runs" / "reduced" / "notebooks" / "metrics.ipynb", 4)
    outputs = [output for cell in chapter.cells for output in cell.get("outputs", [])]
    assert outputs and not [output for output in outputs if output.output_type == "error"]

    stamp = (folder / "logits.npz").stat().st_mtime_ns
    for marker in (folder / "trained", folder / "recorded", checkout / "runs" / "reduced" / "recorded"):
        marker.unlink()  # as Snakemake does with the outputs of a job that was killed
    assert "Nothing to be done" not in run(checkout, *call, "--rerun-incomplete")
    assert (folder / "logits.npz").stat().st_mtime_ns == stamp
    assert "Nothing to be done" in run(checkout, *call)
    (checkout / "PWN").unlink(missing_ok=True)
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", "--cores", "1", "--config", "device=$(touch PWN)"],
        cwd=checkout, env=os.environ | {"PYTHONPATH": str(checkout)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode != 0 and "Expected `device` to be one of auto, cpu, cuda" in done.stdout + done.stderr
    assert not (checkout / "PWN").exists()


def test_a_chapter_takes_another_network(checkout):
    if not (checkout / "runs" / "reduced" / NETWORK / "logits.npz").exists():
        run(checkout, "calibkit", "train", "--dataset", "digits", "--model", "small_cnn", "--device", "cpu")
    path = checkout / "runs" / "reduced" / NETWORK / "logits.npz"
    out = checkout / "out.ipynb"
    command = ["papermill", "notebooks/metrics.ipynb", str(out), "-k", "python3", "--no-progress-bar"]
    run(checkout, *command, "-p", "logits", str(path), "-p", "n_repeats", "20")
    assert "497" in out.read_text()  # its test images
    assert run(checkout, "calibkit", "calibrate", str(path), "--out", "ts.npz").rstrip().endswith("ts.npz")
