"""The judge where the truth is known: labels are drawn from what a stored network says after one temperature.

In a hundred worlds a method as good as one temperature is not told apart from it; one that is a point of ECE worse is
seen as often as :mod:`calibkit.metrics.power` says of other worlds.
"""

import math

import numpy as np
import pytest
import torch
from scipy.optimize import brentq

from book.kit.judging.network import Row
from book.kit.judging.verdict import Claim, verdict
from calibkit import TemperatureScaling
from calibkit.metrics import power
from calibkit.metrics.comparison import Comparison
from calibkit.networks import load_logits
from calibkit.reporting.catalogue import BASE
from calibkit.reporting.trial import METRICS

WORLDS, IMAGES, N_BINS, RESAMPLES = 100, 10_000, 15, 100  # resamples where both sides have as many


@pytest.fixture(scope="module")
def truth():
    """The logarithm of the true probabilities of 10,000 images."""
    data = load_logits("cifar10/resnet20-cross_entropy-s0")
    fitted = TemperatureScaling().fit(*data.val)
    return power.sharpened(torch.from_numpy(data.test_logits).double(), 1 / fitted.temperature)


def row_of(labels, base, other, n_resamples):
    """What the judge would note of two methods on a network."""
    comparison = Comparison(labels, METRICS, n_resamples=n_resamples)
    comparison.add(BASE, base.exp().numpy())
    comparison.add("other", other.exp().numpy())
    less = {m: (*comparison.difference("other", BASE, m), comparison.chance("other", BASE, m)) for m in METRICS}
    values = {metric: comparison.of("other", metric).value for metric in METRICS}
    return Row("a", test_set="a", keeps=True, values=values, less={BASE: less})


@pytest.mark.slow
def test_as_good_as_one_temperature_is_not_told_apart(truth):
    """A temperature is fitted in each world; the other method is off the true one by as much, to the other side.

    Of 300 worlds 13 were told apart, 4%.
    """
    rng, words = np.random.default_rng(0), []
    worlds = [power.drawn(truth, n, WORLDS, rng) for n in (1000, 2000)]
    for (val, val_labels), (images, labels) in zip(*worlds, strict=True):
        scale = 1 / TemperatureScaling().fit(truth[val], val_labels).temperature
        other = power.sharpened(truth[images], 2 - scale)
        words.append(verdict([row_of(labels, power.sharpened(truth[images], scale), other, 1000)]))
    apart = [said for said in words if not said.startswith("Not told apart from one temperature")]
    assert len(apart) <= 5


@pytest.mark.slow
def test_a_point_worse_is_seen_as_often_as_the_power_says(truth):
    worse = power.sharpened(
        truth, brentq(lambda s: power.true_value("ece", power.sharpened(truth, s), truth, N_BINS) - 0.01, 1, 10)
    )
    rng = np.random.default_rng(1)
    weights, sets = power.counts(IMAGES, RESAMPLES, rng), list(power.drawn(truth, IMAGES, 200, rng))
    expected = {}
    for metric in ("ece", "nll"):
        a, b = (power.measured(metric, of, sets, weights, N_BINS, 0) for of in (truth, worse))
        expected[metric] = np.mean([y.difference(x)[1] > 0 for x, y in zip(a, b, strict=True)])
    rows = [row_of(labels, truth[i], worse[i], RESAMPLES) for i, labels in power.drawn(truth, IMAGES, WORLDS, rng)]
    for metric, share in expected.items():
        claim = Claim.parse(f"lower {metric} than {BASE}")
        seen = np.mean([claim.answer([row])[0] == "does not hold" for row in rows])
        assert 0.1 < share < 0.99
        assert abs(seen - share) < 3 * math.sqrt(share * (1 - share) * (1 / WORLDS + 1 / 200))
