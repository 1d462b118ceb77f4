"""Multi-class difference in confidence and accuracy."""

import torch

from calibkit.losses.mdca import MDCA


def test_value_by_hand():
    """Uniform probabilities against shares 3/4 and 1/4: both gaps are 1/4."""
    assert MDCA().penalty(torch.zeros(4, 2), torch.tensor([0, 0, 0, 1])) == 0.25


def test_gradient_is_eq_10_of_acls_supplement(batch, gradient, one_hot):
    """p_j (a_j - sum_k a_k p_k) / (N K), with a the sign of the mean gap, without eq. 10's absolute value."""
    logits, labels = batch
    p = logits.softmax(1)
    a = (p.mean(0) - one_hot(labels, 6).mean(0)).sign()
    assert set(a.tolist()) == {-1.0, 1.0}
    want = p * (a - (p * a).sum(1, keepdim=True)) / (12 * 6)
    assert torch.allclose(gradient(MDCA().penalty, logits, labels), want, rtol=1e-10)
