"""What the chapters share: checked parameters, and the tables, pictures and claims that more than one of them shows."""

from calibkit.networks import BUDGETS
from calibkit.notebook.parameter_cell import Real, parameters

__all__ = ["BUDGETS", "Real", "parameters"]
