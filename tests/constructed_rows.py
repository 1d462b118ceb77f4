"""Rows of the result files that a test makes up: one cell a row, and what it does not say is the ECE of a ResNet-50
on CIFAR-10 trained with cross-entropy."""

import pandas as pd

from book.kit.results import COLUMNS
from book.kit.results.paired_differences import append_effects
from calibkit import _folders

CELL = {"dataset": "cifar10", "model": "resnet50", "loss": "cross_entropy", "method": "identity", "metric": "ece"}
PRINTED = CELL | {"paper": "mbls", "table": "1", "unit": "percent", "n_bins": 15, "n_seeds": 1, "budget": "paper"}
PRINTED |= {"source": "printed"}
#: A row of the paper's own logits.
AUTHORS = {"source": "published-logits", "budget": "paper"}
MEASURED = CELL | {"unit": "fraction", "n_bins": 15, "n_seeds": 1, "budget": "paper", "source": "ours"}


def printed(*rows: dict) -> None:
    """``paper.csv`` with these rows; values are text."""
    full = [{name: str((PRINTED | row).get(name, "")) for name in COLUMNS} for row in rows]
    pd.DataFrame(full).to_csv(_folders.stored() / "paper.csv", index=False)


def falls(before: str = "5.50", after: str = "0.96") -> None:
    """A paper whose temperature scaling takes an ECE from ``before`` to ``after``."""
    printed({"value": before}, {"value": after, "method": "temperature_scaling"})


def measured_row(value: float, width: float = 0.004, **columns) -> dict:
    """A row of ours, a fraction with an interval of +- ``width``."""
    return MEASURED | {"value": value, "low": value - width, "high": value + width} | columns


def differs(value: float, width: float = 0.002, *, chance: float | None = None, **columns) -> None:
    """A difference of ours, a fraction with an interval of +- ``width``; its p-value says what the interval says."""
    row = {"dataset": "cifar10", "model": "resnet50", "loss": "cross_entropy", "method": "temperature_scaling"}
    row |= {"base_loss": columns.get("loss", "cross_entropy"), "base_method": "identity", "metric": "ece"}
    row |= {"value": value, "low": value - width, "high": value + width, "seed_error": None, "seed_df": None}
    row |= {"chance": (0.001 if abs(value) > width else 0.5) if chance is None else chance, "n_seeds": 1}
    row |= {"base_seeds": 1, "unit": "fraction", "budget": "reduced", "source": "ours", "commit": ""} | columns
    binned = row["metric"] in ("ece", "adaptive_ece", "classwise_ece")
    append_effects([{"n_bins": 15 if binned else ""} | row])
