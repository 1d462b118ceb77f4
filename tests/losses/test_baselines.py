"""The losses that the papers compare with: what the numbers of their authors' code, in test_oracle.py, leave open."""

import pytest
import torch
import torch.nn.functional as F

from calibkit.losses import ECP, FLSD, MDCA, Focal, LabelSmoothing


@pytest.mark.parametrize("gamma", [0.0, 0.5])
def test_gradient_of_focal_loss(batch, gradient, one_hot, gamma):
    """g (p - q) with g = (1 - p_y)^gamma - gamma p_y (1 - p_y)^(gamma - 1) log p_y (Mukhoti et al. 2020)."""
    logits, labels = batch
    p, q = logits.softmax(1), one_hot(labels, 6)
    p_y = (p * q).sum(1, keepdim=True)
    g = (1 - p_y) ** gamma - gamma * p_y * (1 - p_y) ** (gamma - 1) * p_y.log()
    assert torch.allclose(gradient(Focal(gamma=gamma), logits, labels), g * (p - q) / 12, rtol=1e-10)


def test_small_gamma_has_a_gradient_at_full_confidence():
    """(1 - p)^gamma has an infinite slope at p = 1 for gamma < 1, the loss has not."""
    logits = torch.tensor([[200.0, 0.0], [15.0, 0.0]], requires_grad=True)
    Focal(gamma=0.3)(logits, torch.tensor([0, 0])).backward()
    assert logits.grad[0].abs().max() == 0 and 0 < logits.grad[1, 1] < 1e-6


def test_gamma_of_flsd_jumps_where_the_true_class_has_a_fifth(gradient):
    for p, gamma in ((0.01, 5.0), (0.2 - 1e-9, 5.0), (0.2 + 1e-9, 3.0), (0.51, 3.0), (0.99, 3.0)):
        row = torch.tensor([[p, 1 - p]], dtype=torch.float64).log(), torch.tensor([0])
        assert torch.allclose(FLSD()(*row), Focal(gamma=gamma)(*row), rtol=1e-12)
        assert torch.allclose(gradient(FLSD(), *row), gradient(Focal(gamma=gamma), *row), rtol=1e-10)


def test_label_smoothing_is_cross_entropy_with_soft_targets(batch):
    """Those of "K" are torch's own; of "K-1" the true class keeps 1 - alpha."""
    logits, labels = batch
    targets = torch.full_like(logits, 0.4 / 5).scatter_(1, labels[:, None], 0.6)
    for convention, want in (
        ("K", F.cross_entropy(logits, labels, label_smoothing=0.4)),
        ("K-1", F.cross_entropy(logits, targets)),
    ):
        assert torch.allclose(LabelSmoothing(alpha=0.4, convention=convention)(logits, labels), want, rtol=1e-13)


def test_ecp_of_the_code_is_that_of_the_paper_over_k(batch):
    assert torch.allclose(ECP(variant="code").penalty(*batch) * 6, ECP(variant="paper").penalty(*batch), atol=1e-8)


def test_a_class_that_is_masked_adds_nothing_to_ecp():
    z = torch.tensor([[1.0, -torch.inf, 2.0]], requires_grad=True)
    loss = ECP(variant="paper")(z, torch.tensor([0]))
    assert torch.isclose(loss, ECP(variant="paper")(z[:, [0, 2]], torch.tensor([0])))
    loss.backward()
    assert z.grad.isfinite().all()


def test_gradient_of_mdca_is_eq_10_of_acls_supplement(batch, gradient, one_hot):
    """p_j (a_j - sum_k a_k p_k) / (N K), with a the sign of the mean gap, without eq. 10's absolute value."""
    logits, labels = batch
    p = logits.softmax(1)
    a = (p.mean(0) - one_hot(labels, 6).mean(0)).sign()
    assert set(a.tolist()) == {-1.0, 1.0}
    want = p * (a - (p * a).sum(1, keepdim=True)) / (12 * 6)
    assert torch.allclose(gradient(MDCA().penalty, logits, labels), want, rtol=1e-10)
