"""Temperature scaling against closed forms, root finding on plain formulas, and known optima on published logits."""

import functools
import math

import numpy as np
import oracles
import pytest
import torch
import torch.nn.functional as F
from data_parameters import with_logits

from calibkit import metrics
from calibkit.calibrators import TemperatureScaling
from calibkit.fitting import temperature
from calibkit.networks import load_logits
from calibkit.objectives import OBJECTIVES, ClassLossScaling, Focal, LabelSmoothing, losses

#: Optima found by others on the logits that the authors of SCTL publish: see "source" in the file.
ORACLE = oracles.numbers("scaling")
SETS = with_logits(sorted(ORACLE.keys() - {"source"}))
OBJECTIVE = {
    "nll": "nll",
    "class_balanced": "class_balanced",
    "label_smoothing": "label_smoothing",
    "focal_detached": Focal(3.0, detach=True),
    "cls_nd": "class_loss_scaling",
    "cls_mm": ClassLossScaling(normalization="mm"),
    "cls_cm": ClassLossScaling(normalization="cm"),
}


def random_sample(seed, n=400, k=6, temperature=2.0):
    g = torch.Generator().manual_seed(seed)
    z = torch.randn(n, k, generator=g, dtype=torch.float64) * 2
    return z * temperature, torch.multinomial(z.softmax(1), 1, generator=g)[:, 0]


def bisect(function, low, high):
    """The root of a rising function: the slow, sure way."""
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) < 0 else (low, middle)
    return (low + high) / 2


def plain_slope(z, y, b, smoothing=0.0):
    """Derivative of the mean cross-entropy of b z by b."""
    target = F.one_hot(y, z.shape[1]).double() * (1 - smoothing) + smoothing / z.shape[1]
    return float((((b * z).softmax(1) - target) * z).sum(1).mean())


@pytest.mark.parametrize("right", [3, 5, 99])
def test_closed_form(right):
    z, y = np.tile([3.0, 0.0], (100, 1)), np.array([0] * right + [1] * (100 - right))
    if right > 50:
        fitted = TemperatureScaling().fit(z, y)
        assert fitted.temperature == pytest.approx(3 / math.log(right / (100 - right)), rel=1e-10)
        np.testing.assert_allclose(fitted(z)[:, 0], right / 100, rtol=1e-10)
    else:  # worse than chance: the best is to say nothing
        with pytest.warns(RuntimeWarning, match="up to the bound T = 1500: its optimum is uniform"):
            assert TemperatureScaling().fit(z, y).temperature == pytest.approx(1500)


@pytest.mark.parametrize(("seed", "smoothing"), [(0, 0.0), (1, 0.05), (2, 0.05), (3, 0.0), (5, 0.0)])
def test_equals_bisection_on_the_plain_slope(seed, smoothing):
    z, y = random_sample(seed, k=2 + 3 * seed)
    known = 1 / bisect(lambda b: plain_slope(z, y, b, smoothing), 1e-3, 1e2)
    objective = LabelSmoothing(smoothing) if smoothing else "nll"
    assert TemperatureScaling(objective).fit(z, y).temperature == pytest.approx(known, rel=1e-8)


@pytest.mark.parametrize(("seed", "gamma"), [(90, 0.1), (95, 0.5), (98, 0.9), (105, 0.1), (109, 0.5), (0, 3.0)])
def test_focal_finds_its_lowest_minimum(seed, gamma):
    """With an exponent below 1 the curvature by the cross-entropy has no bound where p is next to 1, and that of
    rounded ones is noise.
    """
    rng = np.random.default_rng(seed)
    k, n, scale = rng.integers(2, 8), rng.integers(20, 200), 10 ** rng.uniform(-0.5, 1.5)
    z = rng.normal(size=(n, k)) * scale
    y = (z / 10 ** rng.uniform(-0.5, 1.0) + rng.gumbel(size=z.shape)).argmax(1)
    values = [Focal(gamma).value(z / t, y) for t in scale * np.logspace(-1.5, 1.5, 300)]
    assert Focal(gamma).value(z / TemperatureScaling(Focal(gamma)).fit(z, y).temperature, y) <= min(values) + 1e-12


