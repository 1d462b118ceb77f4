"""Each objective: values that authors' code prints, formulas, what it is as a special case, bad options."""

import numpy as np
import pytest
import torch
from refusals import refused

from calibkit import TemperatureScaling, calibrator, load_calibrator, metrics
from calibkit.objectives import ECE, ClassBalanced, Focal, LabelSmoothing, losses
from calibkit.objectives.ece import bin_gaps

Z = torch.tensor([[8.0, 1, -3, 0], [2, 5, 4.5, -6], [0, 0.5, 0.2, 12]], dtype=torch.float64)
Y = torch.tensor([0, 2, 3])


def test_values_as_printed_by_the_authors_code():
    """focal_calibration at 475422a, and the repository of MbLS at dc86503."""
    for objective in (Focal(3.0), Focal(3.0, detach=True)):
        assert objective.value(Z, Y) == pytest.approx(0.085262, abs=5e-7)
    assert LabelSmoothing(0.05).value(Z, Y) == pytest.approx(0.642798, abs=5e-7)


def test_detached_the_factor_is_a_weight():
    ce = losses(Z, Y)
    phi, slope, curvature = Focal(3.0, detach=True).transform(ce)
    torch.testing.assert_close(phi, ce)
    assert (slope == 1).all() and (curvature == 0).all()
    torch.testing.assert_close(Focal(3.0, detach=True).weights(ce, Y, 4), (1 - torch.exp(-ce)) ** 3 / 3)
    assert Focal(detach=True).adaptive and not Focal().adaptive


@pytest.mark.parametrize(
    ("cls", "option", "values", "want"),
    [
        (Focal, "gamma", (-1.0, float("nan"), "3"), "a number in"),
        (LabelSmoothing, "alpha", (-0.1, 1.0, "a", None), "a number in"),
        (ECE, "n_bins", (0, 1.5, None), "an integer >= 1"),
    ],
)
def test_bad_options(cls, option, values, want):
    for value in values:
        refused(f"`{option}` to be {want}", cls, value)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # there is no minimum
@pytest.mark.parametrize("key", ["matrix_scaling", "vector_scaling", "ets"])
def test_detached_where_no_sample_has_a_loss(key):
    """All weights become 0, and what has no loss may stay as it is."""
    z = np.random.default_rng(0).normal(size=(40, 3))
    probs = calibrator(f"{key}:focal detach=True").fit(z, np.zeros(40, int))(z)
    assert np.isfinite(probs).all()


def test_a_flag_of_numpy_is_saved(tmp_path):
    z, y = np.array([[2.0, 0.0]] * 4), np.array([0, 0, 0, 1])
    path = TemperatureScaling(Focal(detach=np.True_)).fit(z, y).save(tmp_path / "ts.npz")
    assert load_calibrator(path).objective == Focal(detach=True)


def test_every_class_counts_the_same():
    g = torch.Generator().manual_seed(0)
    z, y = torch.randn(50, 6, generator=g), torch.randint(5, (50,), generator=g) % 4
    y[7] = 4  # once; and class 5 never
    ce = losses(z, y).numpy()
    by_hand = np.mean([ce[y.numpy() == k].mean() for k in range(5)])
    assert ClassBalanced().value(z, y) == pytest.approx(by_hand, rel=1e-14)


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


def test_the_predicted_class_is_that_of_the_logits():
    """Also where rounding makes their probabilities equal."""
    assert ECE().value(np.array([[0.0, 1e-17, 0.0]]), [1]) == pytest.approx(2 / 3)
