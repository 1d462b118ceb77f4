"""Dumbbells: what is drawn, read back from the Axes."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from book.kit.notebook.dumbbells import MARKS, dumbbells

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


def test_groups_lie_apart_and_the_first_row_is_on_top():
    ax = dumbbells({"one": TABLE}, ["printed"]).axes[0]
    first, second, third = ax.lines[0].get_ydata()
    assert third - second > second - first == 1 and ax.get_ylim()[0] > ax.get_ylim()[1]
    assert [text.get_text() for text in ax.get_yticklabels()] == ["TS, CE", "TS, LS", "VS, CE"]


def test_what_cannot_be_drawn_is_refused_before_a_figure_is_made():
    for panels, columns, name in (({"a": TABLE, "b": TABLE[:2]}, ["printed"], "panels"), ({"a": TABLE}, [], "columns")):
        with pytest.raises(ValueError, match=f"Expected `{name}`"):
            dumbbells(panels, columns)
    assert not plt.get_fignums()
