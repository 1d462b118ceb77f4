"""Training: ``fit(model, loss, data, recipe)`` gives Logits, survives a kill, and ends in the same result.

``setup`` puts network, loss, recipe and data together, ``trainer`` runs the epochs, in a folder that ``run_folder``
keeps, and ``inference`` takes the logits.
"""

from calibkit.training.inference import predict
from calibkit.training.recipes import (
    LOSS_OPTIONS,
    MODEL_SETTINGS,
    RECIPES,
    VARIANTS,
    Recipe,
    as_stored,
    named_for,
    owner_of,
    recipe_of,
)
from calibkit.training.setup import assemble
from calibkit.training.trainer import fit

__all__ = [
    "LOSS_OPTIONS", "MODEL_SETTINGS", "RECIPES", "VARIANTS", "Recipe", "as_stored", "assemble", "fit", "named_for",
    "owner_of", "predict", "recipe_of",
]  # fmt: skip
