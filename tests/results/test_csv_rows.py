"""Rows are appended whole or not at all, and a file that is none is refused by its name."""

import fcntl
import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from constructed_rows import MEASURED, measured_row
from refusals import refused

from book.kit.__main__ import main
from book.kit.results import COLUMNS, append, load
from book.kit.results.csv_rows import KEY
from calibkit import _folders

CTS = "class_temperature_scaling"
INFINITE = {"value": np.inf, "low": -np.inf, "high": np.nan}


def rows(*pairs, **columns) -> list[dict]:
    """One row a (method, value)."""
    return [measured_row(value) | {"method": method} | columns for method, value in pairs]


def stored() -> list[tuple]:
    frame = load("ours")
    return list(zip(frame["method"], frame["value"], frame["n_seeds"], strict=True))


def test_append_adds_replaces_and_sorts(book):
    assert append(rows(("identity", 0.05), (CTS, 0.01))) == 2
    assert append(rows((CTS, 0.01))) == 0
    assert append(rows((CTS, 0.02))) == 1
    assert append([]) == 0
    assert stored() == [(CTS, 0.02, 1), ("identity", 0.05, 1)]
    assert [path.name for path in book.iterdir() if path.name[0] != "."] == ["ours.csv"]


def test_cells_are_text_of_six_digits(book):
    numbers = {"value": 1 / 3, "low": 0.1, "high": np.float64(0.123456789), "std": float("nan")}
    append([MEASURED | numbers | {"note": "a, b", "commit": None}])
    line = (book / "ours.csv").read_text().splitlines()[1]
    assert (
        line == ',,cifar10,resnet50,cross_entropy,identity,ece,0.333333,0.1,0.123457,,fraction,15,1,paper,ours,,"a, b"'
    )


def test_rows_of_different_cells_stand_side_by_side(book):
    append(rows(("identity", 0.05)))
    for n, column in enumerate(KEY, 2):
        other = {"paper": "mbls", "budget": "reduced", "source": "published-logits", "n_bins": 25}.get(column, "other")
        assert append(rows(("identity", 0.05), **{column: other})) == 1
        assert len(load("ours")) == n
    assert append(rows(("identity", 0.05), std="0.5")) == 1
    assert len(load("ours")) == n


def test_a_number_that_comes_out_the_same_keeps_its_commit(book):
    """Whatever its note says: many stored ones say "10.42 %"."""
    append(rows(("identity", 0.05), ("ets", 0.02), commit="first", note="val ECE 10.42 %"))
    assert append(rows(("identity", 0.05), ("ets", 0.03), commit="later", note="val ECE 10.42%")) == 1
    kept = load("ours").set_index("method")["commit"]
    assert dict(kept) == {"identity": "first", "ets": "later"}


def test_more_seeds_are_kept(book):
    """A job that began when one seed was there does not undo one that saw two."""
    append(rows(("identity", 0.05), n_seeds=2))
    assert append(rows(("identity", 0.09), ("ets", 0.02))) == 1
    assert stored() == [("ets", 0.02, 1), ("identity", 0.05, 2)]
    assert append(rows(("identity", 0.06), n_seeds=2)) == 1
    assert append(rows(("identity", 0.07), n_seeds=10)) == 1  # ten is more than two
    assert stored()[1] == ("identity", 0.07, 10)


@pytest.mark.parametrize("change", [INFINITE, {"high": np.inf}])
def test_an_infinite_row_leaves_none(book, change):
    assert append(rows((CTS, 0.01), **change)) == 0 and stored() == []
    append(rows((CTS, 0.01), ("ets", 0.02)))
    assert append(rows((CTS, 0.01), n_seeds=2, **change)) == 0
    assert stored() == [("ets", 0.02, 1)]
    append(rows((CTS, 0.01), n_seeds=2))
    append(rows((CTS, 0.01), **change))  # of fewer seeds
    assert stored() == [(CTS, 0.01, 2), ("ets", 0.02, 1)]


