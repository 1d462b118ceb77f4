"""What pyproject.toml cannot say: an installed package carries the numbers of the book and the names of its networks.

In a checkout, and so in an editable install, they are read from ``book/results``; see ``calibkit/_folders.py``.
"""

import csv
import json
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

RESULTS = Path(__file__).resolve().parent / "book" / "results"
STORED = ("paper.csv", "ours.csv", "effects.csv", "third_party.csv", "claims.csv", "networks.csv")


class BuildPy(build_py):
    """Puts ``stored/`` into a built package."""

    def run(self) -> None:
        """Build the package, then copy the rows and list the networks."""
        super().run()
        if self.editable_mode:
            return
        folder = Path(self.build_lib) / "calibkit" / "stored"
        folder.mkdir(parents=True, exist_ok=True)
        for name in STORED[:-1]:
            (folder / name).write_bytes((RESULTS / name).read_bytes())
        write_index(folder / "networks.csv")

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        """The files of ``stored/`` too."""
        folder = Path(self.build_lib) / "calibkit" / "stored"
        return super().get_outputs(include_bytecode) + [str(folder / name) for name in STORED]


def write_index(path: Path) -> None:
    """The networks whose Logits lie in ``book/results/logits``: name, budget, test accuracy."""
    import numpy as np

    with open(path, "w", newline="", encoding="utf-8") as stream:
        rows = csv.writer(stream, lineterminator="\n")
        rows.writerow(["name", "budget", "accuracy"])
        for file in sorted((RESULTS / "logits").glob("*/*.npz")):
            with np.load(file, allow_pickle=False) as arrays:
                meta = json.loads(str(arrays["meta"]))
            rows.writerow([f"{file.parent.name}/{file.stem}", meta["budget"], f"{meta['accuracy']:.4f}"])


setup(cmdclass={"build_py": BuildPy})
