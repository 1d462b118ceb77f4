"""What every objective keeps to: value, derivatives, gradient by the blocked pass, bad input, published defaults."""

import dataclasses
from dataclasses import asdict
from typing import get_args

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from refusals import refused

from calibkit import _arrays
from calibkit.fitting import value_and_grad
from calibkit.objectives import OBJECTIVES, ClassLossScaling, Focal, ObjectiveName, SmoothName, get, losses

SMOOTH = [cls() for cls in OBJECTIVES.values() if cls.smooth]
SMOOTH += [Focal(0.0), Focal(0.5), Focal(1.0), Focal(2.0, detach=True), ClassLossScaling(1.0, 2.0, "mm", "paper")]


@pytest.fixture
def sample():
    g = torch.Generator().manual_seed(0)
    return torch.randn(60, 4, generator=g, dtype=torch.float64) * 3, torch.randint(4, (60,), generator=g)


def test_a_training_loss_is_no_objective():
    refused("`objective` to be one of nll, .*; a training loss is none$", get, torch.nn.CrossEntropyLoss())


@pytest.mark.parametrize("objective", SMOOTH, ids=str)
def test_value_and_gradient_equal_autograd_with_frozen_weights(objective, sample, monkeypatch):
    z, y = sample
    monkeypatch.setattr(_arrays, "BLOCK_BYTES", 7 * 4 * 8)  # blocks of 7 rows, so that several are joined
    scale = torch.tensor([0.5, 1.0, 1.5, 0.8], dtype=torch.float64, requires_grad=True)
    u = z * scale
    target = F.one_hot(y, 4).double() * (1 - objective.smoothing) + objective.smoothing / 4
    ce = -(target * u.log_softmax(1)).sum(1)
    weights = objective.weights(ce.detach(), y, 4)
    total = weights @ objective.transform(ce)[0]
    total.backward()

    def forward(x, block):
        return block * x

    def backward(x, block, g, grad):
        grad += (g * block).sum(0)

    value, grad, ce_again = value_and_grad(objective, z, y, weights, scale.detach(), forward, backward)
    assert value == pytest.approx(total.item(), rel=1e-13)
    torch.testing.assert_close(grad, scale.grad, rtol=1e-11, atol=1e-13)
    torch.testing.assert_close(ce_again, ce.detach())
    torch.testing.assert_close(losses(z, y, scale.detach(), forward, objective.smoothing), ce.detach())
    assert objective.value(u.detach(), y) == pytest.approx(value, rel=1e-13)


@pytest.mark.parametrize("objective", SMOOTH, ids=str)
def test_transform_gives_its_own_derivatives(objective):
    ce = torch.linspace(1e-3, 9.0, 50, dtype=torch.float64, requires_grad=True)
    phi, slope, curvature = objective.transform(ce)
    first = torch.autograd.grad(phi.sum(), ce, create_graph=True)[0]
    torch.testing.assert_close(slope, first, rtol=1e-10, atol=1e-12)
    if first.grad_fn is not None:
        second = torch.autograd.grad(first.sum(), ce, allow_unused=True)[0]
        torch.testing.assert_close(curvature, torch.zeros_like(ce) if second is None else second, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("objective", SMOOTH, ids=str)
def test_saturated_losses_stay_finite_and_weights_leave_no_class_out(objective, sample):
    z, y = sample
    weights = objective.weights(losses(z, y), y, 4)
    assert (weights >= 0).all()
    assert weights.shape == (60,)
    assert all(weights[y == k].sum() > 0 for k in range(4))
    z, y = torch.tensor([[800.0, 0.0], [0.0, 800.0], [900.0, 0.0]]), torch.tensor([0, 1, 1])
    ce = losses(z, y, smoothing=objective.smoothing)
    parts = (*objective.transform(ce), objective.weights(ce, y, 2))
    assert all(part.isfinite().all() for part in parts)
    assert np.isfinite(objective.value(z, y))


@pytest.mark.parametrize("name", OBJECTIVES)
def test_objectives_are_values_the_same_of_float32_numpy_and_torch(name, sample):
    objective = get(name)
    assert objective == OBJECTIVES[name]() == get(objective)
    assert OBJECTIVES[name](**dataclasses.asdict(objective)) == objective
    z, y = sample
    z32 = z.float()
    assert objective.value(z32.numpy(), y.numpy()) == objective.value(z32, y)
    assert objective.value(z32, y) == objective.value(z32.double(), y)


def test_bad_samples_are_refused(sample):
    z, y = sample
    for name in ("nll", "ece"):
        refused(r"`labels` to be in \[0, 4\), but got 4", get(name).value, z, y.clone().fill_(4))


def test_get_refuses_what_it_does_not_know():
    refused("`objective` to be one of nll, ece, .* but got 'mse'", get, "mse")
    refused("`objective` to be one of nll, .* but got 3", get, 3)
    refused("`objective` to be one of nll, focal, .* but got 'ece'", get, "ece", smooth=True)
    assert get("ece", n_bins=25).n_bins == 25


#: ECE: Guo et al. 2017. The others: Jung et al. 2023 (SCTL) and its code, where alpha None stands for ln(K) / 2.
PUBLISHED = {
    "nll": {},
    "ece": {"n_bins": 15},
    "focal": {"gamma": 3.0, "detach": False},
    "label_smoothing": {"alpha": 0.05},
    "class_balanced": {},
    "class_loss_scaling": {"alpha": None, "beta": 1.5, "normalization": "nd", "variant": "code"},
}


def test_defaults_are_the_published_numbers_and_the_names_of_signatures_the_keys():
    assert {name: asdict(OBJECTIVES[name]()) for name in PUBLISHED} == PUBLISHED
    smooth = {name for name, cls in OBJECTIVES.items() if cls.smooth}
    assert set(get_args(SmoothName)) == smooth and set(get_args(ObjectiveName)) == {"ece", *smooth}


def test_numbers_of_numpy_become_plain_ones():
    """So that they can be saved, and are computed with in full precision."""
    for name, option, value in (
        ("ece", "n_bins", np.uint8(255)),
        ("focal", "gamma", np.float32(2)),
        ("label_smoothing", "alpha", np.float32(0.25)),
        ("class_loss_scaling", "alpha", np.float32(0.5)),
        ("class_loss_scaling", "beta", np.int64(1)),
    ):
        options = {option: value}
        assert type(getattr(OBJECTIVES[name](**options), option)) in (int, float)
        assert getattr(OBJECTIVES[name](**options), option) == value
