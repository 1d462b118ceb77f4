import numpy as np
import pytest
import torch

from calibkit import metrics
from calibkit.objectives import ECE
from calibkit.objectives.ece import bin_gaps


@pytest.mark.parametrize("n_bins", [1, 10, 15, 25])
def test_equals_the_metric(n_bins):
    g = torch.Generator().manual_seed(0)
    z, y = torch.randn(300, 5, generator=g, dtype=torch.float64) * 2, torch.randint(5, (300,), generator=g)
    assert ECE(n_bins).value(z, y) == pytest.approx(metrics.ece(z.softmax(1), y, n_bins=n_bins), abs=1e-15)


def test_bin_gaps_equal_a_plain_loop():
    rng = np.random.default_rng(0)
    confidence, correct = rng.random((3, 200)), (rng.random((3, 200)) < 0.6).astype(float)
    confidence[:, :20] = np.arange(1, 21) % 11 / 10  # on the edges
    edges = np.arange(11) / 10
    expected = np.zeros((3, 10))
    for g in range(3):
        for i in range(200):
            b = next(b for b in range(10) if confidence[g, i] <= edges[b + 1])
            expected[g, b] += confidence[g, i] - correct[g, i]
    found = bin_gaps(torch.from_numpy(confidence), torch.from_numpy(correct), 10)
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-13)


@pytest.mark.parametrize("n_bins", [0, 1.5, None])
def test_bad_n_bins(n_bins):
    with pytest.raises(ValueError, match="Expected `n_bins` to be an integer >= 1"):
        ECE(n_bins)


def test_the_predicted_class_is_that_of_the_logits():
    """Also where rounding makes their probabilities equal."""
    assert ECE().value(np.array([[0.0, 1e-17, 0.0]]), [1]) == pytest.approx(2 / 3)
