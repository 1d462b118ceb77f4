"""Classifiers with a known truth, and the table that is printed."""

import numpy as np
import pytest
from refusals import refused

from book.kit.notebook.synthetic_classifiers import binned_error, draw_labels, top_label, true_curve, with_error
from calibkit.metrics import accuracy, ece


def test_labels_follow_their_probabilities():
    truth = np.tile([0.5, 0.2, 0.3], (200_000, 1))
    labels = draw_labels(truth, np.random.default_rng(0))
    np.testing.assert_allclose(np.bincount(labels, minlength=3) / len(labels), [0.5, 0.2, 0.3], atol=0.005)
    assert set(draw_labels(np.tile([0.0, 0.5, 0.5, 0.0], (5_000, 1)), np.random.default_rng(2))) == {1, 2}
    short = np.tile([0.3, 0.3, 0.4 - 1e-3], (10_000, 1))  # a row that sums to less than one
    assert draw_labels(short, np.random.default_rng(1)).max() == 2


def test_two_classes_predict_the_first_with_the_given_confidence(dtype=np.float32):
    probs, labels = top_label([0.9, 0.9, 0.6], [1, 0, 1], dtype=dtype)
    assert probs.dtype == dtype and (probs.argmax(1) == 0).all()
    assert accuracy(probs, labels) == pytest.approx(2 / 3)
    assert ece(probs, labels, n_bins=10) == pytest.approx((2 * 0.4 + 0.4) / 3, abs=1e-6)


def test_top_label_says_its_confidence_of_class_0():
    probs, labels = top_label([0.9, 0.2, 0.3], [1, 0, 1], n_classes=6)
    np.testing.assert_allclose(probs.sum(1), 1.0)
    assert (probs.argmax(1) == 0).all() and labels.tolist() == [0, 1, 0]
    assert probs[1].tolist() == pytest.approx([0.2] + 5 * [0.16])
    refused("`right`", top_label, [0.9, 0.8], [1])
    refused("`confidence` to be at least 1/3", top_label, [0.9, 0.3], [1, 1], n_classes=3)


@pytest.mark.parametrize("n_bins", [1, 15])
def test_binned_error_is_the_ece_of_labels_in_these_very_shares(n_bins):
    confidence = np.array([0.95, 0.9, 0.8, 0.55, 0.55, 0.6])
    truth = np.array([0.8, 1.0, 0.85, 0.5, 0.6, 0.45])
    right = np.concatenate([np.arange(100) < round(100 * r) for r in truth])
    sample = top_label(np.repeat(confidence, 100), right)
    assert binned_error(confidence, truth, n_bins) == pytest.approx(ece(*sample, n_bins=n_bins), abs=1e-12)


@pytest.mark.parametrize("target", [0.0, 0.03])
def test_with_error_finds_the_classifier_whose_large_samples_show_it(target):
    c = np.random.default_rng(0).uniform(0.5, 1.0, 5_000)
    confidence, truth = with_error(target, lambda size: (c, c - size * np.sin(4 * np.pi * c) * c * (1 - c)))
    assert binned_error(confidence, truth) == pytest.approx(target, abs=1e-9)
    rows = np.tile(np.arange(5_000), 100)
    right = np.random.default_rng(1).random(len(rows)) < truth[rows]
    assert ece(*top_label(confidence[rows], right, n_classes=10)) == pytest.approx(target, abs=0.0025)
    refused("`target`", with_error, 0.4, lambda size: (c, c - size * c * (1 - c)))


def test_true_curve_is_the_mean_truth_of_the_predicted_class_by_bin():
    rng = np.random.default_rng(3)
    probs, truth = rng.dirichlet(np.ones(3), 3_000), rng.dirichlet(np.ones(3), 3_000)
    x, y = true_curve(probs, truth)
    wanted = {}
    for p, t in zip(probs, truth, strict=True):
        wanted.setdefault(int(50 * max(p)), []).append(t[np.argmax(p)])
    wanted = {k: np.mean(v) for k, v in wanted.items() if len(v) > 20}
    assert 10 < len(wanted) < 35
    np.testing.assert_allclose(x, (np.array(sorted(wanted)) + 0.5) / 50)
    np.testing.assert_allclose(y, [wanted[k] for k in sorted(wanted)])
    refused("`truth`", true_curve, probs, truth[:-1])
    x, y = true_curve(np.tile([1.0, 0.0], (30, 1)), np.tile([0.9, 0.1], (30, 1)))
    assert (x.tolist(), y.round(9).tolist()) == ([0.99], [0.9])  # the last bin has its upper end
