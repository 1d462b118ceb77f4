"""Shared by all tests: one thread, no display, torchvision importable, and logits whose true temperature is known."""

import os

os.environ.setdefault("MPLBACKEND", "Agg")

import numpy as np
import pytest
import torch

from calibkit._torchvision import ensure_importable

ensure_importable()  # before any test imports torchmetrics
torch.set_num_threads(1)


@pytest.fixture
def overconfident() -> tuple[torch.Tensor, torch.Tensor]:
    """Logits (4000, 5) that are 3 times those which the labels were drawn from: the true temperature is 3."""
    rng = np.random.default_rng(0)
    true = torch.from_numpy(rng.normal(scale=1.5, size=(4000, 5)))
    labels = (true.softmax(1).cumsum(1) < torch.from_numpy(rng.random((4000, 1)))).sum(1).clamp(max=4)
    return 3.0 * true, labels
