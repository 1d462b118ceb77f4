"""Where things lie: the one module that knows a folder.

In a checkout the stored results are ``book/results``, and trainings go to ``runs``: that which holds the package, or
that in which a package works that is installed elsewhere. Without one nothing is stored, and trainings go below the
working directory.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent


def checkout() -> Path | None:
    """The root of the checkout that holds the package, or is the working directory; None where neither is one."""
    roots = (PACKAGE.parent, Path.cwd())
    return next((root for root in roots if (root / "book" / "results" / "paper.csv").exists()), None)


def stored() -> Path:
    """What is committed: ``paper.csv``, ``ours.csv``, ``logits/``, ``weights/``, ``maps/``."""
    return (checkout() or Path.cwd()) / "book" / "results"


def runs(budget: str) -> Path:
    """Where trainings of a budget go: ``runs/<budget>`` of the checkout, else of the working directory."""
    return (checkout() or Path.cwd()) / "runs" / budget


def cache() -> Path:
    """Data sets and other people's networks: ``$CALIBKIT_DATA`` or ``~/.cache/calibkit``."""
    return Path(os.environ.get("CALIBKIT_DATA") or "~/.cache/calibkit").expanduser()


def commit() -> str:
    """The short commit of the checkout; "unknown" where there is none, or no git. An archive of one has none.

    Asked there, git would answer for a repository of the user's own, that the archive was unpacked in.
    """
    root = checkout()
    if root is None or not (root / ".git").exists():  # a file in a worktree
        return "unknown"
    command = ["git", "rev-parse", "--short", "HEAD"]
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    except OSError:  # no git, or none that runs
        return "unknown"
    return done.stdout.strip() or "unknown"
