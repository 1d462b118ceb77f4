"""Rows of the two result files that a test makes up: one cell a row, and what it does not say is the ECE of a ResNet-50
on CIFAR-10 trained with cross-entropy."""

import pandas as pd

from calibkit.results import COLUMNS, append

CELL = {"dataset": "cifar10", "model": "resnet50", "loss": "cross_entropy", "method": "identity", "metric": "ece"}
PRINTED = CELL | {"paper": "mbls", "table": "1", "unit": "percent", "n_bins": 15, "n_seeds": 1, "budget": "paper"}
PRINTED |= {"source": "printed"}
MEASURED = CELL | {"unit": "fraction", "n_bins": 15, "n_seeds": 1, "budget": "paper", "source": "ours"}


def printed(folder, *rows: dict) -> None:
    """``paper.csv`` with these rows; values are text."""
    full = [{name: str((PRINTED | row).get(name, "")) for name in COLUMNS} for row in rows]
    pd.DataFrame(full).to_csv(folder / "paper.csv", index=False)


def measured_row(value: float, width: float = 0.004, **columns) -> dict:
    """A row of ours, a fraction with an interval of +- ``width``."""
    return MEASURED | {"value": value, "low": value - width, "high": value + width} | columns


def measured(folder, *rows: dict) -> None:
    """These rows into ``ours.csv``."""
    append(rows, folder)
