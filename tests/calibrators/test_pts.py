"""Parameterized temperature scaling: a known temperature of each sample, stationarity, limit cases."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from refusals import refused
from scipy.special import softmax

from calibkit.calibrators import PTS, TemperatureScaling, load_calibrator
from calibkit.metrics import nll
from calibkit.objectives import OBJECTIVES


def varying(n, seed, k=10):
    """Logits whose true temperature rises from 1 to 4 with the largest logit: (logits, labels, true logits)."""
    rng = np.random.default_rng(seed)
    true = torch.from_numpy(rng.normal(scale=2.0, size=(n, k)))
    y = (true.softmax(1).cumsum(1) < torch.from_numpy(rng.random((n, 1)))).sum(1).clamp(max=k - 1)
    return true * (1 + 3 * torch.sigmoid(2 * (true.amax(1, keepdim=True) - 3))), y, true


@pytest.fixture(scope="module")
def fitted():
    z, y, _ = varying(3000, 0)
    return PTS().fit(z, y)


def test_finds_temperatures_that_vary(fitted):
    z, y, true = varying(20_000, 1)
    single = TemperatureScaling().fit(*varying(3000, 0)[:2])
    best, ours, one = nll(true.softmax(1), y), nll(fitted(z), y), nll(single(z), y)
    assert best < ours < best + 0.2 * (one - best)
    z = z.sort(descending=True).values
    low, high = z[:, 0].quantile(torch.tensor([0.2, 0.8], dtype=torch.float64))
    t = fitted.temperatures(z)
    assert t[z[:, 0] < low].mean() < 2.2 and 3.3 < t[z[:, 0] > high].mean() < 4.5


def test_no_temperature_is_below_a_hundredth_of_the_one_that_the_network_scales(fitted):
    """A network that gives g whatever it sees: all weights 0, and the last bias g."""
    z = varying(20, 6)[0].numpy()
    for g, share in ((1.5, 1.5), (-0.3, 0.3), (0.02, 0.02), (0.001, 0.01), (0.0, 0.01)):
        parameters = np.append(np.zeros(len(fitted.parameters) - 1), g)
        pts = PTS().load_state_dict({"n_classes": np.asarray(10), "temperature": 2.0, "parameters": parameters})
        np.testing.assert_allclose(pts.temperatures(z), 2 * share, rtol=1e-12)
        np.testing.assert_allclose(pts(z), softmax(z / (2 * share), axis=1), atol=1e-12)


def test_gradient_vanishes(fitted):
    """Autograd on the plain formula, independent of the fit's own gradient: mean NLL and the penalty on weights."""
    z, y, _ = varying(3000, 0)
    top = z.sort(descending=True).values
    std = top.std(0, correction=0)
    x = torch.from_numpy(fitted.parameters).requires_grad_()
    w1, b1, w2, b2, w3, b3 = x.split([50, 5, 25, 5, 5, 1])
    h = torch.tanh(torch.tanh(top @ w1.view(5, 10).T + b1) @ w2.view(5, 5).T + b2)
    t = fitted.temperature * (h @ w3 + b3).abs()
    penalty = (w1.view(5, 10) * std).square().sum() + w2.square().sum() + w3.square().sum()
    loss = F.cross_entropy(z / t[:, None], y) + 10 / 3000 * penalty
    (gradient,) = torch.autograd.grad(loss, x)
    assert float(gradient.abs().max()) < 1e-4
    assert torch.allclose(fitted.temperatures(z), t.detach(), rtol=1e-12)


def test_temperatures_come_in_the_container_of_the_caller(fitted):
    """They are what the logits are divided by: numpy, a list and half precision too."""
    z = varying(50, 4)[0].numpy()
    t = fitted.temperatures(z)
    assert isinstance(t, np.ndarray) and t.dtype == np.float64 and t.shape == (50,)
    np.testing.assert_allclose(softmax(z / t[:, None], axis=1), fitted(z), atol=1e-14)
    np.testing.assert_array_equal(fitted.temperatures(z.tolist()), t)
    of_tensor = fitted.temperatures(torch.from_numpy(z).half())
    assert of_tensor.dtype == torch.float64 and np.allclose(of_tensor, t, rtol=0.05)


