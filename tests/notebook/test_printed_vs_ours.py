"""Printed numbers beside ours: whose each is, with how many decimals, where it stands, and its badge."""

import math
import re

import pandas as pd
import pytest
from html_cells import Cells
from refusals import refused

from book.kit import results
from book.kit.notebook import display_names
from book.kit.notebook.grid import MARKS
from book.kit.notebook.printed_vs_ours import beside, number_of_ours
from book.papers import PAPERS

NONE = {"printed": "2.0", "ours": math.nan, "elsewhere": math.nan, "stand_in_value": math.nan}


def test_our_own_number_comes_first_then_that_of_others_then_a_stand_ins():
    for numbers, text in (
        ({}, ""),
        ({"ours": 2.04, "printed": "2.000"}, "2.040"),  # as many decimals as are printed
        ({"ours": 2.04, "printed": "2"}, "2"),
        ({"stand_in_value": 5.6}, "(5.6)"),
        ({"stand_in_value": -0.04}, "(0.0)"),  # a zero has no sign
        ({"ours": 1.0, "elsewhere": 2.0, "stand_in_value": 3.0}, "1.0"),
        ({"elsewhere": 2.0, "stand_in_value": 3.0}, "[2.0]"),
    ):
        assert number_of_ours(pd.Series(NONE | numbers, dtype=object)) == text


def test_what_others_measured_has_its_answer():
    """As on the network of the class-loss paper."""
    found = results.compare("class_loss_scaling", "1", stand_in={}).iloc[:1]
    found = found.assign(ours=math.nan, verdict="not run", elsewhere=5.6, elsewhere_verdict="another elsewhere")
    (row,) = beside(found, "method").rows
    assert [tuple(cell) for cell in row.cells] == [("5.50", "", ""), ("[5.60]", "another elsewhere", "")]


@pytest.mark.parametrize(("unit", "printed"), [("percent", "5.50"), ("fraction", "0.0550")])
def test_a_badge_that_says_not_decided_says_what_would_have_been_seen(unit, printed):
    found = results.compare("class_loss_scaling", "1", stand_in={}).iloc[:1]
    seen = 0.4321 if unit == "percent" else 0.004321
    found = found.assign(unit=unit, printed=printed, ours=math.nan, verdict="not decided", visible=seen)
    html = beside(found, "method")._repr_html_()
    assert 'title="not decided; a difference of 0.432 would have been seen"' in html


@pytest.mark.parametrize("column", ["dataset", "metric", "n_bins", "unit"])
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


@pytest.fixture(scope="module")
def first():
    """Table 1 of MbLS: two networks of which ours stand in for one each."""
    return results.compare("mbls", "1")


def test_the_papers_method_comes_first(first):
    groups = list(dict.fromkeys(column.group for column in beside(first, "loss").columns))
    assert groups[:3] == ["MbLS", "MbLS, m = 0", "CE"]
    long = beside(first.query("dataset == 'cifar10' and model == 'resnet50' and metric == 'ece'"))
    assert long.rows[0].label == "MbLS"


def badges(compared):
    """The answers, and which of the reproduced ones are so by the authors' code alone."""
    found = results.answers(compared)
    return found.mask(compared["replay"] == "by the authors' code", "reproduced by the authors' code")


@pytest.mark.slow
@pytest.mark.parametrize("paper", PAPERS)
def test_every_number_of_a_paper_is_shown_once_with_its_answer(paper):
    for _, compared in results.compare(paper).groupby("table"):
        shown = beside(compared)
        cells = [row.cells for row in (*shown.rows, *shown.folded)]
        printed = [
            f"{100 * float(text):.{len(text) - 4}f}" if unit == "fraction" else text
            for text, unit in zip(compared["printed"], compared["unit"], strict=True)
        ]
        assert sorted(row[0].text for row in cells) == sorted(printed)
        answers = badges(compared).replace("not run", "")
        assert sorted(row.cells[1].answer for row in shown.rows) == sorted(
            answers[(answers != "") | compared[["ours", "elsewhere", "stand_in_value"]].notna().any(axis=1)]
        )


