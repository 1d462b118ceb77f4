import numpy as np
import pytest
import torch

from calibkit.objectives import NLL, ClassBalanced, ClassLossScaling, losses


def test_every_class_counts_the_same():
    g = torch.Generator().manual_seed(0)
    z, y = torch.randn(50, 6, generator=g), torch.randint(5, (50,), generator=g) % 4  # classes 4 and 5 never occur
    ce = losses(z, y).numpy()
    by_hand = np.mean([ce[y.numpy() == k].mean() for k in range(4)])
    assert ClassBalanced().value(z, y) == pytest.approx(by_hand, rel=1e-14)


def test_on_balanced_classes_it_is_the_nll():
    z, y = torch.randn(40, 4, generator=torch.Generator().manual_seed(1)), torch.arange(40) % 4
    assert ClassBalanced().value(z, y) == pytest.approx(NLL().value(z, y), rel=1e-14)


def test_it_is_class_loss_scaling_with_scales_of_zero():
    z, y = torch.randn(40, 4, generator=torch.Generator().manual_seed(2)), torch.arange(40) % 4 // 2 * 3
    scaled = ClassLossScaling(beta=0.0).value(z, y)  # a sum over the 2 classes that occur
    assert scaled == pytest.approx(2 * ClassBalanced().value(z, y), rel=1e-14)