def test_bad_row_changes_nothing(book):
    append(rows(("identity", 0.05)))
    before = (book / "ours.csv").read_bytes()
    bad = [
        ("value", {"value": float("nan")}),
        ("value", {"value": "high"}),
        ("low", {"low": 0.9}),
        ("low", {"low": None}),
        ("high", {"high": None}),
        ("std", {"std": "wide"}),
        ("budget", {"budget": "smoke"}),
        ("source", {"source": "printed"}),
        ("unit", {"unit": "percent"}),
        ("paper", {"paper": "guo"}),
        ("n_seeds", {"n_seeds": 0}),
        ("n_seeds", {"n_seeds": 1.5}),
        ("key", {"method": "CTS (ours)"}),
        ("key", {"loss": "Focal loss"}),
        ("columns", {"epochs": 3}),
        ("unit", INFINITE | {"unit": "percent"}),
        ("rows", {"method": "ets"}),  # the same key twice
    ]
    for name, change in bad:
        refused(f"`{name}` to be ", append, rows(("ets", 0.02)) + rows((CTS, 0.01), **change))
        assert (book / "ours.csv").read_bytes() == before


# ----------------------------------------------------------------------------------------------- several writers
def _append_one(args) -> int:
    folder, i = args
    _folders.stored = lambda: Path(folder)  # in a process of its own
    return append(rows((f"m{i}", 0.01)))


def test_concurrent_appends_lose_nothing(book):
    with ProcessPoolExecutor(2) as pool:
        assert sum(pool.map(_append_one, [(str(book), i) for i in range(12)])) == 12
    assert len(load("ours")) == 12


def test_writers_lock_one_regular_file(book, monkeypatch):
    """On NFS a lock of a folder holds on one machine only; and what is renamed cannot be what is locked."""
    locked = []
    flock = fcntl.flock

    def spy(handle, operation):
        if operation == fcntl.LOCK_EX:  # to wait for it; a temporary file is locked without
            locked.append(os.fstat(handle).st_ino)
        flock(handle, operation)

    monkeypatch.setattr(fcntl, "flock", spy)
    for i in range(2):
        append(rows((f"m{i}", 0.01)))
    assert len(locked) == 2
    (path,) = [path for path in book.iterdir() if path.stat().st_ino in locked]
    assert path.is_file() and path.name not in ("ours.csv", "paper.csv")
    with open(path) as handle:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # and it is free again


# ------------------------------------------------------------------------------------------- files, and where they lie
HEADER, LINE = ",".join(COLUMNS), ",,cifar10,resnet50,brier,ets,ece,0.1,0.1,0.2,,fraction,15,1,paper,ours,,"


def test_a_file_that_is_none_is_named(book):
    path = book / "ours.csv"
    bad = [
        ("", "Expected `columns` to be paper, table"),
        ("\n\n", "but got 0 in line 1"),
        (HEADER.replace("paper", "Paper", 1), "Expected `columns` to be paper, table"),
        (f"{HEADER}\n{LINE}\n{LINE[:-1]}\n", "Expected `rows` to be of 18 cells, but got 17 in line 3"),
        (f"{HEADER}\n{LINE}\n{LINE}\n", "Expected `rows` to be of different keys"),
        (f"{HEADER}\n{LINE.replace('0.2', 'inf')}\n", "Expected `high` to be a finite number"),
        (f'{HEADER}\n"{LINE}\n', "unexpected end of data"),
        ("\udcff\udcfe", "codec can't decode"),
    ]
    for text, message in bad:
        path.write_bytes(before := text.encode(errors="surrogateescape"))
        for use in (lambda: load("ours"), lambda: append(rows((CTS, 0.01)))):
            with pytest.raises(ValueError) as caught:
                use()
            assert str(caught.value).startswith(f"Expected `path` to be a file of results, but got '{path}': ")
            assert message in str(caught.value)
        assert path.read_bytes() == before


def test_absent_files(book):
    assert load("ours").empty and list(load("ours").columns) == [*COLUMNS, "printed"]
    with pytest.raises(FileNotFoundError, match="paper.csv"):
        load("paper")


def test_command_line_appends_files(book, tmp_path, capsys):
    append(rows((CTS, 0.01), ("ets", 0.02)))
    (book / "ours.csv").rename(tmp_path / "ours.csv")
    append(rows(("ets", 0.02)))
    assert main(["append", str(tmp_path / "ours.csv")]) == 0
    assert capsys.readouterr().out.endswith("ours.csv: 1 of 2 rows are new\n")
    assert len(load("ours")) == 2
    (tmp_path / "ours.csv").write_text("a,b\n1,2\n")
    assert main(["append", str(tmp_path / "ours.csv")]) == 1
    assert f"Expected `path` to be a file of results, but got '{tmp_path}/ours.csv'" in capsys.readouterr().err
