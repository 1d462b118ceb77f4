"""Margin-based label smoothing."""

import pytest
import torch

from calibkit.losses.cross_entropy import CrossEntropy
from calibkit.losses.mbls import MbLS


def test_penalty_of_the_paper(three):
    assert MbLS(margin=6.0, variant="paper").penalty(*three).item() == pytest.approx(10.1, abs=1e-6)


@pytest.mark.parametrize("variant", ["paper", "code"])
def test_gradient_is_acls_eq_15_but_for_the_top_logit(batch, gradient, one_hot, variant):
    """-1/K for the v classes beyond the margin, as in Table 2; the top logit gets v/K, where Table 2 has 0."""
    logits, labels = batch
    top, top_class = logits.max(1, keepdim=True)
    beyond = (top - logits > 2.0).double()
    want = beyond.sum(1, keepdim=True) * one_hot(top_class[:, 0], 6) - beyond
    slope = gradient(MbLS(margin=2.0, variant=variant).penalty, logits, labels) * 12
    assert torch.allclose(slope * (6 if variant == "code" else 1), want)
    assert torch.allclose(slope.sum(1), torch.zeros(12, dtype=torch.float64))


def test_within_the_margin_is_cross_entropy(batch, gradient):
    """No penalty and no gradient once all distances are below the margin (Figure 1, right)."""
    logits, labels = batch
    loss = MbLS(margin=(logits.max(1).values - logits.min(1).values).max().item() + 0.1)
    assert torch.equal(loss(logits, labels), CrossEntropy()(logits, labels))
    assert (gradient(loss.penalty, logits, labels) == 0).all()


def test_margin_zero_is_the_linear_penalty(batch):
    logits, labels = batch
    distances = logits.max(1, keepdim=True).values - logits
    assert torch.allclose(MbLS(margin=0.0).penalty(logits, labels), distances.mean())
    assert torch.allclose(MbLS(margin=0.0, variant="paper").penalty(logits, labels), distances.sum(1).mean())
