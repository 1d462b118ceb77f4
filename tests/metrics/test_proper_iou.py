"""Mean intersection over union, against sets of rows and scikit-learn's Jaccard score."""

import numpy as np
import pytest
import torch
from sklearn.metrics import confusion_matrix, jaccard_score

from calibkit.metrics import bootstrap, mean_iou
from calibkit.metrics.proper import iou_of_confusion


def test_by_hand():
    """Class 0: 1 of rows 0, 1, 2; class 1: 1 of rows 1, 2, 3; class 2 neither occurs nor is predicted."""
    probs = np.array([[0.8, 0.2, 0.0], [0.3, 0.6, 0.1], [0.9, 0.1, 0.0], [0.2, 0.7, 0.1]])
    assert mean_iou(probs, [0, 0, 1, 1]) == pytest.approx(1 / 3)


def test_is_the_mean_jaccard_score(cases):
    for probs, labels in cases.values():
        want = jaccard_score(labels, probs.argmax(1), average="macro", zero_division=0.0)  # over the classes seen
        for container in (np.asarray, torch.from_numpy):
            found = mean_iou(container(probs), container(labels))
            assert isinstance(found, float) and found == pytest.approx(want, abs=1e-12)


def test_a_confusion_matrix_gives_the_same(mixed):
    probs, labels = mixed
    matrix = confusion_matrix(labels, probs.argmax(1), labels=range(6))
    assert iou_of_confusion(matrix) == mean_iou(probs, labels)
    assert np.isnan(iou_of_confusion(np.zeros((3, 3), int)))


def test_it_is_a_metric_for_the_bootstrap(mixed):
    low, high = bootstrap(*mixed, {"miou": mean_iou}, n_resamples=50)["miou"]
    assert 0 < low < mean_iou(*mixed) < high < 1


def test_bad_input():
    with pytest.raises(ValueError, match="Expected `probs` to be in"):
        mean_iou(np.array([[2.0, -1.0]]), [0])
