"""Where things lie: the one module that knows a folder.

In a checkout the stored results are ``book/results`` beside the package, and trainings go to ``runs``. An installed
package carries a copy of what is read from there, and trains below the working directory.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent


def checkout() -> Path | None:
    """The root of the checkout that holds the package; None where it is installed elsewhere."""
    root = PACKAGE.parent
    return root if (root / "book" / "results" / "paper.csv").exists() else None


def stored() -> Path:
    """What is committed: ``paper.csv``, ``ours.csv``, ``logits/``, ``weights/``, ``maps/``."""
    root = checkout()
    return root / "book" / "results" if root else PACKAGE / "stored"


def runs(budget: str) -> Path:
    """Where trainings of a budget go: ``runs/<budget>`` of the checkout, else of the working directory."""
    return (checkout() or Path.cwd()) / "runs" / budget


def cache() -> Path:
    """Data sets and other people's networks: ``$CALIBKIT_DATA`` or ``~/.cache/calibkit``."""
    return Path(os.environ.get("CALIBKIT_DATA") or "~/.cache/calibkit").expanduser()


def commit() -> str:
    """The short commit of the checkout; "unknown" where there is none, or no git."""
    root = checkout()
    if root is None:
        return "unknown"
    command = ["git", "rev-parse", "--short", "HEAD"]
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    except OSError:  # no git, or none that runs
        return "unknown"
    return done.stdout.strip() or "unknown"
