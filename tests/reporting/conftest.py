import numpy as np
import pytest


@pytest.fixture
def sample():
    """A function that draws logits whose best temperature is ``t``, with their labels."""

    def draw(n=3000, k=3, t=3.0, seed=0):
        rng = np.random.default_rng(seed)
        z = 2 * rng.normal(size=(n, k))
        return t * z, (z + rng.gumbel(size=z.shape)).argmax(1)

    return draw


@pytest.fixture
def arrays(sample):
    z, y = sample(60)
    return {"val_logits": z[:40], "val_labels": y[:40], "test_logits": z[40:], "test_labels": y[40:]}
