"""Vector scaling, and the passes of all affine methods, against closed forms, autograd and slow loops."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from affine_samples import check_order
from refusals import refused

from calibkit import metrics
from calibkit.calibrators import TemperatureScaling, VectorScaling
from calibkit.fitting import affine
from calibkit.fitting.affine import Ridge, Rows
from calibkit.fitting.affine_fit import folds, search
from calibkit.objectives import NLL, ClassBalanced, ClassLossScaling, Focal, LabelSmoothing

OBJECTIVES = [NLL(), Focal(), Focal(detach=True), LabelSmoothing(), ClassBalanced(), ClassLossScaling()]


def random_sample(seed=0, n=600, k=4, spread=0.4):
    """Logits that are too large, by another factor for each class and with another offset."""
    g = torch.Generator().manual_seed(seed)
    true = 2 * torch.randn(n, k, generator=g, dtype=torch.float64)
    y = torch.multinomial(true.softmax(1), 1, generator=g)[:, 0]
    scales = 2 * torch.exp(spread * torch.randn(k, generator=g, dtype=torch.float64))
    return true * scales + 3 * spread * torch.randn(k, generator=g, dtype=torch.float64), y


def plain_objective(objective, u, y):
    """The objective of calibrated logits, the weights held fixed, for autograd."""
    alpha = objective.smoothing
    target = (1 - alpha) * F.one_hot(y, u.shape[1]).double() + alpha / u.shape[1]
    ce = -(target * u.log_softmax(1)).sum(1)
    weights = objective.weights(ce.detach(), y, u.shape[1])
    phi = (1 - torch.exp(-ce)) ** 3 * ce if isinstance(objective, Focal) and not objective.detach else ce
    return weights @ phi / weights.sum()


@pytest.mark.parametrize("diagonal", [True, False])
@pytest.mark.parametrize("objective", OBJECTIVES, ids=str)
def test_gradient_equals_autograd_of_the_plain_formula(objective, diagonal):
    z, y = random_sample(n=50)
    index = torch.arange(0, 50, 3)
    g = torch.Generator().manual_seed(1)
    x = torch.randn(4, 2 if diagonal else 5, generator=g, dtype=torch.float64).requires_grad_()
    strength, centre = torch.rand(x.shape, generator=g, dtype=torch.float64), torch.ones_like(x)
    u = z[index] * x[:, 0] + x[:, 1] if diagonal else z[index] @ x[:, :-1].T + x[:, -1]
    value = plain_objective(objective, u, y[index]) + (strength * (x - centre) ** 2).sum()
    (grad,) = torch.autograd.grad(value, x)

    sample, ridge = Rows(z, y[index], index), Ridge(strength, centre)
    ce = affine.losses(objective, sample, x.detach())
    weights = objective.weights(ce, y[index], 4)
    weights /= weights.sum()
    ours = affine.value_and_grad(objective, sample, weights, x.detach(), ridge, torch.float64)
    assert ours[0] == pytest.approx(value.item(), rel=1e-12)
    torch.testing.assert_close(ours[1], grad, rtol=1e-10, atol=1e-14)
    torch.testing.assert_close(ours[2], ce)


@pytest.mark.parametrize(
    ("objective", "lam"), [(each, 0.3) for each in OBJECTIVES] + [(NLL(), lam) for lam in (0.0, 0.01, 1.0)], ids=str
)
def test_the_gradient_vanishes_at_the_fit(objective, lam):
    z, y = random_sample(1)
    dtype = torch.float32 if objective.adaptive else torch.float64
    z, temperature = z.to(dtype), TemperatureScaling(objective).fit(z.to(dtype), y).temperature
    vs = VectorScaling(objective, lam=lam).fit(z, y)
    w, b = (torch.from_numpy(a).requires_grad_() for a in (vs.weights, vs.bias))
    penalty = lam / 4 * ((temperature * w - 1).square().sum() + b.square().sum())
    value = plain_objective(objective, z.double() * w + b, y) + penalty
    for grad in torch.autograd.grad(value, (w, b)):
        assert grad.abs().max() < 2e-8
    assert vs.chosen_lam == lam and not vs.fell_back and np.isnan(vs.cv_loss)


@pytest.mark.parametrize("lam", [0.0, 0.1])
def test_invariances(lam):
    z, y = (x.numpy() for x in random_sample(4))
    probs = check_order(lambda: VectorScaling(lam=lam), z, y)
    for other in (100 * z, z + 5) if lam == 0.0 else (100 * z,):
        np.testing.assert_allclose(VectorScaling(lam=lam).fit(other, y)(other), probs, rtol=0, atol=1e-7)


@pytest.mark.parametrize("objective", [NLL(), ClassBalanced(), LabelSmoothing()], ids=str)
def test_criterion_equals_a_plain_loop_over_folds(objective):
    z, y = random_sample(6, n=300, k=8)
    vs, fold = VectorScaling(objective, lam=None).fit(z, y), folds(len(y), 5)
    assert 0 < vs.chosen_lam < np.inf and not vs.fell_back
    for method, loss in (
        (VectorScaling(objective, lam=vs.chosen_lam), vs.cv_loss),
        (TemperatureScaling(objective), vs.cv_loss_temperature),
    ):
        ce = torch.empty(len(z), dtype=torch.float64)
        for f in range(5):
            out = fold == f
            log_probs = method.fit(z[~out], y[~out])(z[out]).log()
            ce[out] = F.cross_entropy(log_probs, y[out], reduction="none", label_smoothing=objective.smoothing)
        weights = objective.weights(ce, y, 8)
        assert float(weights @ ce / weights.sum()) == pytest.approx(loss, rel=2e-4)
    assert vs.cv_loss < vs.cv_loss_temperature


def test_folds_are_equal_always_the_same_and_no_more_than_rows():
    assert torch.bincount(folds(42, 5)).tolist() == [9, 9, 8, 8, 8]
    assert torch.equal(folds(42, 5), folds(42, 5))
    assert not torch.equal(folds(42, 5), torch.arange(42) % 5)
    z, y = random_sample(0, n=4)
    refused("`logits` to be at least 5 rows, .*, but got 4", VectorScaling(lam=None).fit, z, y)


@pytest.mark.parametrize("target", [(0, 0), (2, 2), (1, 4), (5, 3)])
def test_search_walks_to_the_lowest_loss(target):
    calls = []

    def loss(strengths):
        decades = -np.log10(strengths)
        calls.append(strengths)
        return 1.0 + 0.01 * float(((decades - target) ** 2).sum())

    assert search(loss, (1.0, 1.0), (True, True))[0] == tuple(10.0**-t for t in target)
    assert len(calls) == len(set(calls))
    assert search(loss, (1.0, 10.0 ** -target[1]), (True, False))[0] == (10.0 ** -target[0], 10.0 ** -target[1])


def test_separated_labels():
    z, _ = random_sample(7)
    with pytest.warns(RuntimeWarning, match="bound|separated"):
        vs = VectorScaling().fit(z, z.argmax(1))
    assert metrics.accuracy(vs(z), z.argmax(1)) == 1.0
    smooth = VectorScaling("label_smoothing").fit(z, z.argmax(1))  # smoothed labels are never separated
    assert np.isfinite(smooth.weights).all()


def test_a_class_without_labels():
    z, y = random_sample(8)
    probs = VectorScaling().fit(z, y.clamp(max=2))(z)
    assert probs[:, 3].max() < 1e-6


def test_float32_equals_float64_and_twice_is_the_same():
    z, y = random_sample(9, n=3000, k=12)
    z = z.float()
    one, two, again = (VectorScaling(lam=None).fit(a, y) for a in (z, z.double(), z))
    assert one.chosen_lam == two.chosen_lam
    np.testing.assert_allclose(one.weights, two.weights, atol=1e-7)
    assert (one.weights == again.weights).all() and (one.bias == again.bias).all()