def test_temperatures_are_checked_as_the_probabilities_are(fitted):
    z = varying(50, 4)[0]
    with pytest.raises(RuntimeError, match="Expected `PTS` to be fitted, but got no call of fit"):
        PTS().temperatures(z)
    for bad in (z[:, :4], z[0], z * torch.nan, z.softmax(1)):
        refused("`logits` to be ", fitted.temperatures, bad)


@pytest.mark.parametrize("objective", [name for name, cls in OBJECTIVES.items() if cls.smooth])
def test_never_worse_than_temperature_scaling(objective, overconfident):
    z, y = (x[:1000] for x in overconfident)
    values = [OBJECTIVES[objective]().value(cls(objective).fit(z, y)(z).log(), y) for cls in (PTS, TemperatureScaling)]
    assert values[0] <= values[1] + (1e-4 if objective == "class_loss_scaling" else 1e-12)


def test_strong_decay_leaves_temperature_scaling(overconfident):
    z, y = overconfident
    strong, single = PTS(weight_decay=1e5).fit(z, y), TemperatureScaling().fit(z, y)
    assert torch.allclose(strong(z), single(z), atol=1e-4)


def test_scale_of_the_logits_does_not_matter():
    z, y, _ = varying(500, 3)
    one, other = PTS().fit(z, y), PTS().fit(7 * z, y)
    assert other.temperature == pytest.approx(7 * one.temperature, rel=1e-6)
    assert torch.allclose(other(7 * z), one(z), atol=1e-3)
    with pytest.warns(RuntimeWarning, match="not converged"):
        tiny = PTS().fit(1e-300 * z, y)  # whose variance underflows
    assert torch.isfinite(tiny(1e-300 * z)).all()


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 5])
def test_fewer_classes_than_inputs(n_classes):
    z, y, _ = varying(300, 4, n_classes)
    pts = PTS(top_k=10, hidden=(3,)).fit(z, y)
    assert len(pts.parameters) == (n_classes + 1) * 3 + 4
    assert PTS(solver="sctl").fit(z, y).parameters.shape == ((n_classes + 1) * 2 + 3 * 6 + 3,)


def test_same_seed_same_network(tmp_path):
    z, y, _ = varying(300, 5)
    one, again, other = (PTS(seed=seed).fit(z, y) for seed in (1, 1, 2))
    assert np.array_equal(one.parameters, again.parameters) and not np.array_equal(one.parameters, other.parameters)
    assert torch.equal(load_calibrator(one.save(tmp_path / "pts.npz"))(z), one(z))


def test_a_mask_in_use_that_the_fit_has_not_seen(fitted):
    z, _, _ = varying(100, 1)
    z[:, 7:] = torch.finfo(torch.float64).min
    probs = fitted(z)
    assert probs.isfinite().all() and (probs[:, 7:] == 0).all()


def test_rows_that_do_not_differ():
    """Constant inputs: the network can give one temperature only."""
    z, y = np.tile([4.0, 0.0], (4, 1)), np.array([0, 0, 0, 1])
    assert PTS().fit(z, y)(z)[:, 0] == pytest.approx([0.75] * 4, abs=1e-6)


def test_published_logits(cifar10):
    """Better than one temperature on the data it is fitted on; on test data with decay, and not without it."""
    val, (test_logits, test_labels) = cifar10.logits.val, cifar10.logits.test
    single, pts = TemperatureScaling().fit(*val), PTS().fit(*val)
    assert nll(pts(val[0]), val[1]) < nll(single(val[0]), val[1]) - 5e-4
    assert nll(pts(test_logits), test_labels) == pytest.approx(nll(single(test_logits), test_labels), abs=1e-3)


@pytest.mark.filterwarnings("ignore:NLL.. is not converged:RuntimeWarning")
def test_without_decay_published_logits_are_learnt_by_heart(cifar10):
    """The numbers of the docstring and of the errata."""
    val, (test_logits, test_labels) = cifar10.logits.val, cifar10.logits.test
    assert nll(TemperatureScaling().fit(*val)(test_logits), test_labels) == pytest.approx(0.225, abs=5e-4)
    assert nll(PTS(weight_decay=0.0).fit(*val)(test_logits), test_labels) > 0.4
