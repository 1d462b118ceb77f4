"""What is said on either side of a number that decides: data made to lie there, told by what the pages promise."""

import numpy as np
import pytest
from scipy.stats import binom

from calibkit import calibrator
from calibkit.logits import HeldOut
from calibkit.metrics.comparison import Estimate
from calibkit.reading import read
from calibkit.reporting import Diagnosed, Trial, choose
from calibkit.reporting.diagnosis import diagnose
from calibkit.reporting.methods import Tried
from calibkit.reporting.needs import need_of


def found(val, test):
    """Kind and weight of what is found in two splits of logits and labels."""
    arrays = dict(zip(("val_logits", "val_labels", "test_logits", "test_labels"), (*val, *test), strict=True))
    return [(finding.kind, finding.weight) for finding in diagnose(read(arrays)).findings]


@pytest.mark.parametrize(("shared", "weight"), [(5, "note"), (6, "note"), (7, "doubt")])
def test_rows_in_both_splits_are_a_leak_where_chance_would_put_them_there_once_in_a_hundred(sample, shared, weight):
    """Outputs that coincide by chance do so within a split as well: of two of one size, each time a fair coin."""
    assert (binom.sf(shared - 1, shared, 0.5) <= 0.01) == (weight == "doubt")
    z, y = sample(2000)
    test_z, test_y = z[1000:].copy(), y[1000:].copy()
    test_z[:shared], test_y[:shared] = z[:shared], y[:shared]
    assert found((z[:1000], y[:1000]), (test_z, test_y)) == [("samples in both splits", weight)]


def sure_of(n, right):
    """Two classes, 80 % for one of them at each sample, and that one in a share ``right`` of each class."""
    rng, predicted = np.random.default_rng(round(1000 * right)), np.arange(n) % 2
    z = rng.normal(size=(n, 1)) + np.log(4) * (np.arange(2) == predicted[:, None])
    return z, np.where(np.arange(n) // 2 < right * n / 2, predicted, 1 - predicted)


@pytest.mark.parametrize(
    ("right", "kinds"),
    [(0.785, []), (0.815, []), (0.775, ["shift between the splits"]), (0.825, ["shift between the splits"])],
)
def test_two_points_of_confidence_less_accuracy_are_a_shift(right, kinds):
    """Of 40,000 samples each, so that a standard error is 0.3 points and no chance could make 1.5."""
    assert [kind for kind, _ in found(sure_of(40_000, 0.8), sure_of(40_000, right))] == kinds


@pytest.mark.parametrize(("gain", "key"), [(0.0045, "temperature_scaling"), (0.0055, "ets"), (0.009, "ets")])
def test_half_a_hundredth_of_a_nat_is_worth_another_method(gain, key):
    """All of it beyond chance."""

    def tried(key, less):
        values = {name: Estimate(x, x - 0.001, x + 0.001) for name, x in (("nll", 1 - less), ("ece", 0.05))}
        changes = {name: Estimate(x, x - 0.001, x + 0.001) for name, x in (("nll", -less), ("ece", 0.0))}
        chance = {"nll": 1e-6, "ece": 1.0}
        fitted = calibrator(key)
        fitted.temperature = 2.0
        return Tried(key, need_of(key), fitted, "", True, 0.1, 0.0, values, changes, chance)

    gains = {"temperature_scaling": 0.0, "identity": -0.1, "ets": gain}
    methods = {name: tried(name, less) for name, less in gains.items()}
    held = HeldOut(np.zeros((5000, 3)), np.zeros(5000, int))
    choice = choose(Trial(methods, held, held, None), Diagnosed(held, held, ("a", "b", "c"), (), "x"))
    assert choice.key == key
