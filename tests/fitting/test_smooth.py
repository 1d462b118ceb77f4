"""L-BFGS and the fixed point against closed forms; what a fit is compared with before it is taken, by hand."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from calibkit.fitting import fit_smooth, minimize
from calibkit.fitting.smooth import is_no_worse
from calibkit.fitting.temperature import fit_temperature
from calibkit.objectives import NLL, ClassBalanced, ClassLossScaling, Focal, LabelSmoothing, losses


def test_minimize_finds_rosenbrocks_minimum():
    def rosenbrock(x):
        a, b = x[0], x[1]
        value = (1 - a) ** 2 + 100 * (b - a * a) ** 2
        return float(value), torch.stack([2 * (a - 1) - 400 * a * (b - a * a), 200 * (b - a * a)])

    found = minimize(rosenbrock, torch.tensor([-1.2, 1.0], dtype=torch.float64))
    assert found.converged
    np.testing.assert_allclose(found.x, [1, 1], atol=1e-6)


def test_curvature_takes_away_unequal_scales():
    curvature = torch.logspace(-4, 4, 30, dtype=torch.float64)
    target = torch.linspace(-1, 1, 30, dtype=torch.float64)

    def bowl(x):
        return float(0.5 * (curvature * (x - target) ** 2).sum()), curvature * (x - target)

    start = torch.zeros(30, dtype=torch.float64)
    known = minimize(bowl, start, curvature=curvature)
    assert known.n_evaluations == 2  # one Newton step
    np.testing.assert_allclose(known.x, target, atol=1e-12)
    assert known.n_evaluations < minimize(bowl, start).n_evaluations


def test_a_step_that_is_too_long_is_cut_by_a_cubic():
    """For x^3 - 3 x from 0 the first step goes to 3; the cubic through both ends is the function, its minimum 1."""
    seen = []

    def function(x):
        seen.append(float(x))
        return float(x**3 - 3 * x), 3 * x**2 - 3

    start = torch.zeros((), dtype=torch.float64)
    found = minimize(function, start, curvature=torch.ones_like(start))
    assert seen == [0.0, 3.0, pytest.approx(1.0, abs=1e-12)]
    assert found.converged


@pytest.mark.parametrize("far", [math.inf, math.nan, 1e300])
def test_a_value_that_overflows_shortens_the_step(far):
    def function(x):
        return (far, torch.full_like(x, far)) if x > 1 else (float((x - 0.9) ** 2), 2 * (x - 0.9))

    start = torch.zeros((), dtype=torch.float64)
    found = minimize(function, start, curvature=torch.full_like(start, 1e-3))
    assert found.converged
    assert float(found.x) == pytest.approx(0.9)


def add(x, z):
    return z + x


def add_backward(x, z, g, grad):
    grad += g.sum(0)


@pytest.fixture
def sample():
    g = torch.Generator().manual_seed(0)
    return torch.randn(300, 4, generator=g), torch.randint(4, (300,), generator=g) // 2 + torch.arange(300) % 3


ZERO = torch.zeros(4, dtype=torch.float64)


def test_bias_at_the_optimum_gives_the_shares_of_the_labels(sample):
    z, y = sample
    bias = fit_smooth(NLL(), z, y, ZERO, add, add_backward)
    shares = torch.bincount(y, minlength=4) / 300
    np.testing.assert_allclose((z + bias).softmax(1).mean(0), shares, atol=1e-7)


def test_penalty_counts_on_the_scale_of_the_mean(sample):
    z, y = sample
    for objective in (NLL(), ClassBalanced(), ClassLossScaling()):
        bias = fit_smooth(objective, z, y, ZERO, add, add_backward, penalty=lambda x: (50.0 * float(x @ x), 100.0 * x))
        ce = losses(z, y, bias, add)
        weights = objective.weights(ce, y, 4)
        weights = weights / weights.sum()
        pull = torch.bincount(y, weights, 4)  # sum_i w_i (p_i - onehot_i) + 100 bias = 0
        np.testing.assert_allclose(bias, (pull - weights @ (z + bias).softmax(1)) / 100, atol=1e-9)


def scale_backward(x, z, g, grad):
    grad += (g * z).sum()


@pytest.mark.parametrize(
    "objective", [ClassLossScaling(), ClassLossScaling(0.2, 2.0), Focal(3.0, detach=True)], ids=str
)
def test_fixed_point_stands_still_under_its_own_weights(objective):
    rng = np.random.default_rng(0)
    z = torch.from_numpy(rng.normal(size=(500, 3)) * 3)
    y = torch.from_numpy((z.numpy() * [0.2, 0.5, 0.9] + rng.gumbel(size=z.shape)).argmax(1))
    start = torch.ones(1, dtype=torch.float64)
    x = fit_smooth(objective, z, y, start, lambda x, z: x * z, scale_backward)
    weights = objective.weights(losses(z, y, x, lambda x, z: x * z), y, 3)
    onehot = torch.nn.functional.one_hot(y, 3)
    gradient = (weights / weights.sum()) @ (((z * x).softmax(1) - onehot) * z).sum(1)
    assert abs(gradient) < 1e-7  # a predicted decrease of 1e-15, at a curvature of a few


def test_where_class_losses_can_be_made_equal_they_are_and_the_fit_says_so(sample):
    z, y = sample  # a bias for every class, on labels that have little to do with the logits
    objective = ClassLossScaling()
    with pytest.warns(RuntimeWarning, match="no fixed point was found: the weights jump, and are averaged"):
        bias = fit_smooth(objective, z, y, ZERO, add, add_backward)
    before = objective.class_losses(losses(z, y), y, 4)
    after = objective.class_losses(losses(z, y, bias, add), y, 4)
    assert after.std() < 0.1 * before.std()


def test_unfinished_fits_warn_and_minimize_says_when_it_is_not_done(sample):
    with pytest.warns(RuntimeWarning, match="not converged after"):
        fit_smooth(NLL(), *sample, ZERO, add, add_backward, max_iter=1)
    start = torch.ones(3, dtype=torch.float64)
    assert not minimize(lambda x: (float((x**4).sum()), 4 * x**3), start, max_iter=2).converged


@pytest.fixture
def few(overconfident):
    return tuple(x[:300] for x in overconfident)


def kept(objective, few, x, start):
    """Which of the two temperatures is kept, "x" or "start"."""
    x, start = (torch.tensor(t, dtype=torch.float64) for t in (x, start))
    return "x" if is_no_worse(objective, *few, x, start, lambda t, z: z / t) else "start"


@pytest.mark.parametrize("objective", [NLL(), Focal(1.0), LabelSmoothing(0.1)], ids=str)
def test_the_one_of_lower_value_is_kept(objective, few):
    z, y = few
    best = fit_temperature(objective, z, y)
    assert kept(objective, few, best, 1.5 * best) == "x"
    assert kept(objective, few, 1.5 * best, best) == "start"
    assert kept(objective, few, best, best) == "x"


def test_an_adaptive_objective_is_compared_under_the_weights_of_the_fit(few):
    z, y = few
    z = z * torch.tensor([1.0, 0.3, 2.0, 1.0, 0.5])
    objective = ClassLossScaling(alpha=0.1, beta=2.0)

    def total(t, weights_of):
        ce, own = (F.cross_entropy(z / u, y, reduction="none") for u in (t, weights_of))
        return float(objective.weights(own, y, 5) @ ce)

    for x in (0.6, 0.9, 1.2, 2.0, 4.0, 20.0):
        for start in (0.7, 1.5, 3.0, 10.0):
            better = total(x, x) <= min(total(start, x), total(1.0, x))
            assert kept(objective, (z, y), x, start) == ("x" if better else "start")


def test_an_adaptive_objective_is_compared_with_the_network_as_it_is_too(few):
    """Both temperatures are too high, the second the more so: the fit beats the start, but not T = 1."""
    z, y = few[0] / 3, few[1]
    assert kept(ClassLossScaling(), (z, y), 3.0, 9.0) == "start"
    assert kept(NLL(), (z, y), 3.0, 9.0) == "x"