@pytest.mark.parametrize(
    ("gamma", "size", "n_right"),
    [(3.0, 100, 608), (3.0, 100, 650), (2.0, 50, 203), (2.0, 100, 380)],
    ids=["hot", "cold", "cold, near the start is another", "cold, the other is narrow"],
)
def test_focal_finds_the_lower_of_two_minima(gamma, size, n_right):
    """Many rows with a gap of 1 that are right, and a large one that is wrong: softening helps the latter alone."""
    z, y = torch.tensor([[1.0, 0.0]] * n_right + [[0.0, size]], dtype=torch.float64), torch.zeros(n_right + 1).long()
    grid = np.exp(np.linspace(0.0, 5.0, 1000))
    values = np.array([Focal(gamma).value(z / t, y) for t in grid])
    minima = (values[1:-1] < values[:-2]) & (values[1:-1] < values[2:])
    assert minima.sum() == 2
    fitted = TemperatureScaling(Focal(gamma)).fit(z, y)
    assert fitted.temperature == pytest.approx(grid[values.argmin()], rel=0.01)
    assert Focal(gamma).value(z / fitted.temperature, y) <= values.min() + 1e-12


def test_few_float32_rows_give_the_temperature_of_their_float64_copies():
    """Passes in float32 would leave an error of 1e-8 here."""
    for seed in range(5):
        z, y = random_sample(seed, n=30)
        z = (5 * z).float()
        single, double = (TemperatureScaling().fit(given, y).temperature for given in (z, z.double()))
        assert single == pytest.approx(double, rel=1e-10)


@pytest.mark.parametrize(
    "objective",
    [Focal(3.0, detach=True), ClassLossScaling(), ClassLossScaling(0.3, 2.0, "mm"), ClassLossScaling(variant="paper")],
    ids=str,
)
def test_fixed_point_equals_bisection_with_frozen_weights(objective):
    g = torch.Generator().manual_seed(1)
    z = torch.randn(600, 4, generator=g, dtype=torch.float64) * torch.tensor([1.0, 2.0, 3.0, 4.0])
    y = torch.multinomial((z / torch.tensor([1.0, 3.0, 1.5, 2.0])).softmax(1), 1, generator=g)[:, 0]

    def slope(b):
        weights = objective.weights(losses(b * z, y), y, 4)
        return float(weights @ (((b * z).softmax(1) - F.one_hot(y, 4)) * z).sum(1))

    assert TemperatureScaling(objective).fit(z, y).temperature == pytest.approx(1 / bisect(slope, 0.02, 20.0), rel=1e-8)


@pytest.mark.parametrize(
    ("scale", "dtype"), [(0.02, torch.float32), (1.0, torch.float32), (50.0, torch.float32), (50.0, torch.float64)]
)
def test_right_for_any_scale_and_dtype(scale, dtype):
    z, y = random_sample(0, n=20_000, k=5)  # enough rows for the warm start and for passes in float32
    known = 1 / bisect(lambda b: plain_slope(z, y, b), 1e-2, 1e1)
    given = (z * scale).to(dtype)
    fitted = TemperatureScaling().fit(given, y)
    assert fitted.temperature == pytest.approx(scale * known, rel=1e-7)
    excess = float(F.cross_entropy(given.double() / fitted.temperature, y) - F.cross_entropy(z / known, y))
    assert excess <= 1e-9


def test_logits_next_to_zero_and_rows_of_equal_logits():
    with pytest.warns(RuntimeWarning, match="its optimum is one-hot"):
        fitted = TemperatureScaling().fit(np.array([[3e-301, 0.0], [0.0, 2e-301]]), np.array([0, 1]))
    assert 0 < fitted.temperature < 1e-300
    z, y = torch.full((50, 3), 7.0), torch.arange(50) % 3
    for objective in OBJECTIVES:
        assert TemperatureScaling(objective, grid=[1.0, 2.0]).fit(z, y).temperature == 1.0


def test_a_last_wrong_sample_keeps_the_optimum_finite():
    z, y = random_sample(0, n=2000)
    y = z.argmax(1)
    y[0] = z[0].argmin()
    known = 1 / bisect(lambda b: plain_slope(z, y, b), 1e-3, 1e3)
    assert TemperatureScaling().fit(z, y).temperature == pytest.approx(known, rel=1e-8)


@pytest.mark.parametrize(
    ("objective", "scale"), [("nll", 1e-3), ("focal", 1.0), ("class_balanced", 1e3), ("class_loss_scaling", 1e3)]
)
def test_separable_data_warn_and_return_the_bound(objective, scale):
    z, _ = random_sample(2, n=1500)
    fitted = TemperatureScaling(objective)
    with pytest.warns(RuntimeWarning, match="the objective decreases up to the bound .* one-hot probabilities"):
        fitted.fit(scale * z, z.argmax(1))
    coldest = 0.01 * scale * float(z[::2].std(1, correction=0).median())  # of some 512 rows
    assert fitted.temperature == pytest.approx(min(coldest, 1.0), rel=1e-12)  # T = 1 is no worse than what is found


