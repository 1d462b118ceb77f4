"""What is said on either side of a number that decides: data made to lie there, told by what the pages promise. What
belongs together counts once: groups, not their rows, are what is fitted on and judged by."""

import numpy as np
from scipy.stats import binom

from calibkit.logits import ARRAYS, HeldOut
from calibkit.reading import read
from calibkit.reporting import report, try_all
from calibkit.reporting.diagnosis import diagnose

THREE = ["ets", "vector_scaling", "structured_vector_scaling"]


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


def test_a_cross_fit_over_few_groups_is_doubted(sample):
    z, y = sample(1200)
    found = report({"logits": z, "labels": y, "groups": np.repeat(np.arange(12), 100)}, methods=THREE, n_resamples=100)
    paragraph = found.diagnosed.first_paragraph
    assert "There are 12 groups to fit on; even one temperature wants 50." in paragraph
    assert "There are 12 groups; intervals from fewer than 50 are too short." in paragraph
    assert found.choice.sure == "low" and "With fewer than 50 groups no method is safe." in found.choice.reasons
    assert not any(found.trial.methods[key].enough for key in (*THREE, "temperature_scaling"))


def test_few_groups_of_a_validation_set_are_doubted_beside_those_of_the_test_set(sample):
    z, y = sample(1200)
    parts = {"val_logits": z[:600], "val_labels": y[:600], "test_logits": z[600:], "test_labels": y[600:]}
    few = np.repeat(np.arange(6), 100)
    text = diagnose(read({**parts, "val_groups": few, "test_groups": few})).first_paragraph
    assert "There are 6 groups to fit on" in text and "There are 6 test groups" in text
    many = np.arange(600) // 10
    assert diagnose(read({**parts, "val_groups": many, "test_groups": many})).findings == ()
    assert diagnose(read({"logits": z, "labels": y, "groups": np.arange(1200) // 20})).findings == ()


def test_a_method_wants_so_many_groups_as_it_wants_samples(sample):
    """Structured vector scaling of three classes wants 150."""
    for size, enough in ((1, True), (2, True), (3, False)):
        z, y = sample(300)
        held = HeldOut(z, y, np.arange(300) // size)
        trial = try_all(held, None, ["structured_vector_scaling"], n_resamples=20)
        assert trial.methods["structured_vector_scaling"].enough is enough
