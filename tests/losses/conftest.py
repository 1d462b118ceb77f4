"""Batches and functions that the tests of all losses share."""

import pytest
import torch


@pytest.fixture
def three():
    """Three rows, two of them right, whose losses an independent numpy program gave in double precision (6 digits)."""
    logits = torch.tensor([[8.0, 1, -3, 0], [2, 5, 4.5, -6], [0, 0.5, 0.2, 12]], dtype=torch.float64)
    return logits, torch.tensor([0, 2, 3])


@pytest.fixture
def batch():
    """Twelve random rows of six classes, spread enough that margins of a few units are exceeded."""
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(12, 6, generator=generator, dtype=torch.float64)
    labels = logits.argmax(1).where(
        torch.rand(12, generator=generator) < 0.6, torch.randint(6, (12,), generator=generator)
    )
    return logits, labels


@pytest.fixture
def gradient():
    """``gradient(function, logits, *rest)``: the gradient of function(logits, *rest) in the logits."""

    def take(function, logits, *rest):
        logits = logits.clone().requires_grad_()
        return torch.autograd.grad(function(logits, *rest), logits)[0]

    return take


@pytest.fixture
def one_hot():
    """``one_hot(labels, n_classes)`` in float64."""
    return lambda labels, n_classes: torch.eye(n_classes, dtype=torch.float64)[labels]
