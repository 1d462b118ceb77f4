"""Structured vector and matrix scaling: their authors' package, the gradient, invariances, and corners."""

import numpy as np
import oracles
import pytest
import torch
from affine_samples import CORNERS, check_order, corner, random_sample

from book.kit.results import load
from calibkit import metrics
from calibkit.calibrators import StructuredMatrixScaling, StructuredVectorScaling, TemperatureScaling, calibrator
from calibkit.objectives import NLL, ClassBalanced, Focal

METHODS = {"svs": StructuredVectorScaling, "sms": StructuredMatrixScaling}
SAMPLES, ORACLE = oracles.numbers("structured_scaling")["samples"], oracles.arrays("structured_scaling")


def log_softmax(u):
    return u - np.logaddexp.reduce(u, axis=1, keepdims=True)


def features(z, temperature):
    """ln of the probabilities of temperature scaling and of one more sample of unknown class."""
    n, k = z.shape
    return np.log((n * np.exp(log_softmax(np.float64(z) / temperature)) + 1 / k) / (n + 1))


def value(weights, bias, f, y, lam=1.0):
    """The published objective: mean NLL, K / N on scales and biases, K (K - 1) / N off the diagonal."""
    n, k = f.shape
    w = np.diag(weights) if weights.ndim == 1 else weights
    log_p = log_softmax(f @ w.T + bias)
    own = ((w.diagonal() - 1) ** 2).sum() + (bias**2).sum()
    off = (w**2).sum() - (w.diagonal() ** 2).sum()
    return -log_p[np.arange(n), y].mean() + lam * (k / n * own + k * (k - 1) / n * off)


@pytest.mark.parametrize("key", METHODS)
@pytest.mark.parametrize("name", SAMPLES)
def test_equals_what_the_authors_package_returned(name, key):
    """As far as its optimiser goes, BFGS in float32 that stops early: ours has the lower objective."""
    z, y = ORACLE[f"{name}_logits"], ORACLE[f"{name}_labels"].astype(int)
    probs, weights, bias = (ORACLE[f"{name}_{key}_{what}"] for what in ("probs", "weights", "bias"))
    ours = METHODS[key]().fit(z, y)
    assert ours.temperature == pytest.approx(ORACLE[f"{name}_{key}_temperature"], rel=1e-6)
    f = features(z, ours.temperature)
    lowest = value(ours.weights, ours.bias, f, y)
    assert lowest <= value(np.float64(weights), np.float64(bias), f, y) <= lowest + 1e-5
    np.testing.assert_allclose(ours.weights, weights, atol=1e-2)
    np.testing.assert_allclose(ours(z), probs, atol=1e-3 if weights.ndim == 1 else 5e-3)


@pytest.mark.parametrize("name", ["structured_vector_scaling", "structured_matrix_scaling"])
def test_equals_what_calarena_measured_on_published_logits(name, cifar10):
    """The NLL and Brier score of its fit by the authors' package, to the digits that its optimiser leaves."""
    rows = load("third_party").query("method == @name and dataset == 'cifar10' and model == 'densenet40'")
    printed = rows[rows["loss"] == "cross_entropy"].set_index("metric")["value"]
    test_logits, test_labels = cifar10.logits.test
    probs = calibrator(name).fit(*cifar10.logits.val)(test_logits)
    assert metrics.nll(probs, test_labels) == pytest.approx(printed["nll"], abs=3e-5)
    assert metrics.brier(probs, test_labels) == pytest.approx(printed["brier"], abs=5e-6)


@pytest.mark.parametrize("key", METHODS)
@pytest.mark.parametrize(
    ("objective", "n", "k", "lam"),
    [(NLL(), 300, 4, 1.0), (ClassBalanced(), 60, 12, 1.0), (Focal(), 2000, 3, 0.1)],
    ids=str,
)
def test_the_gradient_vanishes_at_the_fit(objective, key, n, k, lam):
    z, y = random_sample(0, n, k)
    fit = METHODS[key](objective, lam=lam).fit(z, y)
    assert not fit.fell_back
    f, labels = torch.from_numpy(features(z, fit.temperature)), torch.from_numpy(y)
    w, b = (torch.from_numpy(a).requires_grad_() for a in (fit.weights, fit.bias))
    full = torch.diag(w) if key == "svs" else w
    ce = torch.nn.functional.cross_entropy(f @ full.T + b, labels, reduction="none")
    weights = objective.weights(ce.detach(), labels, k)
    pull = lam * k / n * ((full.diagonal() - 1).square().sum() + b.square().sum())
    pull = pull + lam * k * (k - 1) / n * (full.square().sum() - full.diagonal().square().sum())
    total = weights @ objective.transform(ce)[0] / weights.sum() + pull
    for grad in torch.autograd.grad(total, (w, b)):
        assert grad.abs().max() < 2e-8


@pytest.mark.parametrize("key", METHODS)
def test_a_strong_penalty_is_temperature_scaling_smoothed(key):
    """One sample that is wrong and sure of it: without smoothing it alone would cost more."""
    z, y = random_sample(3, 200, 5)
    z[0], y[0] = 30 * np.eye(5)[1], 4
    fit, ts = METHODS[key](lam=1e9).fit(z, y), TemperatureScaling().fit(z, y)
    assert fit.smoothing == 1 / 201 and fit.temperature == ts.temperature and not fit.fell_back
    np.testing.assert_allclose(fit(z), (200 * ts(z) + 1 / 5) / 201, atol=1e-7)


@pytest.mark.parametrize("key", METHODS)
def test_invariances(key):
    z, y = random_sample(6, 300, 4)
    probs = check_order(METHODS[key], z, y)
    for other in (z + np.random.default_rng(0).normal(size=(300, 1)), 100 * z):
        np.testing.assert_allclose(METHODS[key]().fit(other, y)(other), probs, atol=1e-7)


@pytest.mark.parametrize("key", METHODS)
@pytest.mark.parametrize("case", CORNERS)
def test_corners(key, case):
    z, y = corner(case, *random_sample(7, 300, 6))
    fit = METHODS[key]().fit(z, y)
    f = features(z, fit.temperature)
    eye = np.ones(6) if key == "svs" else np.eye(6)
    assert value(fit.weights, fit.bias, f, y) <= value(eye, np.zeros(6), f, y)
    probs = fit(1e3 * z)  # further out than anything it was fitted on
    assert np.isfinite(probs).all() and (probs > 0).all()
    if case == "missing":  # they had 0 of 300 samples; one of 300 would be 0.003
        assert 1e-4 < fit(z)[:, 4:].mean(0).min() and fit(z)[:, 4:].mean(0).max() < 0.03


@pytest.mark.parametrize("key", METHODS)
def test_where_smoothing_costs_more_than_scaling_gains_it_is_temperature_scaling(key):
    z = 20 * np.eye(3)[np.arange(60) % 3]
    y = np.arange(60) % 3
    with pytest.warns(RuntimeWarning, match="the objective decreases up to the bound"):
        fit, ts = METHODS[key]().fit(z, y), TemperatureScaling().fit(z, y)
    assert fit.fell_back and not fit.bias.any()
    np.testing.assert_array_equal(fit(z), ts(z))
