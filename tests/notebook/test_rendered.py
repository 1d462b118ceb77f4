"""Tables of the book: HTML and text against what was written by hand, and against the frame that they show."""

import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from calibkit import results
from calibkit.notebook import names, rendered
from calibkit.notebook.printed import beside
from calibkit.notebook.rendered_text import MARKS, pads

FRAME = pd.DataFrame({"ECE": [1.25, np.nan], "difference": ["-0.51 [-0.6, 0.1]", "ResNet-50"]}, index=["a", "b"])


class Cells(HTMLParser):
    """The tables of a page as lists of rows of cell texts; a span over columns counts as often as it is wide."""

    def __init__(self, text: str):
        super().__init__()
        self.tables, self.open = [], []
        self.feed(text)
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        if tag not in ("br", "img", "input"):
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append([])
        if tag in ("th", "td"):
            self.tables[-1][-1] += [""] * int(dict(attrs).get("colspan", 1))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if {"th", "td"} & set(self.open):
            self.tables[-1][-1][-1] += data


def test_a_small_table_is_this_html():
    assert rendered.table(FRAME, "Two & more", "tbl-two")._repr_html_() == (
        '<figure class="numbers" data-name="tbl-two">\n'
        "<figcaption>Two &amp; more</figcaption>\n"
        '<div class="scroll" tabindex="0" role="region" aria-label="Two &amp; more"><table>\n'
        "<thead>\n"
        '<tr><th scope="col"></th><th scope="col" class="number">ECE</th>'
        '<th scope="col" class="number">difference</th></tr>\n'
        "</thead>\n"
        "<tbody>\n"
        '<tr><th scope="row">a</th><td class="number">1.25</td><td class="number">−0.51 [−0.6, 0.1]</td></tr>\n'
        '<tr><th scope="row">b</th><td class="number">–</td><td class="number">ResNet-50</td></tr>\n'
        "</tbody>\n"
        "</table></div>\n"
        "</figure>"
    )


def test_a_small_table_is_this_text():
    assert repr(rendered.table(FRAME, "Two")).split("\n") == [
        "Two",
        "",
        "    ECE         difference",
        "a  1.25  −0.51 [−0.6, 0.1]",
        "b     –          ResNet-50",
    ]


def test_the_same_frame_gives_the_same_bytes_and_is_not_changed():
    before = FRAME.copy(deep=True)
    one, other = rendered.table(FRAME, "Two"), rendered.table(FRAME, "Two")
    assert repr(one) == repr(other) and one._repr_html_() == other._repr_html_()
    pd.testing.assert_frame_equal(FRAME, before)


@pytest.mark.parametrize("caption", ["", "Words"])
def test_without_a_name_there_is_no_name(caption):
    html = rendered.table(FRAME, caption)._repr_html_()
    assert "data-name" not in html and ("<figcaption>" in html) == bool(caption)


def test_a_name_needs_a_caption():
    with pytest.raises(ValueError, match="Expected `caption` to be a text, as the table has a name"):
        rendered.table(FRAME, name="tbl-two")


def test_all_that_a_table_shows_is_escaped():
    frame = pd.DataFrame({"<b>": ["<script>"]}, index=pd.Index(['"<i>"'], name="a & b"))
    html = rendered.table(frame, "x < 'y'", 'tbl-"')._repr_html_()
    assert not re.search(r"<(b|i|script)>", html) and 'data-name="tbl-&quot;"' in html
    assert Cells(html).tables == [[["a & b", "<b>"], ['"<i>"', "<script>"]]]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("-1", "−1"),
        ("-.5", "−.5"),
        ("a -0.5 b", "a −0.5 b"),
        ("[-0.5, -0.1]", "[−0.5, −0.1]"),
        ("1e-5", "1e-5"),
        ("ResNet-50", "ResNet-50"),
        ("3-5", "3-5"),
        ("2026-11-22", "2026-11-22"),
        ("--x", "--x"),
        ("well-known", "well-known"),
    ],
)
def test_only_minus_signs_are_minus_signs(text, shown):
    assert rendered.minus(text) == shown


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.005e3, "1005.00"), (-0.001, "0.00"), (-0.006, "−0.01"), (float("nan"), "–"), (None, "–"), (pd.NA, "–"),
        (3, "3"), (-3, "−3"), ("", ""), (True, "True"), (float("inf"), "inf"), (np.float32(0.5), "0.50"),
    ],
)  # fmt: skip
def test_a_value_is_this_text(value, text):
    frame = pd.DataFrame({"x": pd.Series([value], dtype=object)})
    assert rendered.table(frame).rows[0].cells[0].text == text


def test_digits_by_column():
    frame = pd.DataFrame({"ECE": [1.0], "NLL": [0.12345], "Brier": [0.5]})
    cells = rendered.table(frame, digits={"NLL": 4, "ECE": 1}).rows[0].cells
    assert [cell.text for cell in cells] == ["1.0", "0.1235", "0.50"]


@pytest.mark.parametrize(
    "texts",
    [["1.25", "10.5", "7"], ["(1.2)", "1.25", "[3]"], ["−1.5 %", "2", ""], ["none", "1.5"], ["+1.25", "−0.5", "–"]],
)
def test_decimal_points_stand_in_one_line(texts):
    """Counted from the right: behind the point, or where it would stand, all numbers are as wide."""
    behind = {
        len((text + pad).lstrip("([+−").lstrip("0123456789"))
        for text, pad in zip(texts, pads(texts), strict=True)
        if re.search(r"\d", text)
    }
    assert len(behind) == 1


