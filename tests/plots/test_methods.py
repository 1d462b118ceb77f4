"""The map of ECE and NLL as the metrics and their bootstrap say, and risk-coverage curves by hand and by counting."""

import io

import numpy as np
import pytest

from calibkit import Comparison, bootstrap, ece, nll, plots


def test_points_and_bars_are_the_metrics_and_their_intervals(sample):
    probs, labels = sample
    methods = {"identity": probs, "temperature_scaling": probs.sqrt() / probs.sqrt().sum(1, keepdim=True)}
    ax = plots.ece_nll_map(methods, labels)
    assert ax.get_xlim()[0] >= 0 and len(ax.containers) == 2
    for (name, of), bars in zip(methods.items(), ax.containers, strict=True):
        point, _, (across, upright) = bars
        assert point.get_xydata().tolist() == [pytest.approx([100 * ece(of, labels), nll(of, labels)])]
        ends = bootstrap(of, labels, ["ece", "nll"])
        np.testing.assert_allclose(across.get_segments()[0][:, 0], 100 * np.array(ends["ece"]), rtol=1e-9)
        np.testing.assert_allclose(upright.get_segments()[0][:, 1], ends["nll"], rtol=1e-9)
        assert point.get_color() == plots.color_of(name)
    marked = ax.containers[0][0]
    assert marked.get_markerfacecolor() != marked.get_color()
    (x,), (y,) = marked.get_data()
    (green,) = ax.collections[-1].get_paths()
    assert green.vertices.max(0).tolist() == pytest.approx([x, y])  # the better half-planes end at the network
    for kind, first in (("png", b"\x89PNG"), ("svg", b"<?xml")):
        stream = io.BytesIO()
        ax.figure.savefig(stream, format=kind)
        assert stream.getvalue().startswith(first)


def test_a_comparison_is_drawn_as_it_is_and_an_infinite_nll_is_told(sample):
    probs, labels = sample
    methods = Comparison(labels, ["nll", "ece"], n_resamples=50)
    methods.add("ets", probs)
    methods.add("histogram_binning", np.eye(probs.shape[1])[probs.argmax(1)])
    ax = plots.ece_nll_map(methods)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["ets", "histogram binning, infinite NLL"]
    bars, nowhere = ax.containers
    assert np.isnan(nowhere[0].get_xydata()[0, 1])
    ends = methods.of("ets", "nll")
    np.testing.assert_allclose(bars[2][1].get_segments()[0][:, 1], [ends.low, ends.high])


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
