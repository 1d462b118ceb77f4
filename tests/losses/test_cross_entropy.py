"""Cross-entropy."""

import torch

from calibkit.losses.cross_entropy import CrossEntropy


def test_gradient_is_eq_3_of_acls(batch, gradient, one_hot):
    logits, labels = batch
    assert torch.allclose(gradient(CrossEntropy(), logits, labels), (logits.softmax(1) - one_hot(labels, 6)) / 12)


def test_is_torchs_own(batch):
    logits, labels = batch
    labels[3] = -100
    want = torch.nn.functional.cross_entropy(logits, labels)
    assert torch.allclose(CrossEntropy()(logits, labels), want, rtol=1e-14)
