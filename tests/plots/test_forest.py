"""Forest plots: order, colours, points and the numbers beside."""

from itertools import pairwise

import numpy as np
import pytest
from matplotlib.figure import Figure
from refusals import refused

from calibkit import Comparison, plots
from calibkit.metrics import METRICS
from calibkit.metrics.comparison import Estimate

ROWS = {"up": Estimate(2, 1, 3), "down": Estimate(-12, -13, -1), "open": Estimate(0.5, -1, 2)}


def dots(ax):
    return [line for line in ax.lines if line.get_marker() == "o"]


def test_rows_are_sorted_and_their_colour_says_on_which_side_they_lie():
    ax = plots.forest_plot(ROWS)
    assert [t.get_text() for t in ax.get_yticklabels()] == ["down", "open", "up"]
    assert [line.get_xdata()[0] for line in dots(ax)] == [-12, 0.5, 2]
    assert [line.get_color().upper() for line in dots(ax)] == [plots.BLUE, plots.BLACK, plots.RED]
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # the first row is on top


def test_numbers_stand_in_columns():
    ax = plots.forest_plot(ROWS, numbers="+.1f")
    texts = [text.get_text() for text in ax.texts]
    assert texts == ["−12.0 [−13.0, −1.0]", " +0.5 [ −1.0, +2.0]", " +2.0 [ +1.0, +3.0]"]
    assert not plots.forest_plot(ROWS, numbers=None).texts
    ax = plots.forest_plot([(name, *estimate) for name, estimate in ROWS.items()], sort=False)
    assert [t.get_text() for t in ax.get_yticklabels()] == list(ROWS)


@pytest.mark.parametrize("reach", [0.004, 0.012, 5.0, 400.0])
def test_labels_of_the_ticks_do_not_overlap(reach):
    """As a report draws them."""
    figure = Figure(figsize=(8.0, 1.5), layout="constrained")
    rows = {"parameterized temperature scaling": Estimate(reach / 2, -reach, reach)}
    ax = plots.forest_plot(rows, ax=figure.subplots(), linear=0.005, numbers="+.4f")
    figure.draw_without_rendering()
    low, high = ax.get_xlim()
    labels = [text for text in ax.get_xticklabels() if low <= text.get_position()[0] <= high and text.get_text()]
    boxes = [label.get_window_extent() for label in labels]
    assert len(boxes) >= 3
    assert all(left.x1 + 2 < right.x0 for left, right in pairwise(boxes)), [label.get_text() for label in labels]


def test_a_number_beyond_any_float():
    with pytest.raises(ValueError, match="^Expected `rows` to be names, each with a value and the ends of its interv"):
        plots.forest_plot({"a": (1, 0, 10**400)})


def test_each_metric_has_its_unit():
    methods = Comparison(np.arange(20) % 2, METRICS, n_resamples=2)
    methods.add("sure", np.tile([0.9, 0.1], (20, 1)))
    for metric in METRICS:
        said = plots.forest_plot(methods, metric=metric).get_xlabel()
        assert said.endswith(", nats" if metric in ("nll", "entropy") else ", %"), said


def test_two_rows_of_one_name_are_refused():
    refused("`rows` to be of different names, but got ts, ts", plots.forest_plot, [("ts", 1, 0, 2), ("ts", 3, 2, 4)])
