"""Risk-coverage curves by hand, and against a direct count."""

import numpy as np
import pytest

from calibkit import plots


def two_classes(confidence, right):
    confidence = np.asarray(confidence, float)
    return np.stack([confidence, 1 - confidence], 1), 1 - np.asarray(right)


def test_five_samples_by_hand():
    ax = plots.risk_coverage(*two_classes([0.6, 0.9, 0.8, 0.95, 0.7], [0, 1, 0, 1, 1]))
    (line,) = ax.lines
    np.testing.assert_allclose(line.get_xdata(), [20, 40, 60, 80, 100])
    np.testing.assert_allclose(line.get_ydata(), [0, 0, 100 / 3, 25, 40])
    (text,) = [t.get_text() for t in ax.get_legend().get_texts()]
    assert text == f"area {(0 + 0 + 100 / 3 + 25 + 40) / 5:.2f}%"


def test_equal_confidences_are_answered_together():
    """Whatever the order of the rows: of three with one confidence one is wrong, wherever it stands."""
    found = []
    for right in ([1, 0, 1, 1], [1, 1, 1, 0]):
        (line,) = plots.risk_coverage(*two_classes([0.9, 0.7, 0.7, 0.7], right)).lines
        found.append(line.get_xydata())
    np.testing.assert_allclose(found[0], [[25, 0], [100, 25]])
    np.testing.assert_array_equal(*found)


def test_a_method_has_its_colour_and_ends_at_its_error(sample):
    probs, labels = sample
    ax = plots.risk_coverage({"identity": probs, "spline": probs.sqrt() / probs.sqrt().sum(1, keepdim=True)}, labels)
    assert [line.get_color() for line in ax.lines] == [plots.color_of("identity"), plots.color_of("spline")]
    wrong = (probs.argmax(1) != labels).double().mean().item()
    for line in ax.lines:
        assert line.get_xydata()[-1] == pytest.approx([100, 100 * wrong]) and len(line.get_xdata()) <= 400
    surest = np.argsort(-probs.max(1).values.numpy(), kind="stable")
    coverage, risk = ax.lines[0].get_data()
    n = round(coverage[200] * len(labels) / 100)
    assert risk[200] == pytest.approx(100 * (probs.argmax(1) != labels).numpy()[surest[:n]].mean())
