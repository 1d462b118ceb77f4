"""Order-preserving map: temperature scaling as its limits, the gradient of torch, a function that is known."""

import numpy as np
import pytest
import torch
from bent_logits import BENT, LABELS, PROBS
from scipy.optimize import minimize

from calibkit import OrderPreserving, TemperatureScaling
from calibkit.calibrators.order_preserving import _by_slopes, mapped


def test_map_by_hand():
    """Slopes 2, 1, 3 left of -1, between, and right of 2; 0 at the first knot."""
    z = torch.tensor([[-3.0, -1.0, 0.0, 2.0, 4.0]], dtype=torch.float64)
    m = mapped(z, torch.tensor([-1.0, 2.0], dtype=torch.float64), torch.tensor([2.0, 1.0, 3.0], dtype=torch.float64))
    assert m.tolist() == [[-4.0, 0.0, 1.0, 3.0, 9.0]]


@pytest.mark.parametrize("knots", [[], [0.5], [-2.0, -0.5, 1.0, 3.0]])
def test_gradient(knots):
    knots = torch.tensor(knots, dtype=torch.float64)
    draw = torch.Generator().manual_seed(0)
    z, g = torch.randn(2, 50, 7, dtype=torch.float64, generator=draw)
    slopes = torch.rand(len(knots) + 1, dtype=torch.float64, generator=draw, requires_grad=True)
    (mapped(z, knots, slopes) * g).sum().backward()
    # Logits count by their differences: a constant in m changes no softmax, and sums of g are 0 over a row there.
    torch.testing.assert_close(_by_slopes(z, g, knots), slopes.grad)


@pytest.mark.parametrize("options", [{"n_pieces": 1, "lam": 0.0}, {"lam": 1e9}])
def test_limits_are_temperature_scaling(options):
    ts = TemperatureScaling().fit(BENT, LABELS)
    np.testing.assert_allclose(OrderPreserving(**options).fit(BENT, LABELS)(BENT), ts(BENT), rtol=1e-6, atol=1e-9)


def test_finds_the_inverse_of_what_bent_the_logits():
    error = np.abs(OrderPreserving().fit(BENT, LABELS)(BENT) - PROBS).mean()
    assert error < 0.4 * np.abs(TemperatureScaling().fit(BENT, LABELS)(BENT) - PROBS).mean()


def test_optimum():
    """The value that scipy's bounded descent finds from another start, for three pieces."""
    fitted = OrderPreserving(n_pieces=3).fit(BENT, LABELS)
    z, knots = torch.as_tensor(BENT), torch.as_tensor(fitted.knots)
    t = TemperatureScaling().fit(BENT, LABELS).temperature

    def value(slopes):
        log_p = mapped(z, knots, torch.as_tensor(slopes)).log_softmax(1).numpy()
        return -log_p[np.arange(len(LABELS)), LABELS].mean() + ((t * slopes - 1) ** 2).sum() / len(LABELS)

    found = minimize(value, np.full(3, 0.5), bounds=[(0, None)] * 3, method="L-BFGS-B", options={"ftol": 1e-14})
    assert value(fitted.slopes) == pytest.approx(found.fun, abs=1e-8)
    np.testing.assert_allclose(fitted.slopes, found.x, rtol=1e-3)
