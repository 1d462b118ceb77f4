"""Figures of the chapters: what is drawn, read back from the Axes."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from book.kit.notebook import pictures
from calibkit import plots
from calibkit.metrics import reliability_bins


def sample(n=200, seed=0):
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.ones(3), n)
    return probs, rng.integers(0, 3, n)


# ------------------------------------------------------------------------------------------------ reliability_row
@pytest.mark.parametrize(("names", "columns"), [("ab", 2), ("abcd", 2), ("abcdefg", 3)])
def test_a_diagram_for_each_sample_and_one_legend(names, columns):
    samples = {name: sample(seed=i) for i, name in enumerate(names)}
    figure = pictures.reliability_row(samples, n_bins=7)
    assert [ax.get_title() for ax in figure.axes] == list(names)
    assert figure.axes[0].get_gridspec().ncols == columns and figure.get_size_inches()[0] <= 7.2
    assert len(figure.legends) == 1 and all(ax.get_legend() is None for ax in figure.axes)
    for ax, (probs, labels) in zip(figure.axes, samples.values(), strict=True):
        bins = reliability_bins(probs, labels, n_bins=7)
        drawn = next(line for line in ax.lines if line.get_marker() == "o")
        np.testing.assert_allclose(drawn.get_ydata(), bins.accuracy[bins.counts > 0])


def test_histograms_stand_below_and_true_curves_are_named():
    curve = np.array([0.2, 0.8]), np.array([0.3, 0.7])
    figure = pictures.reliability_row({"a": sample(), "b": sample()}, histogram=True, curves={"b": curve})
    top, below = figure.axes[:2], figure.axes[2:]
    assert [ax.get_title() for ax in top] == ["a", "b"] and all(ax.get_ylabel() == "share" for ax in below)
    assert sum(bar.get_height() for bar in below[0].patches) == pytest.approx(1)
    truth = [line for line in top[1].lines if line.get_label() == "truth"]
    np.testing.assert_array_equal(truth[0].get_xydata().T, curve)
    assert "truth" in [text.get_text() for text in figure.legends[0].get_texts()]
    assert not [line for line in top[0].lines if line.get_label() == "truth"]


# ------------------------------------------------------------------------------------------------------ bars, bands
@pytest.mark.parametrize("n_series", [1, 3])
def test_bars_of_a_group_touch_and_do_not_overlap(n_series):
    values = {f"s{i}": np.arange(4.0) + i for i in range(n_series)}
    ax = pictures.grouped_bars(list("wxyz"), values, width=0.6)
    assert [text.get_text() for text in ax.get_xticklabels()] == list("wxyz")
    bars = np.array([[(bar.get_x(), bar.get_width(), bar.get_height()) for bar in group] for group in ax.containers])
    for group in range(4):
        left, width, height = bars[:, group].T
        assert left[0] == pytest.approx(group - 0.3) and left[-1] + width[-1] == pytest.approx(group + 0.3)
        np.testing.assert_allclose(left[1:], (left + width)[:-1], atol=1e-12)
        np.testing.assert_allclose(height, group + np.arange(n_series))


def test_band_is_the_range_about_the_line():
    _, ax = plt.subplots()
    given = pictures.band([1, 2], [5, 6], [4, 5.5], [7, 8], ax=ax, color=plots.RED, label="mean", line="s--")
    assert given is ax
    (line,), (area,) = ax.lines, ax.collections
    assert line.get_ydata().tolist() == [5, 6] and (line.get_marker(), line.get_linestyle()) == ("s", "--")
    corners = {tuple(point) for point in area.get_paths()[0].vertices}
    assert {(1, 4), (1, 7), (2, 5.5), (2, 8)} <= corners


def test_mean_band_is_the_mean_and_its_standard_errors():
    draws = np.random.default_rng(0).normal(size=(3, 50))
    ax = pictures.mean_band([0, 1, 2], draws)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), draws.sum(1) / 50)
    centred = draws - draws.mean(1, keepdims=True)
    error = np.sqrt((centred**2).sum(1) / 49 / 50)
    top = np.sort(ax.collections[0].get_paths()[0].vertices[:, 1])
    assert top[-1] == pytest.approx((draws.mean(1) + 2 * error).max())
    assert top[0] == pytest.approx((draws.mean(1) - 2 * error).min())


def test_runs_show_every_value_and_the_mean():
    values = np.array([1.0, 2, 3, 4, 10])
    ax = pictures.runs({"one": values, "two": values + 1})
    points, mean, *_ = ax.lines[2:]
    assert points.get_ydata().tolist() == [2, 3, 4, 5, 11] and set(mean.get_ydata()) == {5.0}
    assert len(set(points.get_xdata())) == 5 and set(np.round(points.get_xdata())) == {1}


# ----------------------------------------------------------------------------------------------------------- image
def test_image_is_scaled_by_channel_and_clipped():
    pixels = np.zeros((3, 2, 2))
    pixels[0], pixels[1], pixels[2] = 1.0, -1.0, 99.0
    shown = pictures.image(pixels, low=[0, -2, 0], high=[2, 0, 1]).get_images()[0].get_array()
    np.testing.assert_allclose(shown[0, 0], [0.5, 0.5, 1.0])
    grey = pictures.image(np.full((1, 2, 2), 3.0), low=2, high=6).get_images()[0].get_array()
    assert grey.shape == (2, 2) and float(grey[0, 0]) == 0.25


def test_what_cannot_be_drawn_is_refused_before_a_figure_is_made():
    for call, name in (
        (lambda: pictures.reliability_row({name: sample() for name in "abcd"}, histogram=True), "samples"),
        (lambda: pictures.grouped_bars("ab", {"x": [1, 2, 3]}), "values"),
        (lambda: pictures.band([1, 2], [1, 2], [1], [2, 3]), "low"),
        (lambda: pictures.mean_band([0], [[1.0]]), "draws"),
        (lambda: pictures.runs({"a": [1], "b": [2], "c": [3]}), "colors"),
        (lambda: pictures.image(np.zeros((2, 4, 4))), "pixels"),
    ):
        with pytest.raises(ValueError, match=f"Expected `{name}`"):
            call()
    assert not plt.get_fignums()
