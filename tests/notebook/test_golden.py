"""Recorded tables: the stored numbers are shown, and held against the data where these are."""

import csv
import re
import threading
from pathlib import Path

import pandas as pd
import pytest
from refusals import refused

from book.kit.notebook import golden as module
from book.kit.notebook.golden import fit_seconds, recorded
from calibkit.reporting.catalogue import NEEDS

ROOT = Path(__file__).resolve().parents[2]
TABLE = pd.DataFrame({"ECE, %": [0.946324, 6.09883], "T": [2.88256, 3.08996]}, index=["CIFAR-10", "CIFAR10-LT, tail"])
STORED = """\
table,row,column,value
stop,CIFAR-10,"ECE, %",0.946324
stop,CIFAR-10,T,2.88256
stop,"CIFAR10-LT, tail","ECE, %",6.09883
stop,"CIFAR10-LT, tail",T,3.08996
"""


def never():
    raise AssertionError("the data are not here")


@pytest.fixture
def path(own_results):
    """Where the tables of a chapter ``page`` are stored."""
    return own_results / "chapters" / "page.csv"


@pytest.fixture
def stored(path):
    """The same, with the table ``page/stop``."""
    path.parent.mkdir()
    path.write_text(STORED)
    return path


def test_with_the_data_the_stored_numbers_come_back(stored):
    nearby = TABLE + 0.004
    found = recorded("page/stop", lambda: nearby, available=True, tolerance=0.005)
    pd.testing.assert_frame_equal(found, TABLE)
    assert stored.read_text() == STORED


@pytest.mark.parametrize("sign", [1, -1])
def test_another_number_is_refused_and_named(stored, sign):
    other = TABLE.copy()
    other.loc["CIFAR10-LT, tail", "T"] += sign * 0.006
    message = "Expected `page/stop, CIFAR10-LT, tail, T` to be within 0.005 of the stored 3.08996, but got"
    with pytest.raises(ValueError, match=re.escape(message)):
        recorded("page/stop", lambda: other, available=True)
    assert stored.read_text() == STORED


def test_each_row_may_have_a_tolerance_of_its_own(stored):
    other = TABLE.copy()
    other.loc["CIFAR10-LT, tail", "T"] += 0.1
    here, tolerance = {"available": True}, {"CIFAR-10": 0.0, "CIFAR10-LT, tail": 0.2}
    recorded("page/stop", lambda: other, tolerance=tolerance, **here)
    with pytest.raises(ValueError, match="within 0.05 of the stored 3.08996"):
        recorded("page/stop", lambda: other, tolerance=tolerance | {"CIFAR10-LT, tail": 0.05}, **here)
    refused("`tolerance` to be one a row", recorded, "page/stop", lambda: TABLE, tolerance={"CIFAR-10": 0.1}, **here)


@pytest.mark.parametrize(
    ("name", "table", "available", "message"),
    [
        ("page/stop", TABLE.iloc[::-1], True, "`page/stop` to be a table of"),
        ("page/stop", TABLE[["T"]], True, "`page/stop` to be a table of"),
        ("page/new", TABLE * float("inf"), True, "`compute` to be a table of finite numbers"),
        ("page/absent", TABLE, False, "`name` to be .* as its data are not here, but got 'page/absent'"),
        ("../page/stop", TABLE, False, "`name` to be <chapter>/<table>"),
    ],
)
def test_what_cannot_be_stored_or_found_is_refused(stored, name, table, available, message):
    refused(message, recorded, name, lambda: table, available=available)
    assert stored.read_text() == STORED


def test_another_file_and_a_tolerance_that_is_no_number_are_refused(stored):
    with pytest.raises(ValueError, match="Expected `tolerance` to be a number"):
        recorded("page/stop", never, available=False, tolerance={"CIFAR-10": float("nan")})
    stored.write_text("table,row,value\nstop,a,1\n")
    refused("`columns` to be table, row, column, value", recorded, "page/stop", never, available=False)


def test_the_rounding_of_the_file_is_no_difference(path):
    exact = pd.DataFrame({"n": [123456.789, 1 / 3]}, index=["large", "small"])
    for _ in range(2):
        found = recorded("page/n", lambda: exact, available=True, tolerance=0.0)
    assert found["n"].tolist() == [123457.0, 0.333333]


def test_a_new_table_is_measured_and_stored_behind_the_others(path):
    recorded("page/stop", lambda: TABLE, available=True)
    assert path.read_text() == STORED
    recorded("page/more", lambda: TABLE * 2, available=True)
    assert path.read_text().startswith(STORED)
    for name, table in (("page/stop", TABLE), ("page/more", TABLE * 2)):
        pd.testing.assert_frame_equal(recorded(name, never, available=False), table)


def test_two_that_write_one_chapter_lose_nothing(path, monkeypatch):
    """The second begins while the first is about to replace the file, which it does after half a second at most."""
    other = threading.Thread(target=lambda: recorded("page/more", lambda: TABLE * 2, available=True))
    write = module.write_atomic

    def late(*args):
        monkeypatch.setattr(module, "write_atomic", write)
        other.start()
        other.join(0.5)
        return write(*args)

    monkeypatch.setattr(module, "write_atomic", late)
    recorded("page/stop", lambda: TABLE, available=True)
    other.join()
    for name, table in (("page/stop", TABLE), ("page/more", TABLE * 2)):
        pd.testing.assert_frame_equal(recorded(name, never, available=False), table)


def test_two_that_measure_one_table_store_it_once(path):
    """The second finds it stored when it has measured it, and is held against that."""

    def measured(table):
        recorded("page/stop", lambda: TABLE, available=True)
        return table

    found = recorded("page/stop", lambda: measured(TABLE + 0.001), available=True)
    pd.testing.assert_frame_equal(found, TABLE)
    assert path.read_text() == STORED
    path.unlink()
    refused(".*within 0.005 of the stored", recorded, "page/stop", lambda: measured(TABLE + 1), available=True)
    assert path.read_text() == STORED


def test_what_chapters_ask_for_is_stored_and_nothing_else():
    asked = {
        name
        for source in (ROOT / "notebooks").glob("*.py")
        for name in re.findall(r"recorded(?:_pairs)?\(\s*\"(.*?)\"", source.read_text())
    }
    stored = {
        f"{path.stem}/{row['table']}"
        for path in (ROOT / "book" / "results" / "chapters").glob("*.csv")
        for row in csv.DictReader(path.read_text().splitlines())
    }
    assert asked == stored and "class_loss_scaling/guo" in asked


def test_every_calibrator_on_logits_has_its_times():
    stored = fit_seconds()
    assert set(stored.index) == {"temperature_scaling:ece", *NEEDS} - {"identity"}
    assert stored.notna().all(axis=None)
