"""No fit ends worse than the network as it is, by its own objective: calibrators, objectives and odd data in pairs.

Every two of the three meet; and the lowest ECE, which two calibrators search, on all data.
"""

import warnings

import numpy as np
import pytest
import torch
from drawn_logits import true_logits

from calibkit.calibrators import CALIBRATORS, Calibrator
from calibkit.metrics import ece
from calibkit.objectives import OBJECTIVES, get

NAMES = [name for name, cls in CALIBRATORS.items() if issubclass(cls, Calibrator) and hasattr(cls(), "objective")]
SEARCHES = ["temperature_scaling", "class_temperature_scaling"]  # for the lowest ECE on a grid


def plain(n=50, k=6, seed=0):
    """Logits 1.5 times too large and labels drawn from them."""
    true, y = true_logits(n, k, seed=seed)
    return 1.5 * true, y


def outlier(factor, right):
    """One row that is ``factor`` times as large as drawn, and right or wrong."""
    z, y = plain()
    y[0] = z[0].argsort()[-1 if right else -2]
    z[0] *= factor
    return z, y


def small_and_large():
    """Two of three rows are 1,000 times as large as the rest."""
    z, y = plain(60)
    z[:40] *= 1e3
    y[:40] = z[:40].argmax(1)
    return z, y


def separable(factor):
    z, _ = plain()
    return factor * z, z.argmax(1)


def masked():
    """A class that most rows rule out by the lowest number of float32, as ``masked_fill`` writes it."""
    z, y = plain(60)
    ruled_out = np.where(np.arange(60) % 3, np.finfo(np.float32).min, -3.0)
    return np.c_[z, ruled_out].astype(np.float32), y


SETS = {
    "plain": plain(),
    "right outlier": outlier(1e3, right=True),
    "wrong outlier": outlier(30.0, right=False),
    "small and large": small_and_large(),
    "separable": separable(1.0),
    "separable, huge": separable(1e6),
    "separable, small": separable(1e-6),
    "huge": (1e6 * plain()[0], plain()[1]),
    "small": (1e-6 * plain()[0], plain()[1]),
    "constant": (np.full((30, 4), 7.0), np.arange(30) % 3),
    "one row, right": (np.array([[-0.2, 1.4, 2.7, -0.4]]), np.array([2])),
    "one row, wrong": (np.array([[-0.2, 1.4, 2.7, -0.4]]), np.array([0])),
    "five rows": plain(5, 3),
    "N < K": plain(8, 20),
    "classes absent": (plain(60, 8)[0], plain(60, 8)[1] // 2),
    "one class": (plain()[0], np.full(50, 3)),
    "masked in float32": masked(),
}


def value(objective, probs, labels, weights=None):
    """The objective and its weights, from probabilities; a loss that is infinite in float64 counts 1e5."""
    with np.errstate(divide="ignore"):
        log_p = np.maximum(np.log(probs), -1e5)
    rows, s = np.arange(len(labels)), objective.smoothing
    ce = torch.from_numpy(-(1 - s) * log_p[rows, labels] - s * log_p.mean(1))
    y = torch.from_numpy(labels)
    weights = objective.weights(ce, y, probs.shape[1]) if weights is None else weights
    return float(weights @ objective.transform(ce)[0]), weights


def taken(name):
    """The objectives that a calibrator takes."""
    return [key for key, cls in OBJECTIVES.items() if cls.smooth or name in SEARCHES]


PAIRS = {
    (name, taken(name)[(i + j) % len(taken(name))], data) for i, name in enumerate(NAMES) for j, data in enumerate(SETS)
}
PAIRS |= {(name, "ece", data) for name in SEARCHES for data in SETS}


def test_pairs():
    """Each calibrator meets each data set and each of its objectives, each smooth objective each data set."""
    assert {(name, data) for name, _, data in PAIRS} == {(name, data) for name in NAMES for data in SETS}
    assert {pair[:2] for pair in PAIRS} == {(name, key) for name in NAMES for key in taken(name)}
    assert {pair[1:] for pair in PAIRS} == {(key, data) for key in OBJECTIVES for data in SETS}


@pytest.mark.parametrize(("name", "objective", "data"), sorted(PAIRS))
def test_no_worse_than_the_network_as_it_is(name, objective, data):
    z, y = SETS[data]
    options = dict.fromkeys({"lam", "mu"} & set(CALIBRATORS[name]().options()), 1e-3)  # no folds of a handful of rows
    calibrator = CALIBRATORS[name](objective=objective, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of bounds, separated labels and fixed points that are none
        probs = calibrator.fit(z, y)(z)
    np.testing.assert_allclose(probs.sum(1), 1.0, atol=1e-12)
    before = CALIBRATORS["identity"]().fit(z, y)(z)
    if objective == "ece":
        assert ece(probs, y) <= ece(before, y) + 1e-12
    else:
        after, weights = value(get(objective), probs, y)  # the weights of the fit, also where they are adaptive
        assert after <= (1 + 1e-9) * value(get(objective), before, y, weights)[0] + 1e-12
