"""What the tests of deployment share: a network whose logits are known, and every calibrator fitted once."""

from functools import cache

import numpy as np
import torch
from drawn_logits import logits
from torch import Tensor, nn

from calibkit import NeuralClamping
from calibkit.calibrators import CALIBRATORS
from calibkit.fitting.base import Fitted

K = 5


class Passing(nn.Module):
    """A network that gives what it takes, and has a weight to be placed by."""

    def __init__(self):
        super().__init__()
        self.one = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        return self.one * x


NET = Passing().eval()
Z, Y = map(torch.from_numpy, logits(600, K))
Z = Z.float()


@cache
def fitted(name: str) -> tuple[Fitted, Tensor]:
    """A calibrator, and what it gives on the sample, in float64."""
    if name == "neural_clamping":
        clamping = NeuralClamping(epochs=2).fit(NET, Z, Y)
        return clamping, clamping(NET, Z)
    calibrator = CALIBRATORS[name]().fit(Z, Y)
    return calibrator, calibrator(Z)


def close(probs: Tensor, want: Tensor, atol: float = 1e-6) -> None:
    np.testing.assert_allclose(probs.detach().double().cpu().numpy(), want.numpy(), rtol=0, atol=atol)
