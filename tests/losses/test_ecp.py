"""Explicit confidence penalty."""

import torch

from calibkit.losses.ecp import ECP


def test_code_is_paper_over_k(batch):
    assert torch.allclose(ECP(variant="code").penalty(*batch) * 6, ECP(variant="paper").penalty(*batch), atol=1e-8)


def test_gradient(batch, gradient):
    """p_j (log p_j + H)."""
    p = batch[0].softmax(1)
    entropy = -(p * p.log()).sum(1, keepdim=True)
    assert torch.allclose(gradient(ECP(variant="paper").penalty, *batch), p * (p.log() + entropy) / 12, rtol=1e-10)


def test_is_kl_to_uniform(batch):
    """-H(p) = KL(p || u) - log K: the reverse of label smoothing's (MbLS Sec. 4.2)."""
    p = torch.distributions.Categorical(logits=batch[0])
    uniform = torch.distributions.Categorical(logits=torch.zeros(12, 6, dtype=torch.float64))
    kl = torch.distributions.kl_divergence(p, uniform).mean() - torch.tensor(6.0).double().log()
    assert torch.allclose(ECP(variant="paper").penalty(*batch), kl)


def test_a_class_that_is_masked_adds_nothing():
    z = torch.tensor([[1.0, -torch.inf, 2.0]], requires_grad=True)
    loss = ECP(variant="paper")(z, torch.tensor([0]))
    assert torch.isclose(loss, ECP(variant="paper")(z[:, [0, 2]], torch.tensor([0])))
    loss.backward()
    assert z.grad.isfinite().all()
