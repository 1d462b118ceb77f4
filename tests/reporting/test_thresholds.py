"""What is said on either side of a number that decides: data made to lie there, told by what the pages promise."""

import numpy as np
from scipy.stats import binom

from calibkit.logits import ARRAYS
from calibkit.reading import read
from calibkit.reporting.diagnosis import diagnose


def found(val, test):
    """Kind and weight of what is found in two splits of logits and labels."""
    arrays = dict(zip(ARRAYS, (*val, *test), strict=True))
    return [(finding.kind, finding.weight) for finding in diagnose(read(arrays)).findings]


def test_rows_in_both_splits_are_a_leak_where_chance_would_put_them_there_once_in_a_hundred(sample):
    """Outputs that coincide by chance do so within a split as well: of two of one size, each time a fair coin."""
    for shared, weight in ((5, "note"), (6, "note"), (7, "doubt")):
        assert (binom.sf(shared - 1, shared, 0.5) <= 0.01) == (weight == "doubt")
        z, y = sample(2000)
        test_z, test_y = z[1000:].copy(), y[1000:].copy()
        test_z[:shared], test_y[:shared] = z[:shared], y[:shared]
        assert found((z[:1000], y[:1000]), (test_z, test_y)) == [("samples in both splits", weight)]


def sure_of(n, right):
    """Two classes, 80% for one of them at each sample, and that one in a share ``right`` of each class."""
    rng, predicted = np.random.default_rng(round(1000 * right)), np.arange(n) % 2
    z = rng.normal(size=(n, 1)) + np.log(4) * (np.arange(2) == predicted[:, None])
    return z, np.where(np.arange(n) // 2 < right * n / 2, predicted, 1 - predicted)


def test_two_points_of_confidence_less_accuracy_are_a_shift():
    """Of 40,000 samples each, so that a standard error is 0.3 points and no chance could make 1.5."""
    for right, shifted in ((0.785, False), (0.815, False), (0.775, True), (0.825, True)):
        kinds = [kind for kind, _ in found(sure_of(40_000, 0.8), sure_of(40_000, right))]
        assert kinds == ["shift between the splits"] * shifted
