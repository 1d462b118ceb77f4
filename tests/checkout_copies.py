"""A copy of what a grid of trainings needs of the checkout, without a row of ours, and commands in it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from calibkit._folders import cache
from calibkit.data import DATASETS, files

ROOT = Path(__file__).resolve().parents[1]
CHAPTER = "your_model"
STORED = "book/results/logits/cifar10/resnet20-cross_entropy-s0.npz"


def copy_checkout(root: Path) -> Path:
    """The package, one chapter with the network that it shows, and the printed numbers."""
    for name in ("calibkit", "profiles", "book/kit", "book/papers"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    book = (f"notebooks/{CHAPTER}.ipynb", STORED, "book/results/paper.csv", "book/__init__.py")
    for path in ("Snakefile", "tools/onegpu.py", *book):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, root / path)
    return root


def seem_to_have_data(folder: Path) -> None:
    """Empty files where those of every data set would lie: enough for a plan."""
    for name in DATASETS:
        for path in [path for paths in files(name).values() for path in paths]:
            (folder / path.relative_to(cache())).parent.mkdir(parents=True, exist_ok=True)
            (folder / path.relative_to(cache())).touch()


def environment(root: Path, *paths: str) -> dict[str, str]:
    """That of a command in the copy: its package before all others, no data; ``paths`` come after it."""
    found = os.pathsep.join([str(root), *paths])
    return os.environ | {"PYTHONPATH": found, "OMP_NUM_THREADS": "1", "CALIBKIT_DATA": str(root / "none")}


def run(root: Path, *command: str, fails: bool = False) -> str:
    """What ``python -m command`` prints in the copy; it ends well, or else ``fails``."""
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=root, env=environment(root), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode != 0) == fails, done.stdout + done.stderr
    return done.stdout + done.stderr