def test_outer_labels_that_repeat_become_headings():
    index = pd.MultiIndex.from_product([["cifar10", "cifar100"], ["ece", "nll"]], names=["dataset", "metric"])
    shown = rendered.table(pd.DataFrame({"x": [1, 2, 3, 4]}, index=index), names=names.shown)
    rows = Cells(shown._repr_html_()).tables[0]
    assert [row[0] or row[1] for row in rows] == ["metric", "CIFAR-10", "ECE", "NLL", "CIFAR-100", "ECE", "NLL"]
    lines = ["metric  x", "CIFAR-10", "  ECE   1", "  NLL   2", "CIFAR-100", "  ECE   3", "  NLL   4"]
    assert repr(shown).split("\n") == lines


def test_outer_labels_that_do_not_repeat_are_part_of_the_label():
    index = pd.MultiIndex.from_tuples([("a", "x"), ("b", "x"), ("a", "y")], names=["one", "two"])
    shown = rendered.table(pd.DataFrame({"n": [1, 2, 3]}, index=index))
    assert shown.corner == "one, two" and [row.label for row in shown.rows] == ["a, x", "b, x", "a, y"]


def test_two_labels_of_columns_are_two_rows_of_heads():
    columns = pd.MultiIndex.from_tuples([("CE", "ECE"), ("CE", "NLL"), ("LS", "ECE")])
    shown = rendered.table(pd.DataFrame([[1.0, 2.0, 30.0]], index=["r"], columns=columns))
    html = shown._repr_html_()
    assert '<th colspan="2" scope="colgroup">CE</th><th colspan="1" scope="colgroup">LS</th>' in html
    assert '<th scope="col" rowspan="2"></th>' in html
    assert repr(shown).split("\n") == ["       CE        LS", "    ECE   NLL    ECE", "r  1.00  2.00  30.00"]


@pytest.mark.parametrize(("n", "wide"), [(3, False), (30, True)])
def test_a_table_wider_than_the_text_takes_the_whole_page(n, wide):
    html = rendered.table(pd.DataFrame([[1.0] * n]))._repr_html_()
    assert ('class="numbers full-width"' in html) == wide


def test_a_series_and_an_empty_frame_are_tables():
    assert repr(rendered.table(pd.Series({"a": 1.0}, name="x"))).split("\n") == ["      x", "a  1.00"]
    assert Cells(rendered.table(pd.DataFrame({"x": []}))._repr_html_()).tables == [[["", "x"]]]


# ------------------------------------------------------------------------------------------- printed beside ours
@pytest.fixture(scope="module")
def first():
    """Table 1 of MbLS: two networks of which ours stand in for one each."""
    return results.compare("mbls", "1")


def test_the_papers_method_comes_first(first):
    groups = list(dict.fromkeys(column.group for column in beside(first, "loss").columns))
    assert groups[:3] == ["MbLS", "MbLS, m = 0, weight = 0.05", "CE"]
    long = beside(first.query("dataset == 'cifar10' and model == 'resnet50' and metric == 'ece'"))
    assert long.rows[0].label == "MbLS"


@pytest.mark.parametrize("paper", results.rows.PAPERS)
def test_every_number_of_a_paper_is_shown_once_with_its_answer(paper):
    for _, compared in results.compare(paper).groupby("table"):
        shown = beside(compared)
        cells = [row.cells for row in (*shown.rows, *shown.folded)]
        printed = [
            f"{100 * float(text):.{len(text) - 4}f}" if unit == "fraction" else text
            for text, unit in zip(compared["printed"], compared["unit"], strict=True)
        ]
        assert sorted(row[0].text for row in cells) == sorted(printed)
        answers = results.answers(compared).replace("not run", "")
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
    assert row.cells[at["ours", "FL"]] == (f"({wanted['stand_in_value'].item():.2f})", results.answers(wanted).item())


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
    assert "<summary>4 rows that nobody ran here</summary>" in html and html.count("<details") == 1
    assert shown[1] and {"printed", "ours"} == set(map(str.strip, shown[1]))
    assert folded[0][1:] == ["MbLS", "MbLS, m = 0, weight = 0.05", "CE", "ECP", "LS", "FL", "FLSD"]
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


def test_each_answer_has_its_badge_and_the_line_below_explains_it():
    every = results.everything()
    found = results.answers(every)
    rows = every[every["paper"] == "class_temperature_scaling"].query("table == 'II'")
    html = beside(rows, "method")._repr_html_()
    in_table = set(found[rows.index]) - {"not run"}
    assert len(in_table) > 4
    key = re.search(r'<p class="key">(.*)</p>', html)[1]
    for answer in in_table:
        mark = MARKS[answer]
        assert re.search(
            rf'<span class="answer [a-z -]+" role="img" aria-label="{answer}" title="{answer}">{re.escape(mark)}<', html
        )
        assert f"{mark}</span> {answer}</span>" in key
    for answer in set(MARKS) - in_table:
        assert f"> {answer}</span>" not in key


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows[:0], "Expected `compared` to be rows of compare"),
        (lambda rows: pd.concat([rows, results.compare("acls", "1")]), "got 2 papers"),
        (lambda rows: pd.concat([rows, rows], ignore_index=True), "a cell of its own"),
    ],
)
def test_other_rows_are_refused(first, change, message):
    with pytest.raises(ValueError, match=message):
        beside(change(first), "loss")


def test_an_unknown_column_is_refused(first):
    with pytest.raises(ValueError, match="Expected `wide` to be one of"):
        beside(first, "colour")


def test_every_key_of_the_papers_has_a_name():
    rows = results.load("paper")
    for column in ("dataset", "model", "loss", "method", "metric"):
        same = [value for value in rows[column].unique() if names.shown(value) == value and value != "accuracy"]
        assert same in ([], ["entropy"], ["spline"], ["isotonic"]), (column, same)
