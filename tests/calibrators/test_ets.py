"""Ensemble temperature scaling: by hand, never worse than temperature scaling, authors' numbers."""

import warnings

import numpy as np
import pytest
import torch

from calibkit.calibrators import ETS, TemperatureScaling
from calibkit.metrics import ece, nll
from calibkit.objectives import OBJECTIVES

SMOOTH = [name for name, cls in OBJECTIVES.items() if cls.smooth and name != "class_loss_scaling"]


@pytest.fixture
def noisy(overconfident):
    """Logits at whose labels 10% are drawn anew: no temperature fits both the labels and the noise."""
    z, y = overconfident
    rng = np.random.default_rng(1)
    again = torch.from_numpy(rng.random(len(y)) < 0.1)
    return z, torch.where(again, torch.from_numpy(rng.integers(0, z.shape[1], len(y))), y)


def test_one_frequency_at_two_gaps():
    """9 of 10 right at a gap of 50 and at one of 90: raw probabilities of 1 need a weight of 0.8 and 0.2 * 1/2."""
    z = np.array([[90.0, 0.0]] * 10 + [[50.0, 0.0]] * 10)
    y = np.array([0] * 9 + [1] + [0] * 9 + [1])
    ets = ETS().fit(z, y)
    assert ets(z)[[0, -1], 0] == pytest.approx([0.9, 0.9], abs=1e-6)
    assert ets.weights[2] == pytest.approx(0.2, abs=1e-6)


@pytest.mark.parametrize("objective", SMOOTH)
def test_optimal_on_the_simplex_and_never_worse_than_temperature_scaling(objective, noisy):
    """At an optimum no direction towards a vertex of the simplex descends (the first-order condition)."""
    z, y = noisy
    ets, objective = ETS(objective).fit(z, y), OBJECTIVES[objective]()

    def value(w):
        p = w[0] * (z / ets.temperature).softmax(1) + w[1] * z.softmax(1) + w[2] / z.shape[1]
        return objective.value(p.log(), y)

    best = value(ets.weights)
    assert best <= value(np.array([1.0, 0.0, 0.0])) + 1e-15
    for vertex in np.eye(3):
        assert value(0.999 * ets.weights + 0.001 * vertex) >= best - 1e-13
    assert ets.weights.min() >= 0 and ets.weights.sum() == pytest.approx(1.0, abs=1e-14)


def test_class_loss_scaling_ends_at_its_fixed_point(noisy):
    """At its own weights, held fixed, no vertex of the simplex is a descent direction."""
    z, y = noisy
    ets, objective = ETS("class_loss_scaling").fit(z, y), OBJECTIVES["class_loss_scaling"]()
    terms = (z / ets.temperature).softmax(1), z.softmax(1), torch.full_like(z, 1 / z.shape[1])
    a = torch.stack([probs[torch.arange(len(y)), y] for probs in terms], 1)
    q = a @ torch.from_numpy(ets.weights)
    slopes = -(objective.weights(-q.log(), y, z.shape[1])[:, None] * a / q[:, None]).sum(0).numpy()
    assert (slopes - ets.weights @ slopes >= -1e-6).all()


@pytest.mark.parametrize("labels", ["shifted", "shuffled", "of one class"])
def test_argmax_is_kept_where_labels_are_noise(labels, noisy):
    """The fit wants the uniform part alone, beside which an order would be rounded away; it is not above TS."""
    z, y = noisy
    rng, k = np.random.default_rng(0), z.shape[1]
    wrong = {"shifted": (y + 1) % k, "shuffled": y[rng.permutation(len(y))], "of one class": 0 * y}[labels]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a temperature ends at its bound
        ets, single = ETS().fit(z, wrong), TemperatureScaling().fit(z, wrong)
    assert (ets(z).argmax(1) == z.argmax(1)).all()
    assert nll(ets(z), wrong) <= nll(single(z), wrong) + 1e-12


def test_where_the_uniform_part_has_to_give_way_temperature_scaling_takes_its_place():
    """Of labels that are never right the little on the softmaxes is not on the raw one, which is worse than 1 / K."""
    z = 3 * np.random.default_rng(82).normal(size=(30, 4))
    y = (z.argmax(1) + 1) % 4
    with pytest.warns(RuntimeWarning, match="uniform"):
        ets, single = ETS().fit(z, y), TemperatureScaling().fit(z, y)
    assert ets.weights[:2].sum() == pytest.approx(1e-3, rel=1e-12)
    assert nll(ets(z), y) <= nll(single(z), y) + 1e-12


def test_of_jung_et_al_is_one_temperature(overconfident):
    """Their mixture of logits is softmax(z (w1 / T + w2)): nothing moves the third weight but rounding."""
    z, y = (x[:500] for x in overconfident)
    ets = ETS(solver="sctl").fit(z, y)
    scale = ets.weights[0] / ets.temperature + ets.weights[1]
    assert torch.allclose(ets(z), (z * scale).softmax(1), atol=1e-14)
    assert abs(ets.weights[2]) < 1e-6
    assert 1 / scale == pytest.approx(TemperatureScaling().fit(z, y).temperature, rel=0.01)


def test_published_logits(published):
    """No worse than the optimum that Mix-n-Match's own helpers reach."""
    known = published.oracle["ets"]
    ets = ETS().fit(*published.logits.val)
    test_logits, test_labels = published.logits.test
    assert ets.temperature == pytest.approx(known["temperature"], rel=1e-7)
    assert ets.weights == pytest.approx(known["weights"], abs=1e-4)
    assert nll(ets(published.logits.val_logits), published.logits.val_labels) <= known["val_nll"] + 1e-9
    assert ece(ets(test_logits), test_labels) == pytest.approx(known["test_ece"], abs=2e-5)