@pytest.fixture
def with_outlier():
    """50 rows whose best temperature is near 1, the first of them right; and the same scaled 1,000 times."""
    rng = np.random.default_rng(1)
    y = rng.integers(0, 10, 50)
    z = rng.normal(size=(50, 10)) * 2 + 4 * np.eye(10)[y]
    i = np.flatnonzero(z.argmax(1) == y)[0]
    z[[0, i]], y[[0, i]] = z[[i, 0]], y[[i, 0]]
    return torch.from_numpy(z), torch.from_numpy(y)


@pytest.mark.parametrize(("factor", "n_rows"), [(1e-9, 30), (1e3, 1), (1e9, 30), (1e30, 1)])
def test_rows_unlike_the_others_do_not_hide_the_optimum(with_outlier, factor, n_rows):
    z, y = with_outlier
    z[:n_rows] *= factor
    known = 1 / bisect(lambda b: plain_slope(z, y, b), 0.0, 1e3)
    assert TemperatureScaling().fit(z, y).temperature == pytest.approx(known, rel=1e-7)


@pytest.mark.parametrize("factor", [1e4, 1e9])
def test_an_optimum_far_beyond_the_bounds(with_outlier, factor):
    """The labels of the usual rows are separated, and one that is many times as large is wrong."""
    z, y = with_outlier
    y = z.argmax(1)
    z[0], y[0] = factor * z[0], z[0].topk(2).indices[1]
    known = 1 / bisect(lambda b: plain_slope(z, y, b), 0.0, 1e3)
    assert known > 100
    assert TemperatureScaling().fit(z, y).temperature == pytest.approx(known, rel=1e-7)


def test_passes_stay_in_blocks(monkeypatch):
    z, y = random_sample(3, n=1000)
    whole = TemperatureScaling().fit(z, y).temperature
    monkeypatch.setattr("calibkit._arrays.BLOCK_BYTES", 7 * 6 * 8)
    assert TemperatureScaling().fit(z, y).temperature == pytest.approx(whole, rel=1e-12)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_moments_are_derivatives(smoothing):
    z, y = random_sample(4, n=30)
    b = torch.full((30,), 0.7, dtype=torch.float64, requires_grad=True)
    target = F.one_hot(y, 6).double() * (1 - smoothing) + smoothing / 6
    ce = -(target * (b[:, None] * z).log_softmax(1)).sum(1)
    first = torch.autograd.grad(ce.sum(), b, create_graph=True)[0]
    second = torch.autograd.grad(first.sum(), b)[0]
    found = temperature.moments(z, y, 0.7, smoothing)
    for ours, known in zip(found, (ce.detach(), first.detach(), second), strict=True):
        torch.testing.assert_close(ours, known, rtol=1e-11, atol=1e-12)


@pytest.fixture(scope="module")
def stored():
    return functools.cache(load_logits)


@pytest.mark.parametrize("name", SETS)
def test_known_optima(name, stored):
    data = stored(name)
    for objective, chosen in OBJECTIVE.items():
        known, fitted = ORACLE[name]["ts"][objective], TemperatureScaling(chosen).fit(*data.val)
        assert fitted.temperature == pytest.approx(known["temperature"], rel=2e-7), objective
        probs = fitted(data.test_logits)
        assert metrics.ece(probs, data.test_labels) == pytest.approx(known["test_ece"], abs=1e-6), objective
        assert metrics.accuracy(probs, data.test_labels) == ORACLE[name]["uncalibrated"]["test_accuracy"]
    known = ORACLE[name]["ts_ece_grid"]
    fitted = TemperatureScaling("ece").fit(data.val_logits, data.val_labels)
    assert fitted.temperature == known["temperature"]
    assert metrics.ece(fitted(data.test_logits), data.test_labels) == pytest.approx(known["test_ece"], abs=1e-9)


@pytest.mark.parametrize(("n", "k"), [(8192, 800), (3, 100_000)])
def test_labels_that_are_separated_beside_many_classes_end_at_the_bound(n, k):
    """Where the label's margin is large for a row, losses and slopes are 0 in floating point, as of equal logits."""
    labels = np.arange(n)
    logits = np.zeros((n, k), np.float32 if n > 3 else np.float64)
    logits[np.arange(n), labels % k] = 5
    with pytest.warns(RuntimeWarning, match="separate|bound|infinite|optimum"):
        found = TemperatureScaling().fit(logits, labels % k)
    assert found.temperature < 0.1
