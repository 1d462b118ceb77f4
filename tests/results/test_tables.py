"""Tables for a page: the text of each cell."""

import re

import pandas as pd
import pytest
from constructed_rows import differs, measured, measured_row, printed

from calibkit.results import compare, table

TS = "temperature_scaling"
SPACE = "\N{NO-BREAK SPACE}"


@pytest.fixture
def compared(book):
    """A network whose cells have each verdict, one with a stand-in, and one of which others have numbers."""
    methods = {"identity": "5.50", TS: "0.96", "ets": "1.00", "pts": "2.0", "vector_scaling": "3.00"}
    cells = [(net, m, v) for net in ("a", "b") for m, v in methods.items()]
    printed(book, *[{"value": v, "method": m, "model": net} for net, m, v in cells])
    ours = {"identity": 0.0550, TS: 0.0085, "ets": 0.09, "pts": 0.020}
    measured(book, *[measured_row(v, method=m, model="a", source="author-logits") for m, v in ours.items()])
    for method, effect in ((TS, -0.04), ("ets", 0.03), ("pts", -0.03)):
        differs(book, effect, method=method, model="a", source="author-logits", budget="paper")
    measured(book, measured_row(0.05, method="ets", model="c", budget="reduced", n_seeds=3))
    differs(book, -0.001, method="ets", model="c")
    return compare("mbls", stand_in={"b": "c"})


def test_long(compared):
    long = table(compared)
    assert long.index.names == ["model", "method"]
    assert list(long.columns) == ["printed", "ours", "n_seeds", "budget", "source", "stand_in", "verdict"]
    rows = {method: list(long.loc[("a", method)][["printed", "ours", "verdict"]]) for method in ("identity", TS, "pts")}
    assert rows == {
        "identity": ["5.50", "5.50 [5.10, 5.90]", "reproduced"],
        TS: ["0.96", "0.85 [0.45, 1.25]", "same direction"],
        "pts": ["2.0", "2.0 [1.6, 2.4]", "reproduced"],  # as many decimals as are printed
    }
    assert list(long.loc[("a", "vector_scaling")]) == ["3.00", "", "", "", "", "", "not run"]
    assert list(long.loc[("b", "ets")])[-2:] == ["c", "not decided, by a stand-in"]


def test_wide_shows_each_verdict_by_its_mark(compared):
    wide = table(compared, "method")
    assert list(wide.columns) == ["identity", TS, "ets", "pts", "vector_scaling"]
    assert list(wide.loc[("a",)].squeeze()) == [
        f"5.50 / 5.50{SPACE}=",
        f"0.96 / 0.85{SPACE}~",
        f"1.00 / 9.00{SPACE}x",
        f"2.0 / 2.0{SPACE}=",
        "3.00",
    ]
    assert list(wide.loc[("b",)].squeeze()) == ["5.50", "0.96", f"1.00 / (5.00){SPACE}?", "2.0", "3.00"]


def test_what_others_measured_is_in_brackets():
    """As on the network of the class-loss paper."""
    found = compare("class_loss_scaling", "1", stand_in={}).iloc[:1]
    shown = found.assign(ours=float("nan"), verdict="not run", elsewhere=5.6, elsewhere_verdict="another elsewhere")
    assert table(shown, "method").iloc[0].item() == f"5.50 / [5.60]{SPACE}\N{NOT EQUAL TO}"


@pytest.mark.parametrize("column", ["dataset", "loss", "metric", "n_bins", "table"])
def test_what_differs_is_never_merged(book, column):
    """Two cells that differ in one thing are two cells of the table, whatever becomes its columns."""
    other = {"dataset": "cifar100", "loss": "focal", "metric": "nll", "n_bins": 25, "table": "2"}[column]
    rows = [{"value": f"{i}.00", "method": m} for i, m in enumerate(("identity", TS), 1)]
    printed(book, *rows, *[row | {"value": f"9{row['value']}", column: other} for row in rows])
    compared = compare("mbls")
    for wide in ("method", column):
        assert sorted(table(compared, wide).to_numpy().ravel()) == ["1.00", "2.00", "91.00", "92.00"]
    assert set(table(compared).index.names) == {column, "method"}
    with pytest.raises(ValueError, match="Expected `compared` to be rows of which each has a cell of its own"):
        table(compared.assign(**{column: ""}), "method")


def test_a_cell_that_no_row_has_is_empty(compared):
    part = compared[(compared["model"] == "a") | (compared["method"] == "identity")]
    assert list(table(part, "method").loc[("b",)].squeeze()) == ["5.50", "", "", "", ""]


def test_columns_in_which_all_rows_are_the_same_are_left_out(compared):
    one = table(compared[(compared["model"] == "a") & (compared["method"] == TS)])
    assert list(one.columns) == ["printed", "ours", "verdict"] and isinstance(one.index, pd.RangeIndex)
    wide = table(compared[compared["model"] == "a"], "method")
    assert len(wide) == 1 and isinstance(wide.index, pd.RangeIndex)
    measured_alike = table(compared[(compared["model"] == "a")])
    assert list(measured_alike.columns) == ["printed", "ours", "verdict"]


def test_same_numbers_give_the_same_bytes(compared):
    assert table(compared, "method").to_html() == table(compared, "method").to_html()
    assert "object at 0x" not in table(compared).to_html()


def test_bad_input(compared):
    with pytest.raises(ValueError, match=re.escape("Expected `compared` to be rows of compare(), but got none")):
        table(compared.iloc[:0])
    with pytest.raises(ValueError, match="Expected `wide` to be one of"):
        table(compared, "networks")
