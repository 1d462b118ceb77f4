import numpy as np
import pytest
import torch

from calibkit.metrics import Sample, accuracy, brier, entropy, evaluate, nll

LOGITS = torch.tensor([[8.0, 1, -3, 0], [2, 5, 4.5, -6], [0, 0.5, 0.2, 12]], dtype=torch.float64)
LABELS = torch.tensor([0, 2, 3])


def test_values_of_an_independent_program():
    want = {"accuracy": 2 / 3, "nll": 0.335298, "brier": 0.255709, "entropy": 0.262931, "ece": 0.201676}
    assert evaluate(LOGITS.softmax(1), LABELS, [*want]) == pytest.approx(want, abs=5e-7)
    assert evaluate(LOGITS.softmax(1), LABELS)["classwise_ece"] == pytest.approx(0.105850, abs=5e-7)


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
        with pytest.raises(ValueError, match="a row that is off by 0.01"):
            Sample.of(broken, labels)
        broken[row, 7] = float("nan")
        with pytest.raises(ValueError, match="but got NaN"):
            Sample.of(broken, labels)


def test_a_row_a_little_above_1_has_no_nll_below_0():
    """As rounding leaves it; the border lets it in."""
    assert nll(np.array([[1.00005, 0.0]] * 10), np.zeros(10, dtype=int)) == 0.0
