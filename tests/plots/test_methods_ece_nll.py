"""The map of ECE and NLL: its points and bars are what the metrics and their bootstrap say."""

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
