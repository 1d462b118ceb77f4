"""Masked classes: logits so low that their class cannot come, as networks of several tasks or languages give them."""

import numpy as np
import pytest
import torch

from calibkit.calibrators import CALIBRATORS, Calibrator, calibrator
from calibkit.deploy import CalibratedModel

NAMES = [name for name, cls in CALIBRATORS.items() if issubclass(cls, Calibrator)]
KEEPING = [name for name in NAMES if CALIBRATORS[name].keeps_predictions]
LOWEST = float(np.finfo(np.float32).min)
MASKS = [-50.0, -1e4, -1e9, LOWEST]


def masked(mask, dtype, *, everywhere=False, n=200, k=6, seed=0):
    """Logits (n, k) with a class masked, of each row another or in all rows the last, and possible labels."""
    rng = np.random.default_rng(seed)
    z = 3 * rng.normal(size=(n, k))
    z[np.arange(n), k - 1 if everywhere else rng.integers(0, k, n)] = mask
    return z.astype(dtype), (0.5 * z + rng.gumbel(size=z.shape)).argmax(1)


def assert_predictions_are_kept(fitted, z):
    """By the calibrator and as a module, in numpy and in torch."""
    predicted = z.argmax(1)
    np.testing.assert_array_equal(fitted(z).argmax(1), predicted)
    tensor = torch.from_numpy(z)
    assert fitted(tensor).argmax(1).tolist() == predicted.tolist()
    for dtype in (None, torch.float64):
        probs = CalibratedModel(torch.nn.Identity(), fitted, dtype=dtype)(tensor)
        assert probs.argmax(1).tolist() == predicted.tolist()
        assert probs.isfinite().all() and (probs.sum(1) - 1).abs().max() < 1e-5


@pytest.mark.filterwarnings("ignore:the objective decreases up to the bound")
@pytest.mark.parametrize("name", KEEPING)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("everywhere", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_predictions_are_kept_with_a_label_on_a_masked_class(name, mask, everywhere, dtype):
    """One label in 200 makes the best temperature as high as the mask is low."""
    z, y = masked(mask, dtype, everywhere=everywhere)
    assert_predictions_are_kept(CALIBRATORS[name]().fit(z, y), z)
    y[0] = z[0].argmin()
    assert_predictions_are_kept(CALIBRATORS[name]().fit(z, y), z)


@pytest.mark.filterwarnings("ignore")  # there is no optimum where labels are noise
@pytest.mark.parametrize("name", ["temperature_scaling", "ets", "pts"])
@pytest.mark.parametrize("objective", ["nll", "class_loss_scaling"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_predictions_are_kept_where_labels_are_noise(name, objective, dtype):
    rng = np.random.default_rng(8)
    z, y = rng.normal(size=(300, 3)).astype(dtype), rng.integers(0, 3, 300)
    assert_predictions_are_kept(calibrator(f"{name}:{objective}").fit(z, y), z)


@pytest.mark.parametrize("name", KEEPING)
def test_predictions_are_kept_where_logits_are_nearer_than_rounding(name):
    rng = np.random.default_rng(0)
    z, y = masked(-1e4, np.float64)
    near = np.tile(z.max(1, keepdims=True), 6) * (1 - 2e-16 * rng.integers(0, 3, z.shape))
    fitted = CALIBRATORS[name]().fit(z, y)
    assert_predictions_are_kept(fitted, near)
    assert_predictions_are_kept(fitted, 1e-20 * z)
    given = CalibratedModel(torch.nn.Identity(), fitted, dtype=None if fitted.looks_up else torch.float32)
    assert given(torch.from_numpy(near)).argmax(1).tolist() == near.argmax(1).tolist()


def test_a_temperature_that_makes_all_classes_equal():
    """As it was found: a tenth of the predictions stayed, those of class 0."""
    rng = np.random.default_rng(0)
    z = (3 * rng.normal(size=(1000, 10))).astype(np.float32)
    y = z.argmax(1)
    z[np.arange(1000), (y + 1) % 10] = LOWEST
    y[0] = (y[0] + 1) % 10
    fitted = CALIBRATORS["temperature_scaling"]().fit(z, y)
    assert (fitted(z).argmax(1) == y).mean() == 0.999
