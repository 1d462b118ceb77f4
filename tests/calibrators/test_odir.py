"""MS-ODIR and Dir-ODIR: the gradient of the published objective, its limits and identities."""

import warnings

import numpy as np
import pytest
from affine_samples import CORNERS, check_choice, check_order, corner, random_sample, too_large
from drawn_logits import true_logits
from scipy.special import softmax

from calibkit import metrics
from calibkit.calibrators import MSODIR, DirODIR, MatrixScaling, TemperatureScaling

METHODS = [MSODIR, DirODIR]


def features(method, z):
    z = np.asarray(z, dtype=np.float64)
    return z - np.logaddexp.reduce(z, axis=1, keepdims=True) if method is DirODIR else z


def gradient(w, b, f, y, lam, mu):
    """By (W, b), in one vector, of the objective of Kull et al. 2019: mean NLL, lambda / (K (K - 1)), mu / K."""
    n, k = f.shape
    g = (softmax(f @ w.T + b, axis=1) - np.eye(k)[y]) / n
    pull = 2 * lam / (k * (k - 1)) * w * (1 - np.eye(k))
    return np.append(g.T @ f + pull, g.sum(0) + 2 * mu / k * b)


def relative_gradient(fitted, f, y, lam, mu):
    """Norm of the gradient over that at the identity."""
    k = f.shape[1]
    places = (fitted.weights, fitted.bias), (np.eye(k), np.zeros(k))
    here, there = (np.linalg.norm(gradient(*place, f, y, lam, mu)) for place in places)
    return here / there


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("dtype", "k", "n", "lam", "mu", "near"),
    [
        (np.float64, 3, 300, 1.0, 0.1, 1e-9),
        (np.float64, 5, 500, 1e-2, 1e-2, 1e-9),
        (np.float64, 5, 500, 1e4, 1e2, 1e-9),
        (np.float64, 10, 800, 100.0, 1e-3, 1e-9),
        (np.float64, 3, 300, 1e-4, 1e-4, 1e-7),
        (np.float32, 3, 300, 100.0, 100.0, 1e-7),
        (np.float64, 36, 1500, 1.0, 1.0, 1e-7),
        (np.float32, 36, 1500, 100.0, 1e-4, 1e-7),
        (np.float32, 36, 1500, 1e6, 1e6, 1e-7),
    ],
)
def test_the_gradient_of_the_published_objective_vanishes(method, dtype, k, n, lam, mu, near):
    """Where it does the fit is at the optimum, for the objective is convex."""
    z, y = random_sample(0, n, k)
    z = z.astype(dtype)
    fitted = method(lam=lam, mu=mu).fit(z, y)
    assert relative_gradient(fitted, features(method, z), y, lam, mu) < near
    assert (fitted.chosen_lam, fitted.chosen_mu) == (lam, mu)
    assert not fitted.fell_back and np.isnan(fitted.cv_loss) and np.isnan(fitted.cv_loss_temperature)


@pytest.mark.parametrize("method", METHODS)
def test_the_gradient_vanishes_with_many_classes(method):
    """Beyond 160 the fit runs in other coordinates, without each class's whole Hessian."""
    z, y = random_sample(0, 1700, 170)
    fitted = method(lam=1e4, mu=1.0).fit(z.astype(np.float32), y)
    assert relative_gradient(fitted, features(method, z.astype(np.float32)), y, 1e4, 1.0) < 1e-7


def test_without_penalties_it_is_matrix_scaling():
    z, y = random_sample(2, 2000, 3)
    np.testing.assert_allclose(MSODIR(lam=0.0, mu=0.0).fit(z, y)(z), MatrixScaling().fit(z, y)(z), atol=1e-6)
    log_q = features(DirODIR, z)
    np.testing.assert_allclose(DirODIR(lam=0.0, mu=0.0).fit(z, y)(z), MatrixScaling().fit(log_q, y)(log_q), atol=1e-6)


