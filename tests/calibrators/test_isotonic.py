"""Isotonic regression against pooling of adjacent violators and scikit-learn's own prediction."""

import sys

import numpy as np
import pytest
import torch

from calibkit.calibrators import Isotonic
from calibkit.metrics import accuracy

pytest.importorskip("sklearn.isotonic", reason="the regression is scikit-learn's")


def test_new_rows_equal_scikit_learns_prediction(overconfident):
    from sklearn.isotonic import IsotonicRegression

    z, y = (x.numpy() for x in overconfident)
    p = overconfident[0].softmax(1).numpy()
    scores = []
    for k in range(5):
        fitted = IsotonicRegression(out_of_bounds="clip", y_min=0.0, y_max=1.0).fit(p[:1000, k], y[:1000] == k)
        scores.append(fitted.predict(p[1000:, k]))
    scores = np.stack(scores, 1)
    expected = scores / scores.sum(1, keepdims=True)
    np.testing.assert_allclose(Isotonic().fit(z[:1000], y[:1000])(z[1000:]), expected, atol=1e-6)


def test_class_without_a_label_gets_nothing_and_zero_rows_their_softmax():
    z = np.random.default_rng(1).normal(size=(20, 3))
    probs = Isotonic().fit(z, np.arange(20) % 2)(z)
    assert (probs[:, 2] == 0).all()
    isotonic = Isotonic().fit(z, np.arange(20) % 2)
    isotonic.values = np.zeros_like(isotonic.values)
    np.testing.assert_allclose(isotonic(z), np.exp(z) / np.exp(z).sum(1, keepdims=True), atol=1e-14)


def test_without_scikit_learn(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.isotonic", None)
    with pytest.raises(ImportError, match=r"sklearn.isotonic is not installed.* pip install '.\[sklearn\]'"):
        Isotonic().fit(np.eye(2), np.array([0, 1]))


def test_published_logits(published):
    """Mix-n-Match's IROvA adds 1e-9 p to break ties and does not normalise: equal accuracy, its ECE by its rule."""
    known = published.oracle["isotonic"]
    isotonic = Isotonic().fit(*published.logits.val)
    test_logits, test_labels = published.logits.test
    assert accuracy(isotonic(test_logits), test_labels) == known["test_accuracy"]
    p = torch.from_numpy(test_logits).double().softmax(1).numpy()
    scores = np.stack([np.interp(p[:, k], isotonic.nodes[k], isotonic.values[k]) for k in range(10)], 1) + 1e-9 * p
    gap = scores.max(1) - (scores.argmax(1) == test_labels)
    cell = np.clip(np.ceil(15 * scores.max(1)).astype(int) - 1, 0, 14)
    assert np.abs(np.bincount(cell, gap, 15)).sum() / len(gap) == pytest.approx(known["test_ece"], abs=1e-8)
