"""A small network with what differs between training and evaluation, and images that it is not sure about."""

import pytest
import torch
from torch import nn

SHAPE = (1, 4, 4)


class Network(nn.Module):
    """Convolution, batch normalisation, dropout: three things that differ between training and evaluation."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 5, 3, padding=1), nn.BatchNorm2d(5), nn.Tanh(), nn.Dropout(0.5), nn.Flatten(), nn.Linear(80, 4)
        )

    def forward(self, x):
        return 12 * self.layers(x)


@pytest.fixture
def make_network():
    """Builds a fresh network."""
    return Network


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    return Network().double().eval()


@pytest.fixture(scope="module")
def images():
    return 2 * torch.rand(60, *SHAPE, generator=torch.Generator().manual_seed(1), dtype=torch.float64) - 1


@pytest.fixture(scope="module")
def labels(network, images):
    with torch.no_grad():
        probs = (network(images) / 3).softmax(1)
    return torch.multinomial(probs, 1, generator=torch.Generator().manual_seed(2))[:, 0]


@pytest.fixture(scope="module")
def logits(network, images):
    with torch.no_grad():
        return network(images).numpy()
