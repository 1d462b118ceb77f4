"""Classifiers with a known truth, and the table that is printed."""

import numpy as np
import pandas as pd
import pytest

from calibkit.metrics import accuracy, ece
from calibkit.notebook.printing import show
from calibkit.notebook.simulated import draw_labels, true_curve, two_classes


def test_labels_follow_their_probabilities():
    truth = np.tile([0.5, 0.2, 0.3], (200_000, 1))
    labels = draw_labels(truth, np.random.default_rng(0))
    np.testing.assert_allclose(np.bincount(labels, minlength=3) / len(labels), [0.5, 0.2, 0.3], atol=0.005)


def test_labels_stay_in_range_where_a_row_sums_to_less_than_one():
    truth = np.tile([0.3, 0.3, 0.4 - 1e-3], (10_000, 1))
    assert draw_labels(truth, np.random.default_rng(1)).max() == 2


def test_impossible_labels_are_never_drawn():
    truth = np.tile([0.0, 0.5, 0.5, 0.0], (5_000, 1))
    assert set(draw_labels(truth, np.random.default_rng(2))) == {1, 2}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_two_classes_predict_the_first_with_the_given_confidence(dtype):
    probs, labels = two_classes([0.9, 0.9, 0.6], [1, 0, 1], dtype)
    assert probs.dtype == dtype and (probs.argmax(1) == 0).all()
    assert accuracy(probs, labels) == pytest.approx(2 / 3)
    assert ece(probs, labels, n_bins=10) == pytest.approx((2 * 0.4 + 0.4) / 3, abs=1e-6)
    with pytest.raises(ValueError, match="Expected `right`"):
        two_classes([0.9, 0.8], [1])


def test_true_curve_is_the_mean_truth_of_the_predicted_class_by_bin():
    rng = np.random.default_rng(3)
    probs, truth = rng.dirichlet(np.ones(3), 3_000), rng.dirichlet(np.ones(3), 3_000)
    x, y = true_curve(probs, truth, n_bins=10, least=5)
    wanted = {}
    for p, t in zip(probs, truth, strict=True):
        wanted.setdefault(int(10 * max(p)), []).append(t[np.argmax(p)])
    wanted = {k: np.mean(v) for k, v in wanted.items() if len(v) > 5}
    np.testing.assert_allclose(x, (np.array(sorted(wanted)) + 0.5) / 10)
    np.testing.assert_allclose(y, [wanted[k] for k in sorted(wanted)])
    with pytest.raises(ValueError, match="Expected `truth`"):
        true_curve(probs, truth[:-1])


def test_show_prints_fixed_digits_and_no_negative_zero(capsys):
    show(pd.DataFrame({"a": [-1e-9, 12.3456], "n": [1, 2], "t": ["x", "y"]}), 3)
    text = capsys.readouterr().out
    assert text.split() == ["a", "n", "t", "0", "0.000", "1", "x", "1", "12.346", "2", "y"]