def test_scale_of_the_logits():
    """Logits times c with lambda times c^2 are the same problem, up to logits of 1e4 and more."""
    z, y = random_sample(3, 400, 4)
    one, other = MSODIR(lam=0.1, mu=0.1).fit(z, y), MSODIR(lam=0.1 * 1e8, mu=0.1).fit(1e4 * z, y)
    np.testing.assert_allclose(1e4 * other.weights, one.weights, atol=1e-6)
    np.testing.assert_allclose(other(1e4 * z), one(z), atol=1e-7)


def test_order_of_rows_and_classes_and_shift():
    z, y = random_sample(4, 400, 4)
    _, probs = (check_order(lambda method=method: method(lam=0.1, mu=0.1), z, y) for method in (MSODIR, DirODIR))
    shift = np.linspace(-5, 5, 400)[:, None]
    np.testing.assert_allclose(DirODIR(lam=0.1, mu=0.1).fit(z + shift, y)(z), probs, atol=1e-7)


@pytest.mark.parametrize("method", METHODS)
def test_the_choice_is_never_worse_than_temperature_scaling(method):
    fell_back = []
    for seed, k in ((5, 4), (6, 4), (7, 12)):
        z, y = too_large(6, 400, k) if seed == 6 else random_sample(seed, 400, k)
        fitted = method().fit(z, y)
        check_choice(fitted, z, y)
        assert not fitted.fell_back or fitted.chosen_mu == np.inf
        fell_back.append(fitted.fell_back)
    assert fell_back[1] and not fell_back[0]


def test_a_class_with_one_row():
    """Log-probabilities are below zero. So a fold without the class lowers its probability for ever, by its own scale,
    and the held-out row has an arbitrarily large loss.
    """
    z, y = true_logits(300, 5)
    once = (y != 0) | (np.arange(300) == np.flatnonzero(y == 0)[0])
    z, y = 3 * z[once], y[once]
    fitted = DirODIR().fit(z, y)
    assert fitted.fell_back and fitted.cv_loss > 1.1 * fitted.cv_loss_temperature
    np.testing.assert_allclose(fitted(z), TemperatureScaling().fit(z, y)(z), atol=1e-9)


def test_a_given_penalty_stays():
    z, y = random_sample(8, 300, 3)
    fitted = MSODIR(lam=0.5).fit(z, y)
    assert fitted.chosen_lam == 0.5 and 0 < fitted.chosen_mu <= 10.0
    assert fitted.cv_loss < fitted.cv_loss_temperature


@pytest.mark.parametrize(
    ("method", "dtype", "case"),
    [
        (method, (np.float32, np.float64)[(i + j) % 2], case)
        for i, method in enumerate(METHODS)
        for j, case in enumerate(["separated", *CORNERS])
    ],
)
def test_corners_are_finite_and_the_same_again(method, dtype, case):
    z, y = random_sample(9, 300, 5)
    z, y = (z, z.argmax(1)) if case == "separated" else corner(case, z, y)
    z = z.astype(dtype)
    with warnings.catch_warnings():
        if case == "separated":
            warnings.filterwarnings("ignore", "the objective decreases up to the bound", RuntimeWarning)
        one, two = (method(lam=0.1, mu=0.1).fit(z, y) for _ in range(2))
    assert np.isfinite(one.weights).all() and np.isfinite(one.bias).all() and np.isfinite(one(z)).all()
    assert (one.weights == two.weights).all() and (one.bias == two.bias).all()
    if case == "separated":
        assert metrics.accuracy(one(z), y) == 1.0
    else:
        assert relative_gradient(one, features(method, z), y, 0.1, 0.1) < 1e-7
    if case == "missing":  # what the penalty on its bias leaves it
        assert one(z)[:, 4].mean() == pytest.approx(-2 * 0.1 / 5 * one.bias[4], abs=1e-8)


@pytest.mark.parametrize("cls", [DirODIR, MSODIR])
def test_a_free_diagonal_of_separated_labels_ends(cls):
    """Without a penalty it runs off to where float32 sees no curvature."""
    rng = np.random.default_rng(2)
    z = rng.normal(size=(50, 60)).astype(np.float32)
    y = (2 * z + rng.gumbel(size=z.shape)).argmax(1)
    assert metrics.nll(cls(lam=0.0, mu=1.0).fit(z, y)(z), y) < 1e-6
