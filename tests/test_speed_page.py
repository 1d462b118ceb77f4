"""The table and the picture of the page on speed say what the file of measurements says."""

import importlib

import pandas as pd
import pytest

from calibkit.plots import BLUE, GREY

pytest.importorskip("sphinx")


@pytest.fixture
def speed():
    return importlib.import_module("speed")


@pytest.fixture
def rows():
    ours = {"task": "ETS", "who": "calibkit", "n": 25_000, "k": 1_000, "passes": 12.4}
    peer = {"task": "ETS", "who": "peer", "n": 25_000, "k": 1_000, "seconds": 40.0, "bound": None, "passes": 900.0}
    return pd.DataFrame([{**ours, "seconds": 0.5, "bound": 2.0}, {**ours, "seconds": 2.5, "bound": 2.0}, peer])


def test_the_table_says_whether_a_bound_is_met(speed, rows):
    met, missed, peer = speed.table(rows)[2:]
    assert met == "| ETS | calibkit | 25,000 x 1,000 | 0.5 | 2, met | 12 |"
    assert "2, **missed**" in missed and peer.endswith("| 40 |  | 900 |")


def test_the_picture_has_a_bar_a_row(speed, rows):
    from matplotlib.colors import same_color
    from matplotlib.figure import Figure

    figure = Figure()
    speed.bars(rows, figure)
    (ax,) = figure.axes
    assert [bar.get_width() for bar in ax.patches] == [12.4, 12.4, 900.0]
    colors = [bar.get_facecolor()[:3] for bar in ax.patches]
    assert all(same_color(a, b) for a, b in zip(colors, (BLUE, BLUE, GREY), strict=True))
