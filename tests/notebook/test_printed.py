"""A printed number beside ours: whose it is, and with how many decimals."""

import math

import pandas as pd
import pytest

from calibkit import results
from calibkit.notebook.printed import beside, number_of_ours

NONE = {"printed": "2.0", "ours": math.nan, "elsewhere": math.nan, "stand_in_value": math.nan}


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ({}, ""),
        ({"ours": 2.04}, "2.0"),  # as many decimals as are printed
        ({"ours": 2.04, "printed": "2.000"}, "2.040"),
        ({"ours": 2.04, "printed": "2"}, "2"),
        ({"elsewhere": 5.6}, "[5.6]"),
        ({"stand_in_value": 5.6}, "(5.6)"),
        ({"ours": 1.0, "elsewhere": 2.0, "stand_in_value": 3.0}, "1.0"),
        ({"elsewhere": 2.0, "stand_in_value": 3.0}, "[2.0]"),
    ],
)
def test_our_own_number_comes_first_then_that_of_others_then_a_stand_ins(numbers, text):
    assert number_of_ours(pd.Series(NONE | numbers, dtype=object)) == text


def test_what_others_measured_has_its_answer():
    """As on the network of the class-loss paper."""
    found = results.compare("class_loss_scaling", "1", stand_in={}).iloc[:1]
    found = found.assign(ours=math.nan, verdict="not run", elsewhere=5.6, elsewhere_verdict="another elsewhere")
    (row,) = beside(found, "method").rows
    assert [tuple(cell) for cell in row.cells] == [("5.50", ""), ("[5.60]", "another elsewhere")]


@pytest.mark.parametrize("column", ["dataset", "loss", "metric", "n_bins", "unit"])
def test_numbers_that_differ_in_one_thing_are_never_merged(column):
    """Whatever becomes the columns."""
    rows = results.compare("mbls", "8").iloc[:2].reset_index(drop=True)
    rows = rows.assign(loss="mbls", metric="ece", model="vit", n_bins="15", printed=["1.00", "2.00"])
    assert rows["dataset"].nunique() == rows["unit"].nunique() == 1
    other = {"dataset": "cifar100", "loss": "focal", "metric": "nll", "n_bins": "25", "unit": "nats"}[column]
    rows.loc[1, column] = other
    for wide in (None, "method", column):
        table = beside(rows, wide)
        printed = [c.text for row in (*table.rows, *table.folded) for c in row.cells if c.text]
        assert sorted(printed) == ["1.00", "2.00"], wide
    with pytest.raises(ValueError, match="Expected `compared` to be rows of which each has a cell of its own"):
        beside(rows.assign(**{column: rows[column].iloc[0]}), "method")
