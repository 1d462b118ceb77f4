"""Risk-coverage curves against all orders of the ties, written out."""

from itertools import permutations, product

import numpy as np
import pytest
import torch

from calibkit.metrics import accuracy, aurc, excess_aurc, risk_coverage


def slow_curve(confidence, wrong) -> np.ndarray:
    """The mean curve over all orders of samples of one confidence."""
    levels = sorted(set(confidence), reverse=True)
    groups = [[w for c, w in zip(confidence, wrong, strict=True) if c == level] for level in levels]
    curves = []
    for orders in product(*(permutations(group) for group in groups)):
        errors = [e for order in orders for e in order]
        curves.append([sum(errors[:i]) / i for i in range(1, len(errors) + 1)])
    return np.mean(curves, axis=0)


@pytest.mark.parametrize("seed", range(3))
def test_curve_is_the_mean_over_the_orders_of_ties(seed):
    rng = np.random.default_rng(seed)
    top = rng.choice([0.6, 0.7, 0.9, 1.0], 9)
    probs, labels = np.stack([top, 1 - top], axis=1), rng.integers(0, 2, 9)
    coverage, risk = risk_coverage(probs, labels)
    want = slow_curve(top.tolist(), (labels != 0).tolist())
    np.testing.assert_allclose(risk, want, atol=1e-14)
    np.testing.assert_allclose(coverage, np.arange(1, 10) / 9)
    assert aurc(probs, labels) == pytest.approx(want.mean(), abs=1e-14)


def test_on_hard_predictions(cases):
    for probs, labels in cases.values():
        coverage, risk = risk_coverage(probs, labels)
        assert coverage[-1] == 1 and risk[-1] == pytest.approx(1 - accuracy(probs, labels), abs=1e-12)
        assert 0 <= excess_aurc(probs, labels) <= aurc(probs, labels) <= 1
        order = np.random.default_rng(0).permutation(len(labels))
        np.testing.assert_allclose(risk_coverage(probs[order], labels[order])[1], risk, atol=1e-12)
        tensors = risk_coverage(torch.from_numpy(probs), torch.from_numpy(labels))
        np.testing.assert_array_equal(tensors[1], risk)
        single = risk_coverage(probs.astype(np.float32), labels)[1]
        np.testing.assert_allclose(single, risk, atol=1e-12)


def test_excess_is_over_the_best_order(mixed):
    """Its confidences on the right predictions, all of them above those on the wrong ones."""
    probs, labels = mixed
    wrong = np.sort(probs.argmax(1) != labels)  # all errors last
    best = np.mean([wrong[:i].sum() / i for i in range(1, len(wrong) + 1)])
    assert excess_aurc(probs, labels) == pytest.approx(aurc(probs, labels) - best, abs=1e-12)
    sure = np.linspace(1.0, 0.51, len(wrong))
    assert aurc(np.stack([sure, 1 - sure], axis=1), wrong.astype(int)) == pytest.approx(best, abs=1e-12)
