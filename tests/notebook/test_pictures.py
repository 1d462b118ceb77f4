"""Figures of the chapters: what is drawn, read back from the Axes."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import torch
from refusals import refused

from book.kit.notebook import pictures, temperature_figures
from book.kit.notebook.dumbbells import MARKS, dumbbells
from book.kit.notebook.segmentation_maps import maps
from calibkit import plots
from calibkit._files import write_npz
from calibkit.metrics import ece, reliability_bins


def sample(n=200, seed=0):
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.ones(3), n)
    return probs, rng.integers(0, 3, n)


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


def test_image_is_scaled_by_channel_and_clipped():
    pixels = np.zeros((3, 2, 2))
    pixels[0], pixels[1], pixels[2] = 1.0, -1.0, 99.0
    shown = pictures.image(pixels, low=[0, -2, 0], high=[2, 0, 1]).get_images()[0].get_array()
    np.testing.assert_allclose(shown[0, 0], [0.5, 0.5, 1.0])
    (drawn,) = pictures.image(np.full((1, 2, 2), 3.0), low=2, high=6).get_images()
    grey = drawn.get_array()
    assert grey.shape == (2, 2) and float(grey[0, 0]) == 0.25 and drawn.get_clim() == (0, 1)


@pytest.fixture
def ax():
    return plt.subplots()[1]


def test_the_curve_is_the_ece_of_every_temperature(overconfident):
    z, y = overconfident
    choices = {"true": 3.0, "none": 1.0}
    ax, below = temperature_figures.chosen_temperatures(z.numpy(), y.numpy(), choices, n_bins=10).axes
    line, *on_curve = ax.lines
    grid, errors = line.get_xdata(), line.get_ydata()
    assert (grid[0], grid[-1]) == pytest.approx((0.9, 3.3))
    assert errors[7] == pytest.approx(100 * ece((z / grid[7]).softmax(1), y, n_bins=10))
    assert grid[errors.argmin()] == pytest.approx(3.0, abs=0.2)
    assert [point.get_xdata()[0] for point in on_curve] == [3.0, 1.0]
    assert on_curve[0].get_ydata()[0] == pytest.approx(100 * ece((z / 3).softmax(1), y, n_bins=10))
    assert [(row.get_xdata()[0], row.get_ydata()[0]) for row in below.lines] == [(3.0, 0), (1.0, 1)]
    assert (below.get_xlabel(), ax.get_ylabel(), ax.get_ylim()[0]) == ("temperature", "test ECE (%)", 0.0)


def test_twice_has_equal_axes_and_a_diagonal(ax):
    temperature_figures.twice([0.5, 2.0], [0.4, 4.0], ax=ax)
    points, diagonal = ax.lines
    assert (points.get_xdata().tolist(), points.get_ydata().tolist()) == ([0.5, 2.0], [0.4, 4.0])
    assert list(diagonal.get_xdata()) == list(diagonal.get_ydata()) == pytest.approx([0.36, 4.4])
    assert [t.get_text() for t in ax.get_xticklabels()] == [t.get_text() for t in ax.get_yticklabels()]
    assert [t.get_text() for t in ax.get_xticklabels()] == ["0.5", "1", "1.5", "2", "3"]


ROWS = pd.MultiIndex.from_tuples([("TS", "CE"), ("TS", "LS"), ("VS", "CE")])
TABLE = pd.DataFrame({"printed": [1.0, 0.4, np.nan], "replay": [1.0, 0.5, 3.0], "exact": [1.1, 8.0, np.nan]}, ROWS)


def test_each_column_is_a_mark_and_a_line_joins_the_ends():
    figure = dumbbells({"one": TABLE, "two": 2 * TABLE}, ["printed", "replay", "exact"], xlabel="ECE (%)")
    assert [ax.get_title() for ax in figure.axes] == ["one", "two"]
    for ax, factor in zip(figure.axes, (1, 2), strict=True):
        for line, column, mark in zip(ax.lines, TABLE, MARKS, strict=True):
            np.testing.assert_array_equal(line.get_xdata(), factor * TABLE[column])
            assert line.get_marker() == mark["marker"]
        ends = [segment[:, 0].tolist() for segment in ax.collections[0].get_segments()]
        assert ends == [[factor * low, factor * high] for low, high in ((1.0, 1.1), (0.4, 8.0), (3.0, 3.0))]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["printed", "replay", "exact"]


def test_what_has_a_colour_elsewhere_keeps_it():
    ax = dumbbells({"one": TABLE}, ["printed", "exact"], colors=["C1", "C2"]).axes[0]
    assert [line.get_color() for line in ax.lines] == ["C1", "C2"]
    assert [line.get_marker() for line in ax.lines] == [mark["marker"] for mark in MARKS[:2]]


def test_groups_lie_apart_and_the_first_row_is_on_top():
    ax = dumbbells({"one": TABLE}, ["printed"]).axes[0]
    first, second, third = ax.lines[0].get_ydata()
    assert third - second > second - first == 1 and ax.get_ylim()[0] > ax.get_ylim()[1]
    assert [text.get_text() for text in ax.get_yticklabels()] == ["TS, CE", "TS, LS", "VS, CE"]


NAMES = [f"class {k}" for k in range(12)]


@pytest.fixture
def path(tmp_path):
    predicted = np.arange(3 * 4, dtype=np.uint8).reshape(3, 2, 2)[::-1]
    return write_npz(
        tmp_path / "maps.npz", {"predicted": predicted, "confidence": 255 - predicted, "right": predicted % 3}
    )


def test_a_row_shows_classes_confidence_and_mistakes_of_the_image(path):
    figure = maps({"CE": path, "MbLS": path}, NAMES)
    *axes, bar = figure.axes
    assert [ax.get_ylabel() for ax in axes] == ["CE", "", "", "MbLS", "", ""] and bar.get_ylabel() == "confidence"
    classes, confidence, right = (ax.get_images()[0].get_array() for ax in axes[3:])
    np.testing.assert_array_equal(classes, [[8, 9], [10, 11]])
    np.testing.assert_allclose(confidence, (255 - classes) / 255)
    np.testing.assert_array_equal(right, classes % 3)
    assert axes[4].get_images()[0].get_clim() == (0, 1)  # one scale for all: that of the bar


def test_the_legend_has_the_colour_of_each_class(path):
    figure = maps({"CE": path}, NAMES)
    image, (legend,) = figure.axes[0].get_images()[0], figure.legends
    for k, patch in enumerate(legend.get_patches()):
        assert legend.get_texts()[k].get_text() == NAMES[k]
        np.testing.assert_allclose(patch.get_facecolor(), image.cmap(image.norm(k)))


def test_what_cannot_be_drawn_is_refused_before_a_figure_is_made(path):
    labels = torch.zeros(3, dtype=torch.long)
    for call, name, *rest in (
        (lambda: pictures.reliability_row({name: sample() for name in "abcd"}, histogram=True), "samples"),
        (lambda: pictures.grouped_bars("ab", {"x": [1, 2, 3]}), "values"),
        (lambda: pictures.band([1, 2], [1, 2], [1], [2, 3]), "low"),
        (lambda: pictures.mean_band([0], [[1.0]]), "draws"),
        (lambda: pictures.image(np.zeros((2, 4, 4))), "pixels"),
        (lambda: temperature_figures.chosen_temperatures(torch.zeros(3, 2), labels, {"T": 0.0}), "choices"),
        (lambda: temperature_figures.twice([0.0, 1.0], [1.0, 1.0]), "y"),
        (lambda: dumbbells({"a": TABLE, "b": TABLE[:2]}, ["printed"]), "panels"),
        (lambda: dumbbells({"a": TABLE}, []), "columns"),
        (lambda: dumbbells({"a": TABLE}, ["printed"], colors=["C1", "C2"]), "colors"),
        (lambda: maps({}, NAMES), "networks", "at least one"),
        (lambda: maps({"CE": path}, NAMES[:3]), "names", "at least 12, one a class"),
    ):
        refused(f"`{name}` to be {''.join(rest)}", call)
    assert not plt.get_fignums()
