"""Numbers that others' code gave, of ``tests/data``: each file says in "source" whose, and how."""

import json
from pathlib import Path

import numpy as np

DATA = Path(__file__).resolve().parent / "data"


def numbers(name: str) -> dict:
    return json.loads((DATA / f"{name}_oracle.json").read_text())


def arrays(name: str) -> dict[str, np.ndarray]:
    with np.load(DATA / f"{name}_oracle.npz", allow_pickle=False) as archive:
        return dict(archive)
