"""Tables of where a search of class temperatures ends: against the same numbers by hand."""

import numpy as np
import pytest
from refusals import refused
from scipy.special import softmax
from scipy.stats import spearmanr

from book.kit.notebook import cts_sensitivity
from calibkit import Logits, ece
from calibkit.calibrators import TemperatureScaling

CTS = "class_temperature_scaling accuracy_constraint=running"


def test_what_does_not_depend_on_the_order_of_the_classes_does_not_move(stored):
    moved = cts_sensitivity.spread({"drawn": stored}, {"TS": "temperature_scaling", "CTS": CTS}, 5)
    names = [f"drawn; {name}; {cause}" for name in ("TS", "CTS") for cause in cts_sensitivity.CAUSES]
    assert moved.index.tolist() == names
    width = moved["highest"] - moved["lowest"]
    assert (width[:2] < 1e-2).all()
    assert width["drawn; CTS; order of the classes"] > 0
    assert (np.diff(moved.to_numpy()) >= 0).all()
    data = Logits.load(stored)
    probs = TemperatureScaling().fit(*data.val)(data.test_logits)
    np.testing.assert_allclose(moved.iloc[:2], 100 * ece(probs, data.test_labels), atol=1e-2)


def test_correlation_is_that_of_the_accuracy_and_the_error_of_each_class(stored):
    data = Logits.load(stored)
    probs, labels = softmax(data.test_logits, axis=1), data.test_labels
    accuracies, errors = [], []
    for j in range(data.n_classes):
        gaps, of_class = (labels == j) - probs[:, j], labels == j
        accuracies.append((probs.argmax(1) == j)[of_class].mean())
        errors.append(abs(np.bincount(np.ceil(15 * probs[:, j]).astype(int), gaps)).sum() / of_class.sum())
    found = cts_sensitivity.by_class([stored]).loc[stored]
    assert found["correlation"] == pytest.approx(spearmanr(accuracies, errors).statistic)


def test_no_draws_are_refused(stored):
    refused("`n_draws` to be", cts_sensitivity.spread, {"drawn": stored}, {"TS": "temperature_scaling"}, 0)
