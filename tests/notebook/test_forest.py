"""Forest plots: order, colours and points."""

import matplotlib.pyplot as plt
import pytest

from book.kit.notebook.forest import BETTER, OPEN, WORSE, forest
from calibkit.metrics.comparison import Estimate

ROWS = {"down": Estimate(-2, -3, -1), "up": Estimate(2, 1, 3), "open": Estimate(0.5, -1, 2)}


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


def test_colours_say_on_which_side_the_interval_lies():
    ax = forest(ROWS)
    dots = [line for line in ax.lines if len(line.get_xdata()) == 1]
    assert [line.get_color() for line in dots] == [BETTER, WORSE, OPEN]
    assert [line.get_xdata()[0] for line in dots] == [-2, 2, 0.5]
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # the first row is on top


def test_without_a_reference_there_is_no_side():
    ax = forest(ROWS, reference=None)
    assert {line.get_color() for line in ax.lines} == {OPEN}


def test_points_lie_in_their_row_on_a_scale_for_all():
    ax = forest(ROWS, {"up": [1, 50, 3]}, linear=1.0)
    (points,) = [line for line in ax.lines if len(line.get_xdata()) == 3]
    assert points.get_xdata().tolist() == [1, 50, 3] and set(points.get_ydata().round()) == {1}
    assert ax.get_xscale() == "symlog"
