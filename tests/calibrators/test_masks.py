"""Masked classes: logits so low that their class cannot come, as networks of several tasks or languages give them."""

import numpy as np
import pytest
import torch

from calibkit.calibrators import CALIBRATORS, Calibrator, calibrator
from calibkit.deploy import CalibratedModel
from calibkit.objectives import losses

NAMES = [name for name, cls in CALIBRATORS.items() if issubclass(cls, Calibrator)]
KEEPING = [name for name in NAMES if CALIBRATORS[name].keeps_predictions]
LOWEST = float(np.finfo(np.float32).min)


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


@pytest.mark.filterwarnings("ignore")  # of an optimum that is nowhere near
@pytest.mark.parametrize("name", KEEPING)
@pytest.mark.parametrize(
    ("mask", "everywhere", "dtype"),
    [
        (-50.0, True, np.float32),
        (-1e4, False, np.float64),
        (-1e9, True, np.float64),
        (LOWEST, False, np.float32),
        (LOWEST, True, np.float64),
    ],
)
def test_predictions_are_kept_with_a_label_on_a_masked_class(name, mask, everywhere, dtype):
    """One label in 200 makes the best temperature as high as the mask is low."""
    z, y = masked(mask, dtype, everywhere=everywhere)
    assert_predictions_are_kept(CALIBRATORS[name]().fit(z, y), z)
    y[0] = z[0].argmin()
    assert_predictions_are_kept(CALIBRATORS[name]().fit(z, y), z)


@pytest.mark.filterwarnings("ignore")  # there is no optimum where labels are noise
@pytest.mark.parametrize("name", ["temperature_scaling", "ets", "pts"])
@pytest.mark.parametrize(("objective", "dtype"), [("nll", np.float32), ("class_loss_scaling", np.float64)])
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


def test_predictions_are_kept_where_float32_rounds_what_was_computed_in_float64():
    """Three logits within 2e-8 of each other, by a map of one's own that asks for float64."""

    class Exact(CALIBRATORS["temperature_scaling"]):
        looks_up = True

    fitted = Exact().fit(*masked(-50.0, np.float32))
    near = torch.tensor([[1e-8, 0.0, 2e-8, -1.0, -1.0, -1.0], [0.0, 3e-9, 0.0, -1.0, -1.0, -1.0]])
    probs = CalibratedModel(torch.nn.Identity(), fitted)(near)
    assert probs.dtype == torch.float32 and probs.argmax(1).tolist() == [2, 1]


def test_a_label_on_a_class_masked_by_the_lowest_number():
    """As it was found: a tenth of the predictions stayed, those of class 0. The temperature is a bound, and said so."""
    rng = np.random.default_rng(0)
    z = (3 * rng.normal(size=(1000, 10))).astype(np.float32)
    y = z.argmax(1)
    z[np.arange(1000), (y + 1) % 10] = LOWEST
    y[0] = (y[0] + 1) % 10
    with pytest.warns(RuntimeWarning, match="its optimum is uniform"):
        fitted = CALIBRATORS["temperature_scaling"]().fit(z, y)
    assert (fitted(z).argmax(1) == y).mean() == 0.999


@pytest.mark.filterwarnings("ignore:the temperatures of classes")  # that of the masked class has no optimum
@pytest.mark.parametrize(("mask", "fixed"), [(-200.0, True), (LOWEST, True), (-1e9, False), (-1.7e308, False)])
@pytest.mark.parametrize("name", ["class_temperature_scaling:nll", "temperature_scaling:focal", "ets:nll", "pts:nll"])
def test_how_low_a_mask_is_does_not_matter(name, mask, fixed):
    """As if it were -60: the other classes' temperatures are those without it."""
    rng = np.random.default_rng(0)
    z = 2 * rng.normal(size=(1000, 6))
    u = z * [0.5, 1, 2, 3, 0.7, 1] + rng.gumbel(size=z.shape)
    column = np.full(1000, 3) if fixed else rng.integers(0, 6, 1000)
    u[np.arange(1000), column] = -np.inf
    probs = {}
    for value in (mask, -60.0):
        z[np.arange(1000), column] = value
        probs[value] = calibrator(name).fit(z, u.argmax(1))(z)
    np.testing.assert_allclose(probs[mask], probs[-60.0], atol=1e-3 if name.startswith("pts") else 1e-6)


@pytest.mark.parametrize(
    ("objective", "n_masked"), [("nll", 1), ("focal", 3), ("class_balanced", 1), ("class_loss_scaling", 3)]
)
def test_the_lowest_number_is_a_mask_to_every_objective(objective, n_masked):
    z, y = masked(-60.0, np.float64)
    z[:, 6 - n_masked :] = -60.0
    y = (z + np.random.default_rng(1).gumbel(size=z.shape)).argmax(1)
    want = calibrator(f"temperature_scaling:{objective}").fit(z, y).temperature
    for mask in (-1e9, LOWEST, np.finfo(np.float64).min / 2):
        z[:, 6 - n_masked :] = mask
        found = calibrator(f"temperature_scaling:{objective}").fit(z, y).temperature
        assert found == pytest.approx(want, rel=1e-7)


def test_classes_that_are_named_are_no_masks():
    """Two classes that hardly differ, and one far below both that is the label of one row in four."""
    rng = np.random.default_rng(0)
    z = np.stack([rng.normal(size=400), np.zeros(400), -30 + 9 * rng.normal(size=400)], 1)
    z[:, 1] = z[:, 0] + 1e-3 * rng.normal(size=400)
    y = np.where(rng.random(400) < 0.25, 2, rng.integers(0, 2, 400))
    fitted = calibrator("temperature_scaling").fit(z, y)
    below = [
        losses(torch.from_numpy(z), torch.from_numpy(y), 1 / t, torch.mul).mean() for t in (15.0, 20.0, 30.0, 50.0)
    ]
    assert losses(torch.from_numpy(z), torch.from_numpy(y), 1 / fitted.temperature, torch.mul).mean() < min(below)
