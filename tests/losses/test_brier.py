"""Brier score."""

import torch

from calibkit.losses.brier import Brier


def test_range():
    """0 for full confidence in the right class, 2 in a wrong one, (1 - 1/K) for uniform probabilities."""
    logits = torch.tensor([[1e4, 0, 0, 0], [1e4, 0, 0, 0], [0, 0, 0, 0]])
    values = [Brier()(row[None], torch.tensor([label])).item() for row, label in zip(logits, [0, 1, 2], strict=True)]
    assert values == [0.0, 2.0, 0.75]
