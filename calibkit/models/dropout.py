r"""Monte-Carlo dropout: a prediction is the mean over stochastic passes, as an approximate Bayesian average.

.. math::
   \begin{gathered}
   p_k = \frac{1}{S} \sum_{s=1}^{S} \softmax\!\big(W (m_s \circ h) / (1 - r) + b\big)_k , \\
   m_s \sim \operatorname{Bernoulli}(1 - r)^D
   \end{gathered}

with the features h (D,) that the last layer (W, b) sees, the rate r, and S passes.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from calibkit._checks import check_int, check_real, expected


def mc_dropout(model: nn.Module, rate: float = 0.1, passes: int = 10, *, seed: int = 0) -> nn.Module:
    r"""Puts dropout before the last linear layer of ``model``, in place; returns it. A second call replaces the first.

    In training mode the features of that layer are dropped as usual. In evaluation mode the logits become
    :math:`\log p` of the mean over ``passes`` masks. Only the last layer is random, so that all passes cost one pass
    through the network; and the masks are the same for every sample and call, so that predictions are repeatable.

    Args:
        model: a classifier whose last ``nn.Linear`` gives its logits (N, K), K of 2 or more; ValueError of another.
        rate: r in [0, 0.9]. 0.1 as Gal & Ghahramani take for networks with many data; ACLS names none.
        passes: S; 10 as in their experiments on large networks; ACLS names none.
        seed: of the masks.

    Paper: Gal & Ghahramani 2016, "Dropout as a Bayesian Approximation".
    Differs from the paper: dropout stands before the last layer only, since the networks here have no other, and its
    masks are drawn once.

    Example:
        >>> net = mc_dropout(nn.Linear(2, 2, bias=False), rate=0.5, passes=1000).eval()
        >>> with torch.no_grad():
        ...     _ = net.weight.copy_(torch.eye(2))
        ...     net(torch.tensor([[2.0, 0.0]])).exp()  # half of the masks leave 4, the others nothing
        tensor([[0.7..., 0.2...]])
    """
    rate = check_real("rate", rate, 0.0, 0.9)
    passes = check_int("passes", passes, 1)
    if not isinstance(model, nn.Module):
        raise expected("model", "a torch.nn.Module", type(model).__name__)
    linear = next((m for m in reversed(list(model.modules())) if isinstance(m, nn.Linear)), None)
    if linear is None:
        raise expected("model", "a network with a linear layer", type(model).__name__)
    if linear.out_features < 2:
        raise expected("model", "a network whose last linear layer gives two logits or more", linear)
    generator = torch.Generator().manual_seed(check_int("seed", seed, 0, 2**63))
    masks = (torch.rand(passes, linear.in_features, generator=generator, device="cpu") >= rate).float() / (1 - rate)

    def drop(layer: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor] | None:
        return (F.dropout(inputs[0], rate),) if layer.training else None

    def average(layer: nn.Module, inputs: tuple[Tensor], output: Tensor) -> Tensor | None:
        if layer.training:
            return None
        by_pass = torch.stack([F.linear(inputs[0] * m.to(output), layer.weight, layer.bias) for m in masks])
        return by_pass.log_softmax(-1).logsumexp(0) - math.log(passes)

    for hook in getattr(linear, "mc_dropout", ()):  # of an earlier call
        hook.remove()
    linear.mc_dropout = linear.register_forward_pre_hook(drop), linear.register_forward_hook(average)
    return model
