"""The curvature of affine maps and its coordinates against autograd's Hessian and a solve."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from calibkit.calibrators import calibrator
from calibkit.fitting import affine
from calibkit.fitting.affine import Ridge, Rows
from calibkit.fitting.affine_metric import _own, coordinates, curvature_at
from calibkit.objectives import NLL, LabelSmoothing


def random_sample(n, k):
    g = torch.Generator().manual_seed(0)
    true = 2 * torch.randn(n, k, generator=g, dtype=torch.float64)
    return 2 * true + torch.randn(k, generator=g, dtype=torch.float64), torch.multinomial(
        true.softmax(1), 1, generator=g
    )[:, 0]


@pytest.mark.parametrize(
    ("k", "diagonal", "parts"),
    [
        (4, True, "pair"),
        (4, False, "joint"),
        (90, True, "pair"),
        (40, False, "pair own"),
        (170, False, "pair own"),
        (1100, True, "own"),
    ],
)
def test_curvature_equals_the_hessian_of_the_nll(k, diagonal, parts):
    z, y = random_sample(20, k)
    x, classes = affine.scaled_identity(0.5, z, diagonal=diagonal), torch.arange(k)
    weights = torch.full((20,), 1 / 20, dtype=torch.float64)
    ours = curvature_at(NLL(), Rows(z, y), weights, x)
    assert [name for name in ("joint", "pair", "own") if getattr(ours, name) is not None] == parts.split()

    def nll(x):
        return F.cross_entropy(affine.apply(x, z), y)

    def pair_nll(v):
        w, b = v.split(k)
        rows = torch.stack([w, b], 1) if diagonal else torch.cat([x[:, :-1] + torch.diag(w), b[:, None]], 1)
        return nll(rows)

    hessian = torch.autograd.functional.hessian
    if ours.joint is not None:
        torch.testing.assert_close(ours.joint, hessian(nll, x).view(x.numel(), -1), rtol=1e-9, atol=1e-12)
    if ours.pair is not None and k < 100:
        at = torch.cat([x[:, 0] if diagonal else torch.zeros(k), x[:, -1]]).double()
        torch.testing.assert_close(ours.pair.double().triu(), hessian(pair_nll, at).triu(), rtol=1e-5, atol=1e-7)
    if ours.own is not None:
        for c in (0, k - 1):
            own = hessian(lambda row, c=c: nll(torch.where(classes[:, None] == c, row, x)), x[c])
            if (u := ours.directions) is not None:
                torch.testing.assert_close(ours.strong[c].double(), u.T @ own @ u, rtol=1e-4, atol=1e-7)
                rest = torch.eye(k + 1).double() - u @ u.T
                own = (rest @ own @ rest).diagonal()
            torch.testing.assert_close(ours.own[c].double(), own, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize(("k", "diagonal"), [(4, True), (4, False), (40, False), (170, False)])
def test_coordinates_are_adjoint_and_close_to_newton(k, diagonal):
    """``pull`` is the adjoint of ``step``; where all of the Hessian is there, ``step(pull(g))`` is its inverse."""
    z, y = random_sample(60, k)
    x = affine.scaled_identity(0.5, z, diagonal=diagonal)
    ridge = Ridge(torch.full_like(x, 0.1), torch.zeros_like(x))
    weights = torch.full((60,), 1 / 60, dtype=torch.float64)
    curvature = curvature_at(NLL(), Rows(z, y), weights, x)
    metric = coordinates(curvature, ridge, x)
    g = torch.randn(x.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    v = torch.randn(metric.size, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    assert float((metric.step(v) * g).sum()) == pytest.approx(float(v @ metric.pull(g)), rel=1e-4)
    if k == 4:
        h = curvature.pair.triu() + curvature.pair.triu(1).T if diagonal else curvature.joint
        flat = (g.T if diagonal else g).flatten()
        newton = torch.linalg.solve(h + 0.2 * torch.eye(len(h), dtype=h.dtype), flat)
        step = metric.step(metric.pull(g))
        torch.testing.assert_close((step.T if diagonal else step).flatten(), newton, rtol=1e-9, atol=1e-9)


def test_own_coordinates_of_many_classes():
    """``step(pull(g))`` is the inverse of what the coordinates were made for, by a dense solve. For log-probabilities,
    whose level differs from row to row, that is closer to the Hessian than its diagonal alone.
    """
    k = 170
    z, y = random_sample(400, k)
    z = z.log_softmax(1) - 5 * torch.rand(400, 1, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    x, c = affine.scaled_identity(0.5, z, diagonal=False), 3
    weights = torch.full((400,), 1 / 400, dtype=torch.float64)
    curvature = curvature_at(NLL(), Rows(z, y), weights, x)
    more = torch.full_like(x, 1e-4)
    metric = _own(curvature, more, 0.0)
    g = torch.randn(x.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    ours = metric.step(metric.pull(g))[c]
    u = curvature.directions
    made_for = (curvature.own[c].double() + more[c]).diag() + u @ curvature.strong[c].double() @ u.T
    torch.testing.assert_close(ours, torch.linalg.solve(made_for, g[c]), rtol=1e-6, atol=1e-9)

    p = affine.apply(x, z).softmax(1)[:, c]
    f = torch.cat([z, torch.ones(400, 1).double()], 1)
    hessian = f.T @ (f * (p * (1 - p) / 400)[:, None]) + more[c].diag()

    def largest(precondition):
        return float(torch.linalg.eigvals(torch.linalg.solve(precondition, hessian)).real.max())

    assert 5 * largest(made_for) < largest(hessian.diagonal().diag())


def test_smoothing_and_weights():
    """Smoothed targets leave the Hessian of the cross-entropy as it is, and weights scale its rows."""
    z, y = random_sample(10, 3)
    x, weights = affine.scaled_identity(0.5, z, diagonal=False), torch.arange(10.0, dtype=torch.float64)
    ours = curvature_at(LabelSmoothing(0.1), Rows(z, y), weights, x).joint
    rows = [curvature_at(NLL(), Rows(z[i : i + 1], y[i : i + 1]), weights[i : i + 1], x).joint for i in range(10)]
    torch.testing.assert_close(ours, sum(rows), rtol=1e-12, atol=1e-14)


def test_a_part_of_the_rows():
    z, y = random_sample(30, 3)
    x, weights, index = affine.scaled_identity(1.0, z, diagonal=True), torch.ones(10).double(), torch.arange(0, 30, 3)
    part = curvature_at(NLL(), Rows(z, y[index], index), weights, x).pair.triu()
    torch.testing.assert_close(part, curvature_at(NLL(), Rows(z[index], y[index]), weights, x).pair.triu())


@pytest.mark.parametrize(
    ("name", "n_classes", "mask", "dtype"),
    [
        ("vector_scaling", 5, -1e300, np.float64),
        ("vector_scaling", 24, -3.4e38, np.float32),
        ("matrix_scaling lam=0.1", 24, -3.4e38, np.float32),
        ("ms_odir lam=1 mu=1", 5, -1e300, np.float64),
        ("dir_odir lam=1 mu=1", 24, -3.4e38, np.float32),
    ],
)
def test_logits_whose_squares_overflow_are_masks(name, n_classes, mask, dtype):
    """As if the class were masked by less, also where the curvature is taken in float32."""
    rng = np.random.default_rng(0)
    z = (2 * rng.normal(size=(800, n_classes))).astype(dtype)
    y = (z + rng.gumbel(size=z.shape))[:, 1:].argmax(1) + 1
    z[:, 0] = mask
    probs = calibrator(name).fit(z, y)(z)
    z[:, 0] = -(2.0**50)
    np.testing.assert_allclose(probs, calibrator(name).fit(z, y)(z), atol=1e-4)
    assert (probs[:, 0] < 1e-6).all()


@pytest.mark.parametrize(
    ("name", "scale", "n_classes"),
    [
        ("vector_scaling", 1e-15, 24),
        ("vector_scaling", 1e12, 3),
        ("matrix_scaling", 1e-12, 3),
        ("matrix_scaling", 1e12, 3),
        ("matrix_scaling lam=0.01", 1e-15, 3),
        ("matrix_scaling lam=0.01", 1e12, 24),
        ("matrix_scaling lam=0.01", 1e-6, 24),
    ],
)
def test_the_unit_of_the_logits_does_not_matter(name, scale, n_classes):
    rng = np.random.default_rng(0)
    z = 2 * rng.normal(size=(2000, n_classes))
    y = (z * rng.uniform(0.3, 1.5, n_classes) + rng.gumbel(size=z.shape)).argmax(1)
    want = calibrator(name).fit(z, y)(z)
    np.testing.assert_allclose(calibrator(name).fit(scale * z, y)(scale * z), want, atol=2e-5)


def test_fitted_arrays_share_no_memory_with_the_parameters():
    x = torch.arange(12, dtype=torch.float64).view(3, 4)
    weights, bias = affine.arrays(x)
    x.zero_()
    assert weights[2, 2] == 10.0 and bias[1] == 7.0 and weights.flags["C_CONTIGUOUS"]
