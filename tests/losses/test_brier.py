"""Brier score."""

import pytest
import torch

from calibkit.losses.brier import Brier


def test_value(three):
    assert Brier()(*three).item() == pytest.approx(0.255709, abs=1e-6)


def test_range():
    """0 for full confidence in the right class, 2 in a wrong one, (1 - 1/K) for uniform probabilities."""
    logits = torch.tensor([[1e4, 0, 0, 0], [1e4, 0, 0, 0], [0, 0, 0, 0]])
    values = [Brier()(row[None], torch.tensor([label])).item() for row, label in zip(logits, [0, 1, 2], strict=True)]
    assert values == [0.0, 2.0, 0.75]


def test_gradient(batch, gradient, one_hot):
    logits, labels = batch
    p = logits.softmax(1)
    d = p - one_hot(labels, 6)
    want = 2 * p * (d - (p * d).sum(1, keepdim=True)) / 12
    assert torch.allclose(gradient(Brier(), logits, labels), want)
