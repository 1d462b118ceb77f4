"""Matrix scaling against the gradient of its formula, closed forms, invariances, and at its corners."""

import numpy as np
import pytest
from affine_samples import CORNERS, check_choice, check_order, corner, random_sample, too_large
from scipy.special import softmax

from calibkit import metrics
from calibkit.calibrators import MatrixScaling, TemperatureScaling


def gradient(x, z, y, lam, temperature):
    """By the rows (w_k, b_k) of x, of mean NLL + lambda / K (|T W - I|^2 + |b|^2)."""
    (n, k), one = z.shape, np.column_stack([z, np.ones(len(z))])
    pull = np.column_stack([temperature * (temperature * x[:, :k] - np.eye(k)), x[:, k]])
    return (softmax(one @ x.T, axis=1) - np.eye(k)[y]).T @ one / n + 2 * lam / k * pull


def rows(fitted):
    return np.column_stack([fitted.weights, fitted.bias])


@pytest.mark.parametrize(
    ("dtype", "k", "n", "lam", "near"),
    [
        (np.float64, 3, 300, 10.0, 1e-9),
        (np.float64, 4, 600, 0.0, 1e-7),
        (np.float64, 5, 500, 1e-3, 1e-9),
        (np.float64, 10, 800, 0.1, 1e-9),
        (np.float32, 3, 300, 1e-4, 1e-7),
        (np.float64, 10, 800, 1e-4, 1e-7),
        (np.float32, 10, 800, 100.0, 1e-7),
        (np.float32, 36, 1500, 1e-4, 1e-7),
        (np.float64, 36, 1500, 1.0, 1e-7),
    ],
)
def test_the_gradient_vanishes(dtype, k, n, lam, near):
    """Where it does the fit is at the optimum, for the objective is convex."""
    z, y = random_sample(1, n, k)
    z = z.astype(dtype)
    fitted, temperature = MatrixScaling(lam=lam).fit(z, y), TemperatureScaling().fit(z, y).temperature
    identity = np.column_stack([np.eye(k) / temperature, np.zeros(k)])
    norms = [np.linalg.norm(gradient(x, z.astype(float), y, lam, temperature)) for x in (rows(fitted), identity)]
    assert norms[0] < near * norms[1]
    assert fitted.chosen_lam == lam and not fitted.fell_back and np.isnan(fitted.cv_loss)


def test_invariances():
    z, y = random_sample(3, 600, 4)
    probs = check_order(lambda: MatrixScaling(lam=0.1), z, y)
    np.testing.assert_allclose(MatrixScaling(lam=0.1).fit(1e4 * z, y)(1e4 * z), probs, atol=1e-7)
    # Any affine map of the logits can be undone.
    rng = np.random.default_rng(0)
    mixed = z @ (np.eye(4) + 0.3 * rng.normal(size=(4, 4))) + rng.normal(size=4)
    np.testing.assert_allclose(MatrixScaling().fit(mixed, y)(mixed), MatrixScaling().fit(z, y)(z), atol=1e-6)


@pytest.mark.parametrize("leak", [True, False])
def test_the_choice_is_never_worse_than_temperature_scaling(leak):
    z, y = random_sample(4, 400, 5) if leak else too_large(8, 400, 5)
    fitted = MatrixScaling(lam=None).fit(z, y)
    assert fitted.fell_back == (not leak)
    check_choice(fitted, z, y)


@pytest.mark.parametrize("case", CORNERS)
@pytest.mark.parametrize(("lam", "dtype"), [(0.0, np.float32), (0.1, np.float64)])
def test_corners_are_finite_and_the_same_again(case, lam, dtype):
    z, y = corner(case, *random_sample(5, 300, 5))
    z = z.astype(dtype)
    one, two = (MatrixScaling(lam=lam).fit(z, y) for _ in range(2))
    assert np.isfinite(rows(one)).all() and (rows(one) == rows(two)).all()
    assert metrics.nll(one(z), y) <= metrics.nll(TemperatureScaling().fit(z, y)(z), y)
    shares = np.bincount(y, minlength=5) / 300  # the bias makes them equal to the mean probabilities but for its pull
    np.testing.assert_allclose(one(z).mean(0), shares - 2 * lam / 5 * one.bias, atol=1e-7)


def test_separated_labels():
    z, _ = random_sample(6, 200, 4)
    # By a matrix, though not by the largest logit.
    y = (z @ (np.eye(4) + 0.3 * np.random.default_rng(0).normal(size=(4, 4)))).argmax(1)
    with pytest.warns(RuntimeWarning, match="separated"):
        one = MatrixScaling().fit(z, y)
    assert metrics.accuracy(one(z), y) == 1.0 and np.isfinite(rows(one)).all()
    assert metrics.accuracy(MatrixScaling(lam=1e-3).fit(z, y)(z), y) > 0.9  # with a penalty there is an optimum


@pytest.mark.parametrize("k", [22, 23])
def test_a_column_of_zeros(k):
    """Logits against a class of reference: at the optimum, by the gradient, in both kinds of coordinates."""
    rng = np.random.default_rng(0)
    z = 2 * rng.normal(size=(3000, k))
    z -= z[:, :1]
    y = (z / 1.5 + rng.gumbel(size=z.shape)).argmax(1)
    fitted = MatrixScaling(lam=0).fit(z, y)
    np.testing.assert_allclose(gradient(rows(fitted), z, y, 0.0, 1.0), 0, atol=1e-6)
