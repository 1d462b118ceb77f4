"""Focal loss."""

import pytest
import torch

from calibkit.losses.cross_entropy import CrossEntropy
from calibkit.losses.focal import Focal


def test_value_by_hand():
    """p_y = 1/2: (1/2)^2 log 2."""
    assert Focal(gamma=2.0)(torch.zeros(1, 2), torch.tensor([1])).item() == pytest.approx(0.1732868, abs=1e-7)


@pytest.mark.parametrize("gamma", [0.5, 3.0])
def test_gradient(batch, gradient, one_hot, gamma):
    """g (p - q) with g = (1 - p_y)^gamma - gamma p_y (1 - p_y)^(gamma - 1) log p_y (Mukhoti et al. 2020)."""
    logits, labels = batch
    p, q = logits.softmax(1), one_hot(labels, 6)
    p_y = (p * q).sum(1, keepdim=True)
    g = (1 - p_y) ** gamma - gamma * p_y * (1 - p_y) ** (gamma - 1) * p_y.log()
    assert torch.allclose(gradient(Focal(gamma=gamma), logits, labels), g * (p - q) / 12, rtol=1e-10)


def test_gamma_zero_is_cross_entropy(batch):
    assert torch.equal(Focal(gamma=0.0)(*batch), CrossEntropy()(*batch))


def test_small_gamma_has_a_gradient_at_full_confidence():
    """(1 - p)^gamma has an infinite slope at p = 1 for gamma < 1, the loss has not."""
    logits = torch.tensor([[200.0, 0.0], [15.0, 0.0]], requires_grad=True)
    Focal(gamma=0.3)(logits, torch.tensor([0, 0])).backward()
    assert logits.grad[0].abs().max() == 0 and 0 < logits.grad[1, 1] < 1e-6
