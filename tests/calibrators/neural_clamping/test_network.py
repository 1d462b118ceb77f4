"""The network that Neural Clamping looks into: left as it was found, and refused where it gives no logits."""

import copy

import pytest
import torch
from refusals import refused
from torch import nn

from calibkit.calibrators.neural_clamping import NeuralClamping, entropy_gradient

FAST = {"epochs": 2, "batch_size": 16}


def test_the_network_is_left_as_it_was_found(make_network, images, labels):
    model = make_network().double().train()
    model.layers[1].eval()
    model.layers[0].weight.requires_grad_(False)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    clamping = NeuralClamping(**FAST, exact_temperature=False).fit(model, images, labels)
    clamping(model, images)
    entropy_gradient(model, images)
    assert [layer.training for layer in model.layers] == [True, False, True, True, True, True]
    assert [p.requires_grad for p in model.parameters()] == [False] + [True] * 5
    assert all(p.grad is None for p in model.parameters())
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])


def test_a_failing_network_is_left_as_it_was_found_too(make_network, images, labels):
    model = make_network().train()  # float32 weights, but the hook below gives NaN
    model.register_forward_hook(lambda module, args, out: out * float("nan"))
    refused(r"`model\(images\)` to be finite", NeuralClamping(**FAST).fit, model, images, labels)
    assert model.training and all(p.requires_grad for p in model.parameters())


class Gives(nn.Module):
    """A network whose output is wrapped, and whose ``eval`` forgets to return it."""

    def __init__(self, network, wrap):
        super().__init__()
        self.network, self.wrap = network, wrap

    def forward(self, x):
        return self.wrap(self.network(x))

    def eval(self):
        super().eval()


@pytest.mark.parametrize(
    ("wrap", "got"),
    [
        (lambda z: (z, z), "tuple"),
        (lambda z: {"logits": z}, "dict"),
        (lambda z: z.detach().numpy(), "ndarray"),
        (lambda z: z[:, :, None], r"shape \(60, 4, 1\)"),
        (lambda z: z[:1], r"shape \(1, 4\)"),
    ],
)
def test_what_gives_no_logits_is_refused_and_left_as_it_was_found(network, images, labels, wrap, got):
    clamping = NeuralClamping(epochs=2, batch_size=60)
    state = clamping.fit(network, images, labels).state_dict()
    model = Gives(copy.deepcopy(network), wrap).train()
    message = r"Expected `model` to be a classifier that gives logits of shape \(N, K\), but got "
    for use in (
        lambda: clamping.fit(model, images, labels),
        lambda: clamping.load_state_dict(state)(model, images),
        lambda: entropy_gradient(model, images),
    ):
        with pytest.raises(ValueError, match=message + got):
            use()
        assert all(module.training for module in model.modules()) and all(p.requires_grad for p in model.parameters())
