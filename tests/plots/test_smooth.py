"""The smooth curve against sums over the samples, against smooth ECE, and its band against the binomial law."""

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import trapezoid

from calibkit import plots
from calibkit.metrics import Sample, smooth_ece
from calibkit.plots.smooth import POINTS, _node_counts, smooth_accuracy


def slow(confidence, correct, width):
    """The formula of the docstring, with the kernel's images in the mirrors at 0 and 1."""
    t = np.linspace(0, 1, POINTS)[:, None]
    images = [sign * confidence + 2 * turn for turn in (-2, -1, 0, 1, 2) for sign in (-1, 1)]
    kernel = sum(stats.norm.pdf(t, image, width) for image in images)
    return kernel.sum(1), t[:, 0] - (kernel * (confidence - correct)).sum(1) / kernel.sum(1)


@pytest.mark.parametrize("width", [0.01, 0.7])
def test_curve_is_the_formula(sample, width):
    checked = Sample.of(*sample)
    density, accuracy = smooth_accuracy(*_node_counts(checked), width)
    wanted = slow(checked.confidence.numpy(), checked.correct.numpy(), width)
    held = wanted[0] > 100
    assert held.sum() > 100
    np.testing.assert_allclose(density[held], wanted[0][held], rtol=2e-3)
    np.testing.assert_allclose(accuracy[held], wanted[1][held], atol=1e-3)


def test_area_to_the_diagonal_is_smooth_ece(sample):
    error = smooth_ece(*sample)
    density, accuracy = smooth_accuracy(*_node_counts(Sample.of(*sample)), error)
    t = np.linspace(0, 1, POINTS)
    gap = np.nan_to_num(density * np.abs(t - accuracy)) / len(sample[1])
    assert trapezoid(gap, t) == pytest.approx(error, abs=2e-4)


def test_a_calibrated_network_lies_on_the_diagonal_up_to_the_ends():
    """Of each confidence the right share; a plain kernel mean would be 0.1 off at 1."""
    share, n = np.repeat(np.arange(50, 101) / 100, 100), 100
    right = (np.arange(len(share)) % n) < np.round(share * n)
    probs, labels = np.stack([share, 1 - share], 1), 1 - right.astype(int)
    ax = plots.smooth_reliability(probs, labels, width=0.1)
    t, accuracy = ax.lines[1].get_data()
    assert np.isfinite(accuracy[t >= 0.5]).all()
    np.testing.assert_allclose(accuracy[t >= 0.5], t[t >= 0.5], atol=2e-3)


@pytest.mark.slow
def test_band_is_binomial_where_confidences_are_equal():
    """400 samples of confidence 0.7, 280 of them right: the share of right ones has a known law."""
    probs, labels = np.tile([0.7, 0.3], (400, 1)), np.repeat([0, 1], [280, 120])
    ax = plots.smooth_reliability(probs, labels, width=0.05, n_resamples=2000)
    (band,) = [area for area in ax.collections if area.get_label() == "95% band"]
    outline = band.get_paths()[0].vertices
    at = outline[np.isclose(outline[:, 0], 0.69921875), 1]
    wanted = np.array(stats.binom.interval(0.95, 400, 0.7)) / 400
    np.testing.assert_allclose([at.min(), at.max()], wanted, atol=0.008)


def test_curve_ends_where_the_samples_do(sample):
    probs, labels = sample
    confidence = probs.max(1).values.numpy()
    ax = plots.smooth_reliability(probs, labels, width=0.02)
    t, accuracy = ax.lines[1].get_data()
    seen = t[np.isfinite(accuracy)]
    assert confidence.min() - 0.06 < seen.min() < 0.5 and seen.max() == 1
    assert ax.texts[0].get_text() == f"smooth ECE {100 * smooth_ece(probs, labels):.2f}%"


def test_one_sample_has_no_band_and_no_curve():
    ax = plots.smooth_reliability(np.array([[0.7, 0.3]]), np.array([0]))
    assert np.isnan(ax.lines[1].get_ydata()).all()
