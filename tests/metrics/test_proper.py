import numpy as np
import pytest
import torch
from refusals import refused
from sklearn.metrics import confusion_matrix, jaccard_score

from calibkit.metrics import Sample, accuracy, brier, entropy, mean_iou, nll
from calibkit.metrics.proper import iou_of_confusion


def test_formulas(cases):
    for probs, labels in cases.values():
        n, k = probs.shape
        assert accuracy(probs, labels) == pytest.approx((probs.argmax(1) == labels).mean())
        assert brier(probs, labels) == pytest.approx(((probs - np.eye(k)[labels]) ** 2).sum(1).mean(), abs=1e-12)
        own = probs[np.arange(n), labels]
        assert nll(probs, labels) == (np.inf if (own == 0).any() else pytest.approx(-np.log(own).mean(), abs=1e-12))
        logs = np.log(np.where(probs > 0, probs, 1.0))
        assert entropy(probs, labels) == pytest.approx(-(probs * logs).sum(1).mean(), abs=1e-12)


@pytest.mark.parametrize("k", [2, 3, 10, 300])
def test_correct_is_argmax_also_with_ties(k):
    """Rows of small fractions, most of which tie at the maximum, some of them with the label."""
    rng = np.random.default_rng(k)
    counts = rng.integers(0, 3, (4000, k)) + np.eye(k, dtype=int)[rng.integers(0, k, 4000)]
    for dtype in (np.float32, np.float64):
        probs = (counts / counts.sum(1, keepdims=True)).astype(dtype)
        labels = rng.integers(0, k, 4000)
        labels[::2] = np.where(probs == probs.max(1, keepdims=True), np.arange(k), -1).max(1)[::2]  # the last maximum
        sample = Sample.of(probs, labels)
        assert (sample.correct.numpy() == (probs.argmax(1) == labels)).all()
        assert (sample.confidence.numpy() == probs.max(1)).all()


def test_many_blocks():
    """More rows than one block of the scan holds, the last block a short one; an error in any of them is found."""
    probs = torch.from_numpy(np.random.default_rng(0).dirichlet(np.ones(300), 4001)).float()
    labels = torch.zeros(4001, dtype=torch.int64)
    sample = Sample.of(probs, labels)
    assert (sample.confidence == probs.amax(1)).all()
    for row in (0, 3495, 4000):
        broken = probs.clone()
        broken[row, 7] += 0.01
        refused(".*a row that is off by 0.01", Sample.of, broken, labels)
        broken[row, 7] = float("nan")
        refused(".*but got NaN", Sample.of, broken, labels)


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
