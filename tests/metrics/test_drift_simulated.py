"""The test of a change in calibration on simulated networks: how often it errs, and what it sees."""

import math

import numpy as np
import pytest

from calibkit.metrics.drift import Bins, drift_of

CALIBRATED, OVERCONFIDENT = 1.0, 1.8


def simulated(rng, n_sets, n, *, sharpness=CALIBRATED, temperature=1.0, scale=3.0, n_bins=15):
    """Bins of n_sets times n samples of 5 classes: labels from the softmax of z / temperature, what is served from
    ``sharpness * z``.
    """
    z = rng.normal(scale=scale, size=(n_sets * n, 5)).astype(np.float32)
    z -= z.max(1, keepdims=True)
    confidence = 1.0 / np.exp(sharpness * z).sum(1, dtype=np.float64)
    right = rng.random(len(z)) * np.exp(z / temperature).sum(1, dtype=np.float64) < 1.0
    index = np.clip(np.ceil(confidence * n_bins).astype(int) - 1, 0, n_bins - 1) + n_bins * (np.arange(len(z)) // n)
    weights = (None, confidence, right, confidence * (1 - confidence))
    sums = [np.bincount(index, w, n_sets * n_bins).astype(float).reshape(n_sets, n_bins) for w in weights]
    return [Bins(*rows) for rows in zip(*sums, strict=True)]


@pytest.mark.parametrize(
    ("sharpness", "scale", "n", "n_bins"),
    [
        (CALIBRATED, 3.0, 1000, 15),
        (OVERCONFIDENT, 3.0, 1000, 15),
        (OVERCONFIDENT, 3.0, 1000, 2),
        (CALIBRATED, 8.0, 2000, 15),
        (CALIBRATED, 3.0, 250, 15),
    ],
)
def test_no_drift_is_called_one_as_often_as_alpha_says(sharpness, scale, n, n_bins):
    """500 pairs of days each, within 4 standard errors; and z has the spread of a normal number."""
    rng = np.random.default_rng(0)
    days = [simulated(rng, 500, n, sharpness=sharpness, scale=scale, n_bins=n_bins) for _ in range(2)]
    against = [drift_of(now, then, 0.05) for now, then in zip(*days, strict=True)]
    tests = [against] + [[drift_of(now, None, 0.05) for now in days[0]]] * (sharpness == CALIBRATED)
    for found in tests:
        p = np.array([drift.p for drift in found])
        for alpha in (0.01, 0.05, 0.1):
            assert (p <= alpha).mean() == pytest.approx(alpha, abs=4 * math.sqrt(alpha * (1 - alpha) / 500))
        assert np.std([drift.z for drift in found]) == pytest.approx(1, abs=4 / math.sqrt(1000))


@pytest.mark.parametrize(("n", "m", "accuracy"), [(2000, 2000, 0.97), (500, 5000, 0.9), (5000, 500, 0.5)])
def test_a_confident_network_is_called_drifted_no_more_often_than_alpha_says(n, m, accuracy):
    """Too confident on both days alike, so that calibration leaves no variance and errors are counted."""
    rng = np.random.default_rng(0)
    wrong = rng.binomial([n, m], 1 - accuracy, (400, 2))

    def day(size, errors):
        return Bins(*(np.array([float(x)]) for x in (size, 0.9999 * size, size - errors, 0.9999 * 0.0001 * size)))

    p = np.array([drift_of(day(n, a), day(m, b), 0.05).p for a, b in wrong])
    for alpha in (0.01, 0.05, 0.1):
        assert (p <= alpha).mean() <= alpha + 4 * math.sqrt(alpha * (1 - alpha) / 400)
    assert (p < 1).any()


def test_a_drift_in_temperature_is_seen():
    """From 1.0 to 1.3 with 5,000 samples a day at an accuracy of 84%: in 19 of 20 days at 1% and more."""
    rng = np.random.default_rng(0)
    then, now = simulated(rng, 100, 5000, scale=5.0), simulated(rng, 100, 5000, scale=5.0, temperature=1.3)
    accuracy = sum(b.correct.sum() for b in then) / 500_000
    assert accuracy == pytest.approx(0.84, abs=0.01)
    truth = sum(b.gaps.sum() for b in now) / 500_000 - sum(b.gaps.sum() for b in then) / 500_000
    found = [drift_of(a, b, 0.01) for a, b in zip(now, then, strict=True)]
    assert np.mean([drift.verdict == "drifted" for drift in found]) >= 0.95
    assert np.mean([drift.change.value for drift in found]) == pytest.approx(truth, rel=0.1)
    centre = np.mean([drift.change.value for drift in found])
    assert 0.88 <= np.mean([drift.change.low <= centre <= drift.change.high for drift in found])
    perfect = [drift_of(a, None, 0.01) for a in now]
    assert np.mean([drift.verdict == "drifted" for drift in perfect]) >= 0.95
