"""Training: ``fit(model, loss, data, recipe)`` gives Logits, survives a kill, and ends in the same result."""

from calibkit.training.recipes import LOSS_OPTIONS, RECIPES, VARIANTS, Recipe, recipe_of
from calibkit.training.trainer import assemble, fit, predict

__all__ = ["LOSS_OPTIONS", "RECIPES", "VARIANTS", "Recipe", "assemble", "fit", "predict", "recipe_of"]