def test_numbers_stand_in_the_cells_that_their_heads_name(first):
    shown = beside(first, "loss", names={"resnet50": "R50"})
    at = {column: i for i, column in enumerate(shown.columns)}
    row = next(row for row in shown.rows if row.group == "CIFAR-10, R50" and row.label == "AECE")
    wanted = first.query(
        "dataset == 'cifar10' and model == 'resnet50' and loss == 'focal' and metric == 'adaptive_ece'"
    )
    assert row.cells[at["printed", "FL"]].text == wanted["printed"].item()
    assert row.cells[at["ours", "FL"]][:2] == (
        f"({wanted['stand_in_value'].item():.2f})",
        results.answers(wanted).item(),
    )


def test_fractions_are_in_percent_with_the_printed_digits():
    rows = results.compare("neural_clamping", "1").query("model == 'resnet110' and method == 'neural_clamping'")
    shown = {row.label: [cell.text for cell in row.cells] for row in beside(rows).rows}
    of = rows.set_index("metric")["stand_in_value"]
    assert rows.set_index("metric")["printed"]["ece"] == "0.0085"
    assert shown["ECE"] == ["0.85", f"({100 * of['ece']:.2f})"]
    assert shown["entropy"] == [rows.set_index("metric")["printed"]["entropy"], f"({of['entropy']:.4f})"]


def test_rows_that_nobody_ran_are_behind_a_click_without_empty_columns(first):
    html = beside(first, "loss", "Table 1")._repr_html_()
    shown, folded = Cells(html).tables
    assert "<summary>2 rows that nobody ran here</summary>" in html and html.count("<details") == 1
    assert shown[1] and {"printed", "ours"} == set(map(str.strip, shown[1]))
    assert folded[0][1:] == ["MbLS", "MbLS, m = 0", "CE", "ECP", "LS", "FL", "FLSD"]
    assert ["ECE", "1.62", "1.89", "4.97", "4.68", "2.20", "2.55", "4.91"] in folded


def test_a_table_that_nobody_ran_is_all_behind_a_click():
    shown = beside(results.compare("mbls", "8"), "loss", "Table 8")
    assert not shown.rows and len(shown.folded) == 4
    assert len(Cells(shown._repr_html_()).tables) == 1 and "4 rows that nobody ran here" in repr(shown)


def test_a_drop_of_accuracy_is_a_column():
    compared = results.compare("class_temperature_scaling", "II").query("dataset == 'cifar100' and loss == 'brier'")
    shown = beside(compared, "method")
    assert len(shown.rows) + len(shown.folded) == compared["model"].nunique()
    column = shown.columns.index(("printed", "CTS, no accuracy constraint, accuracy drop"))
    drops = compared[compared["metric"] == "accuracy_drop"]["printed"].tolist()
    assert sorted(row.cells[column].text for row in (*shown.rows, *shown.folded)) == sorted(drops)


@pytest.mark.slow
def test_each_answer_has_its_badge_and_the_line_below_explains_it():
    every = results.everything()
    found = badges(every)
    rows = every[every["paper"] == "class_temperature_scaling"].query("table == 'II'")
    html = beside(rows, "method")._repr_html_()
    in_table = set(found[rows.index]) - {"not run"}
    assert len(in_table) > 4
    key = re.search(r'<p class="key">(.*)</p>', html)[1]
    for answer in in_table:
        mark = MARKS[answer]
        assert re.search(rf'<span class="answer [a-z -]+" role="img" title="{answer}">{re.escape(mark)}<', html)
        assert f"{mark}</span> {answer}</span>" in key
    for answer in set(MARKS) - in_table:
        assert f"> {answer}</span>" not in key


def test_other_rows_and_columns_are_refused(first):
    for rows in (
        first[:0],
        pd.concat([first, results.compare("acls", "1")]),
        pd.concat([first] * 2, ignore_index=True),
    ):
        refused("`compared` to be rows of", beside, rows, "loss")
    refused("`wide` to be one of", beside, first, "colour")


def test_every_key_of_the_papers_has_a_name():
    rows = results.load("paper")
    for column in ("dataset", "model", "loss", "method", "metric"):
        same = [value for value in rows[column].unique() if display_names.shown(value) == value and value != "accuracy"]
        assert same in ([], ["entropy"], ["spline"], ["isotonic"]), (column, same)
