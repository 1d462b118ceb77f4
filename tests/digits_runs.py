"""A small training on scanned digits, in double precision."""

import torch

from calibkit.models import build
from calibkit.training import Recipe

RECIPE = Recipe(4, batch_size=50, lr=0.05, schedule="cosine", precision="64-true")


def digits_model():
    torch.manual_seed(0)
    return build("small_cnn", 10, channels=1).double()
