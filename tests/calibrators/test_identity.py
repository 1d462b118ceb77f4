import torch

from calibkit.calibrators import Identity


def test_is_the_softmax_whatever_it_is_fitted_on(overconfident):
    z, y = overconfident
    probs = Identity().fit(z, y)(z)
    assert torch.equal(probs, z.double().softmax(1))
    assert torch.equal(probs, Identity().fit(z[:1], y[:1])(z))
