"""What the curves draw: the numbers that are in them."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

from book.kit.notebook import temperature_figures
from calibkit.metrics import ece


@pytest.fixture
def ax():
    return plt.subplots()[1]


def test_marked_draws_the_values_and_the_named_points(ax):
    assert temperature_figures.marked([3.0, 1.0, 2.0], {"A": 0, "B": 2}, ax=ax) is ax
    line, *points = ax.lines
    assert line.get_ydata().tolist() == [3.0, 1.0, 2.0]
    assert [(p.get_xdata()[0], p.get_ydata()[0]) for p in points] == [(0, 3.0), (2, 2.0)]
    assert [text.get_text() for text in ax.texts] == ["A", "B"]


def test_correlated_gives_pearsons_r_of_each_sample(ax):
    x = np.array([0.0, 1.0, 2.0, 3.0])
    temperature_figures.correlated({"up": (x, 2 * x), "bent": (x, np.array([0.0, 1.0, 1.0, 0.0]))}, ax=ax)
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["up: +1.00", "bent: +0.00"]
    assert ax.lines[0].get_ydata().tolist() == (2 * x).tolist()


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


def test_what_cannot_be_drawn_is_refused_before_a_figure_is_made():
    labels = torch.zeros(3, dtype=torch.long)
    for call, name in (
        (lambda: temperature_figures.marked([[1.0]], {}), "values"),
        (lambda: temperature_figures.marked([1.0], {"A": 1}), "marks"),
        (lambda: temperature_figures.correlated({"a": ([1, 2], [1, 2, 3])}), "samples"),
        (lambda: temperature_figures.chosen_temperatures(torch.zeros(3, 2), labels, {"T": 0.0}), "choices"),
        (lambda: temperature_figures.twice([0.0, 1.0], [1.0, 1.0]), "y"),
    ):
        with pytest.raises(ValueError, match=f"Expected `{name}`"):
            call()
    assert not plt.get_fignums()
