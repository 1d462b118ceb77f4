"""What the chapters share: checked parameters, and the tables, pictures and claims that more than one of them shows."""

from book.kit.notebook.comparisons import (
    by_loss,
    by_margin,
    logits_of,
    method_key,
    number,
    rank_correlation,
    side_by_side,
)
from book.kit.notebook.parameter_cell import DEVICES, Real, parameters
from calibkit.networks import BUDGETS

__all__ = [
    "BUDGETS", "DEVICES", "Real", "by_loss", "by_margin", "logits_of", "method_key", "number", "parameters",
    "rank_correlation", "side_by_side",
]  # fmt: skip
