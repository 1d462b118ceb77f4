"""Focal loss with a sample-dependent exponent."""

import math

import pytest
import torch

from calibkit.losses.flsd import FLSD
from calibkit.losses.focal import Focal


def with_true_probability(p):
    """One row of two classes whose true class 0 has probability p."""
    return torch.tensor([[p, 1 - p]], dtype=torch.float64).log(), torch.tensor([0])


def test_gamma_depends_on_the_true_class(gradient):
    for p, gamma in ((0.01, 5.0), (0.19, 5.0), (0.21, 3.0), (0.51, 3.0), (0.99, 3.0)):
        row = with_true_probability(p)
        assert torch.allclose(FLSD()(*row), Focal(gamma=gamma)(*row), rtol=1e-12)
        assert torch.allclose(gradient(FLSD(), *row), gradient(Focal(gamma=gamma), *row), rtol=1e-10)


def test_the_jump():
    """0.8^5 log 5 below p = 0.2, 0.8^3 log 5 above."""
    below, above = FLSD()(*with_true_probability(0.2 - 1e-9)), FLSD()(*with_true_probability(0.2 + 1e-9))
    assert (below.item(), above.item()) == pytest.approx((0.8**5 * math.log(5), 0.8**3 * math.log(5)), rel=1e-7)
