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


def test_acls_table_2_has_half_of_the_top_class(gradient):
    """Row MDCA, under its premise: a = 1 for the top class and -1 for the others.

    Then sum_k a_k p_k = 2 p_top - 1, which the supplement rounds to p_top: at the top, f = p (1 - p) is half the truth.
    """
    p = torch.tensor([0.9, 0.06, 0.04], dtype=torch.float64)
    labels = torch.tensor([0] * 5 + [1] * 3 + [2] * 2)
    slope = gradient(MDCA().penalty, p.log().repeat(10, 1), labels)[0] * 30
    assert torch.allclose(slope, torch.cat([2 * p[:1] * (1 - p[0]), -2 * p[1:] * p[0]]))
