"""GP calibration: its derivatives, its mode and its evidence by other ways, a function that is known, its limits."""

import numpy as np
import pytest
import torch
from bent_logits import BENT, LABELS, PROBS, RNG, TRUE
from scipy.integrate import dblquad
from scipy.optimize import minimize

from calibkit import GPCalibration
from calibkit.calibrators.gp_calibration import _mode, _sum_of_losses

KNOTS = torch.tensor([-2.0, -0.5, 1.0, 3.0], dtype=torch.float64)


def derivatives(u, z, y, temperature, knots):
    return _sum_of_losses(u, z, y, temperature, knots, torch.bucketize(z / temperature, knots[1:-1], right=True))


def sum_by_definition(u, z, y, temperature, knots):
    t = z / temperature
    hats = [np.interp(t.numpy(), knots.numpy(), row) for row in np.eye(len(knots))]
    f = t + sum(value * torch.as_tensor(hat) for value, hat in zip(u, hats, strict=True))
    return torch.nn.functional.cross_entropy(f, y, reduction="sum")


def test_derivatives():
    z, y = torch.as_tensor(BENT[:200]), torch.as_tensor(LABELS[:200])
    u = torch.randn(4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    value, gradient, hessian = derivatives(u, z, y, 1.3, KNOTS)
    of = u.requires_grad_()
    wanted = sum_by_definition(of, z, y, 1.3, KNOTS)
    assert value == pytest.approx(wanted.item())
    torch.testing.assert_close(gradient, torch.autograd.grad(wanted, of)[0])
    by_torch = torch.autograd.functional.hessian(lambda x: sum_by_definition(x, z, y, 1.3, KNOTS), of.detach())
    torch.testing.assert_close(hessian, by_torch)


def test_column_major_logits_are_no_occasion_to_warn():
    """torch says it once a process, unless it is asked to say it always; the tests make an error of it."""
    torch.set_warn_always(True)
    try:
        found = GPCalibration().fit(np.asfortranarray(BENT[:300]), LABELS[:300])(np.asfortranarray(BENT[:5]))
    finally:
        torch.set_warn_always(False)
    np.testing.assert_allclose(found, GPCalibration().fit(BENT[:300], LABELS[:300])(BENT[:5]), rtol=1e-12)


def test_mode_and_evidence():
    """The mode is scipy's; Laplace's evidence is near the integral over both values, of 300 samples."""
    z, y, knots = torch.as_tensor(BENT[:300]), torch.as_tensor(LABELS[:300]), torch.tensor([-1.0, 1.0]).double()
    covariance = np.array([[1.0, 0.6], [0.6, 1.0]])
    root = torch.linalg.cholesky(torch.as_tensor(covariance))
    straight = torch.zeros(2).double()

    def of(u):
        return derivatives(u, z, y, 1.3, knots)

    def minus_log_joint(u):
        prior = 0.5 * u @ np.linalg.solve(covariance, u) + 0.5 * np.log(np.linalg.det(2 * np.pi * covariance))
        return of(torch.as_tensor(u))[0] + prior

    w, _, log_p = _mode(straight, of(straight), root, of)

    found = minimize(minus_log_joint, np.zeros(2), tol=1e-10)
    np.testing.assert_allclose(root @ w, found.x, atol=1e-4)
    volume, _ = dblquad(lambda a, b: np.exp(found.fun - minus_log_joint(np.array([a, b]))), -3, 3, -3, 3, epsabs=1e-3)
    assert log_p == pytest.approx(np.log(volume) - found.fun, abs=0.05)


def test_costs_nothing_where_one_temperature_is_right():
    """The expected loss above that of the truth, in nats: that of temperature scaling is 1 / 2N = 0.0002."""
    excess = [
        (PROBS * np.log(PROBS / GPCalibration().fit(3 * TRUE, labels)(3 * TRUE))).sum(1).mean()
        for labels in (np.array([RNG.choice(4, p=p) for p in PROBS]) for _ in range(5))
    ]
    assert np.mean(excess) < 0.0005


def test_separable_samples_and_logits_without_a_difference():
    """Every sample is right at the lowest temperature, where the losses are 0 and their gradient is not quite."""
    with pytest.warns(RuntimeWarning, match="one-hot"):
        assert GPCalibration().fit(np.eye(3) * [[5.0], [6.0], [7.0]], np.arange(3)).deviation == 0
    assert GPCalibration().fit(np.zeros((9, 3)), np.arange(9) % 3)(np.zeros((1, 3))).tolist() == [[1 / 3] * 3]


def test_a_step_that_rounding_hides_ends():
    """The gradient points down, but no step lowers the value: the start is returned."""
    start, flat = torch.zeros(2).double(), (1.0, torch.ones(2).double(), torch.zeros(2, 2).double())
    w, at, _ = _mode(start, flat, torch.eye(2).double(), lambda u: flat)
    assert w is start and at is flat
