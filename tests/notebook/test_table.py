"""Tables of the book: HTML and text against what was written by hand, and against the frame that they show."""

import re

import numpy as np
import pandas as pd
import pytest
from html_cells import Cells
from refusals import refused

from book.kit.notebook import display_names, table
from book.kit.notebook.grid import pads

FRAME = pd.DataFrame({"ECE": [1.25, np.nan], "difference": ["-0.51 [-0.6, 0.1]", "ResNet-50"]}, index=["a", "b"])


def test_a_small_table_is_this_html():
    assert table.table(FRAME, "Two & more", "tbl-two")._repr_html_() == (
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


def test_a_name_needs_a_caption():
    assert "data-name" not in table.table(FRAME, "Words")._repr_html_()
    refused("`caption` to be a text, as the table has a name", table.table, FRAME, name="tbl-two")


def test_all_that_a_table_shows_is_escaped():
    frame = pd.DataFrame({"<b>": ["<script>"]}, index=pd.Index(['"<i>"'], name="a & b"))
    html = table.table(frame, "x < 'y'", 'tbl-"')._repr_html_()
    assert not re.search(r"<(b|i|script)>", html) and 'data-name="tbl-&quot;"' in html
    assert Cells(html).tables == [[["a & b", "<b>"], ['"<i>"', "<script>"]]]


def test_only_minus_signs_are_minus_signs():
    for text in ("-1", "-.5", "a -0.5 b", "[-0.5, -0.1]"):
        assert table.minus(text) == text.replace("-", "−")
    for text in ("1e-5", "ResNet-50", "3-5", "2026-11-22", "--x", "well-known"):
        assert table.minus(text) == text


def test_a_value_is_this_text():
    for value, text in (
        (1.005e3, "1005.00"), (-0.001, "0.00"), (-0.006, "−0.01"), (float("nan"), "–"), (None, "–"), (pd.NA, "–"),
        (-3, "−3"), ("", ""), (True, "True"), (float("inf"), "inf"), (np.float32(0.5), "0.50"),
    ):  # fmt: skip
        frame = pd.DataFrame({"x": pd.Series([value], dtype=object)})
        assert table.table(frame).rows[0].cells[0].text == text


def test_digits_by_column():
    frame = pd.DataFrame({"ECE": [1.0], "NLL": [0.12345], "Brier": [0.5]})
    cells = table.table(frame, digits={"NLL": 4, "ECE": 1}).rows[0].cells
    assert [cell.text for cell in cells] == ["1.0", "0.1235", "0.50"]


@pytest.mark.parametrize("texts", [["1.25", "10.5", "7"], ["(1.2)", "1.25", "[3]"], ["−1.5%", "2", "", "none"]])
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
    shown = table.table(pd.DataFrame({"x": [1, 2, 3, 4]}, index=index), names=display_names.shown)
    rows = Cells(shown._repr_html_()).tables[0]
    assert [row[0] or row[1] for row in rows] == ["metric", "CIFAR-10", "ECE", "NLL", "CIFAR-100", "ECE", "NLL"]
    lines = ["metric  x", "CIFAR-10", "  ECE   1", "  NLL   2", "CIFAR-100", "  ECE   3", "  NLL   4"]
    assert repr(shown).split("\n") == lines


def test_two_labels_of_columns_are_two_rows_of_heads():
    columns = pd.MultiIndex.from_tuples([("CE", "ECE"), ("CE", "NLL"), ("LS", "ECE")])
    shown = table.table(pd.DataFrame([[1.0, 2.0, 30.0]], index=["r"], columns=columns))
    html = shown._repr_html_()
    assert '<th colspan="2" scope="colgroup">CE</th><th colspan="1" scope="colgroup">LS</th>' in html
    assert '<th scope="col" rowspan="2"></th>' in html
    assert repr(shown).split("\n") == ["       CE        LS", "    ECE   NLL    ECE", "r  1.00  2.00  30.00"]


def test_a_table_wider_than_the_text_takes_the_whole_page():
    for n, wide in ((3, False), (30, True)):
        html = table.table(pd.DataFrame([[1.0] * n]))._repr_html_()
        assert ('class="numbers full-width"' in html) == wide


def test_a_series_and_an_empty_frame_are_tables():
    assert repr(table.table(pd.Series({"a": 1.0}, name="x"))).split("\n") == ["      x", "a  1.00"]
    assert Cells(table.table(pd.DataFrame({"x": []}))._repr_html_()).tables == [[["", "x"]]]
