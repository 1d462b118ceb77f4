"""Order-preserving map: temperature scaling as its limits, scipy's optimum, a function that is known."""

import numpy as np
import pytest
import torch
from bent_logits import BENT, LABELS, PROBS
from scipy.optimize import minimize

from calibkit import GPCalibration, OrderPreserving, TemperatureScaling
from calibkit.calibrators.order_preserving import mapped


def test_map_by_hand():
    """Slopes 2, 1, 3 left of -1, between, and right of 2; 0 at the first knot."""
    z = torch.tensor([[-3.0, -1.0, 0.0, 2.0, 4.0]], dtype=torch.float64)
    m = mapped(z, torch.tensor([-1.0, 2.0], dtype=torch.float64), torch.tensor([2.0, 1.0, 3.0], dtype=torch.float64))
    assert m.tolist() == [[-4.0, 0.0, 1.0, 3.0, 9.0]]


@pytest.mark.parametrize("options", [{"n_pieces": 1, "lam": 0.0}, {"lam": 1e9}])
def test_limits_are_temperature_scaling(options):
    ts = TemperatureScaling().fit(BENT, LABELS)
    np.testing.assert_allclose(OrderPreserving(**options).fit(BENT, LABELS)(BENT), ts(BENT), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("method", "share"), [(OrderPreserving, 0.4), (GPCalibration, 0.5)])
def test_finds_the_inverse_of_what_bent_the_logits(method, share):
    error = np.abs(method().fit(BENT, LABELS)(BENT) - PROBS).mean()
    assert error < share * np.abs(TemperatureScaling().fit(BENT, LABELS)(BENT) - PROBS).mean()


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


@pytest.mark.parametrize(
    ("method", "unit"), [*((OrderPreserving, unit) for unit in (1e-12, 1e-3, 1e4, 1e30)), (GPCalibration, 7.0)]
)
def test_unit_of_the_logits_is_of_no_account(method, unit):
    """The penalty, or the prior, is one of the logits after one temperature."""
    fitted = method().fit(BENT, LABELS)
    np.testing.assert_allclose(method().fit(unit * BENT, LABELS)(unit * BENT), fitted(BENT), atol=1e-6)
