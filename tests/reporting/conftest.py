import pytest
from drawn_logits import true_logits


@pytest.fixture
def sample():
    """A function that draws logits whose best temperature is ``t``, with their labels."""

    def draw(n=3000, k=3, t=3.0, seed=0):
        z, y = true_logits(n, k, seed=seed)
        return t * z, y

    return draw


@pytest.fixture
def arrays(sample):
    z, y = sample(60)
    return {"val_logits": z[:40], "val_labels": y[:40], "test_logits": z[40:], "test_labels": y[40:]}
