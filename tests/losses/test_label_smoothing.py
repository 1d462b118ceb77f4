"""Label smoothing."""

import pytest
import torch

from calibkit.losses.label_smoothing import LabelSmoothing


@pytest.mark.parametrize("alpha", [0.0, 0.4])
class TestIdentities:
    def test_is_torchs_own(self, batch, alpha):
        want = torch.nn.functional.cross_entropy(*batch, label_smoothing=alpha)
        assert torch.allclose(LabelSmoothing(alpha=alpha)(*batch), want, rtol=1e-13)

    def test_conventions(self, batch, alpha):
        """alpha of "K-1" is alpha K / (K - 1) of "K"; both as cross-entropy with soft targets."""
        logits, labels = batch
        targets = torch.full_like(logits, alpha / 5).scatter_(1, labels[:, None], 1 - alpha)
        want = torch.nn.functional.cross_entropy(logits, targets)
        assert torch.allclose(LabelSmoothing(alpha=alpha, convention="K-1")(*batch), want, rtol=1e-13)


def test_gradient_is_eq_5_of_acls(batch, gradient, one_hot):
    """The row LS of ACLS Table 2: f = eps (1 - 1/C) for the true class and eps / C for the others."""
    logits, labels = batch
    q, eps = one_hot(labels, 6), 0.05
    f = torch.where(q == 1, -eps * (1 - 1 / 6), eps / 6)
    assert torch.allclose(gradient(LabelSmoothing(alpha=eps), logits, labels), (logits.softmax(1) - (q + f)) / 12)
