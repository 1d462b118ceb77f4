"""The table and the picture of the page on speed say what the file of measurements says."""

import importlib

import pandas as pd
import pytest

from book.kit.notebook import display_names
from calibkit import _folders
from calibkit.plots import BLUE, GREY

pytest.importorskip("sphinx")
speed = importlib.import_module("book.kit.sphinx.speed")


@pytest.fixture
def rows():
    ours = {"task": "vector", "who": "calibkit", "n": 25_000, "k": 1_000, "x NLL": 12.4}
    peer = {**ours, "who": "peer", "seconds": 40.0, "bound": None, "x NLL": 900.0}
    return pd.DataFrame([{**ours, "seconds": 0.5, "bound": 2.0}, {**ours, "seconds": 2.5, "bound": 2.0}, peer])


def test_the_table_says_whether_a_bound_is_met(rows):
    found = speed.bounds(rows)
    assert [column.head for column in found.columns] == ["ms", "at most", "met", "evaluations of the NLL"]
    assert [[row.label, *(cell.text for cell in row.cells)] for row in found.rows] == [
        ["vector scaling", "500", "2,000", "yes", "12"],
        ["vector scaling", "2,500", "2,000", "no", "12"],
        ["the same by peer", "40,000", "", "", "900"],
    ]
    assert {row.group for row in found.rows} == {"25,000 samples, 1,000 classes"}


def test_the_table_of_steps_has_every_number_of_its_file():
    rows = pd.read_csv(_folders.stored() / "steps.csv")
    cells = [cell.text for row in speed.steps(rows).rows for cell in row.cells]
    assert sorted(cells) == sorted([*map(str, rows["images a second"]), *["\N{EN DASH}"] * (len(cells) - len(rows))])


def test_the_table_of_fits_has_every_calibrator_and_number_of_its_file():
    rows = pd.read_csv(_folders.stored() / "fits.csv", dtype=str).set_index("method")
    found = {row.label: [cell.text for cell in row.cells] for row in speed.fits(rows.reset_index()).rows}
    assert found == {display_names.shown(method): list(row) for method, row in rows.iterrows()}


def test_the_picture_has_a_dot_a_row_and_peers_beside_ours(rows):
    from matplotlib.colors import same_color
    from matplotlib.figure import Figure

    figure = Figure()
    speed.dots(rows.iloc[1:], figure)
    (ax,) = figure.axes
    dots = {line.get_label(): line for line in ax.lines[:2]}
    assert {who: (*dot.get_xdata(), *dot.get_ydata()) for who, dot in dots.items()} == {
        "calibkit": (12.4, 0),
        "peer": (900.0, 0),
    }
    assert same_color(dots["calibkit"].get_color(), BLUE) and same_color(dots["peer"].get_color(), GREY)
    assert [text.get_text() for text in ax.get_yticklabels()] == ["vector scaling, 25,000 × 1,000"]
