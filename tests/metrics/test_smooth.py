import numpy as np
import pytest
import torch
from scipy.integrate import trapezoid
from scipy.special import softmax
from scipy.stats import norm

from calibkit.metrics import Sample, smooth_ece
from calibkit.metrics.ece_alternatives import smooth_error


def at_its_own_width(error, steps):
    """The error at the width that equals it, by bisection; at the narrowest where it is less than that."""
    low, high = 1e-3, 1.0
    if (at_low := error(low)) <= low:
        return at_low
    for _ in range(steps):
        middle = (low + high) / 2
        low, high = (middle, high) if error(middle) > middle else (low, middle)
    return error((low + high) / 2)


def direct(probs, labels, points):
    """The definition: reflected Gaussians summed over mirror images, trapezoidal rule, bisection on sigma."""
    sample = Sample.of(probs, labels)
    position, gap = sample.confidence.numpy(), sample.gap.numpy() / len(labels)
    position, where = np.unique(position, return_inverse=True)
    gap = np.bincount(where, gap)
    t = np.linspace(0, 1, points)[:, None]

    def error(sigma):
        images = [m + sign * position for m in range(-6, 7, 2) for sign in (1, -1)]
        residual = sum(norm.pdf(t, image, sigma) for image in images) @ gap
        return trapezoid(np.abs(residual), t[:, 0])

    return at_its_own_width(error, 14)


@pytest.mark.parametrize(
    "confidence, correct",
    [
        ([0.9, 0.9, 0.9, 0.9], [1, 1, 0, 0]),
        ([1.0, 1.0, 1.0, 0.6], [1, 1, 0, 1]),
        ([0.55, 0.61, 0.72, 0.83, 0.97, 0.999], [1, 0, 1, 0, 1, 1]),
        ([0.7], [0]),
        ([0.52, 0.9], [1, 0]),
        ([1.0, 1.0], [0, 0]),
        ([1.0, 0.999], [1, 1]),
    ],
)
def test_definition(confidence, correct):
    confidence = np.array(confidence)
    probs, labels = np.stack([confidence, 1 - confidence], 1), 1 - np.array(correct)
    assert smooth_ece(probs, labels) == pytest.approx(direct(probs, labels, 8001), abs=2e-4)


def test_definition_on_a_sample(mixed):
    probs, labels = mixed[0][:60], mixed[1][:60]
    assert smooth_ece(probs, labels) == pytest.approx(direct(probs, labels, 4001), abs=2e-4)


def test_relplot_agrees():
    """To relplot's own tolerance: 10 bisections of sigma (1e-3) and its grid."""
    relplot = pytest.importorskip("relplot", reason="relplot is not installed")
    rng = np.random.default_rng(0)
    for scale, sharpen in ((1.0, 1.0), (1.5, 1.3), (1.0, 0.7), (1.2, 2.0)):
        logits = rng.normal(scale=scale, size=(3000, 5))
        labels = (softmax(logits, axis=1).cumsum(1) < rng.random((3000, 1))).sum(1)
        probs = softmax(sharpen * logits, axis=1)
        theirs = relplot.smECE(probs.max(1), (probs.argmax(1) == labels).astype(float))
        assert smooth_ece(probs, labels) == pytest.approx(theirs, abs=1.5e-3)


def series(position, residual, points):
    """The reflected Gaussian in its eigenfunctions, cos(m pi t) with the factors exp(-(m pi sigma)^2 / 2)."""
    t = np.linspace(0, 1, points)

    def error(sigma):
        m = np.arange(1, int(9 / (np.pi * sigma)) + 2)
        weights = 2 * np.exp(-0.5 * (m * np.pi * sigma) ** 2) * (np.cos(np.pi * np.outer(m, position)) @ residual)
        blocks = [np.cos(np.pi * np.outer(part, m)) @ weights for part in np.array_split(t, 20)]
        return trapezoid(np.abs(residual.sum() + np.concatenate(blocks)), t)

    return at_its_own_width(error, 22)


@pytest.mark.parametrize("start", [0.6123, 0.99])
@pytest.mark.parametrize("apart", [0.0005, 0.001])
def test_grid_and_narrowest_kernel(start, apart):
    """Gaps that cancel within the narrowest kernel, whose error depends on its width and on the cells."""
    position, residual = np.array([start, start + apart]), np.array([0.0009, -0.0009])
    want = series(position, residual, 20001)
    assert want < 1e-3
    assert smooth_error(torch.from_numpy(position), torch.from_numpy(residual)) == pytest.approx(want, rel=2e-3)


@pytest.mark.parametrize(
    ("position", "residual"),
    [([0.9137, 0.9142], [0.02, -0.02]), ([0.61234, 0.6153], [0.005, -0.005]), ([0.3, 0.95], [0.3, -0.3])],
)
def test_the_width_that_is_its_own_error(position, residual):
    position, residual = np.array(position), np.array(residual)
    want = series(position, residual, 4001)
    assert smooth_error(torch.from_numpy(position), torch.from_numpy(residual)) == pytest.approx(want, abs=1e-6)
