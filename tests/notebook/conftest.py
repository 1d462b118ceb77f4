"""Figures that are closed after each test, and a file of logits."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from calibkit import Logits


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@pytest.fixture
def stored(overconfident, tmp_path) -> str:
    """Where half of ``overconfident`` lies as validation samples in float32, and half as test samples."""
    z, y = overconfident[0].numpy().astype(np.float32), overconfident[1].numpy()
    return str(Logits(z[:2000], y[:2000], z[2000:], y[2000:]).save(tmp_path / "z.npz"))
