"""Numbers that a page shows and does not compute: those of data that cannot be committed, and times.

Some cells need logits that others published, or images. What they measure is stored with the book, one file a chapter,
``book/results/chapters/<chapter>.csv``, one number a row: the table, its row and column, the value. So a page reads
the same on every machine, and a machine that has the data checks it. Times are another's on every machine: they are
measured by a benchmark and never checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from book.kit.results.csv_rows import check_columns, locked
from calibkit import _folders
from calibkit._checks import check_real, expected
from calibkit._files import write_atomic

COLUMNS = ("table", "row", "column", "value")
DIGITS = 6  # significant ones that are stored


def recorded(
    name: str, compute: Callable[[], pd.DataFrame], *, available: bool, tolerance: float | Mapping[str, float] = 0.005
) -> pd.DataFrame:
    """The stored table, held against ``compute()`` where its data are available.

    The stored numbers are returned either way, so that what is shown does not depend on the machine. For the same
    reason ``compute`` may not depend on parameters of the notebook. A table that is not stored yet is computed and
    stored, also where several processes write to one chapter: delete its rows to measure it anew.

    Args:
        name: ``"<chapter>/<table>"``.
        compute: measures the table: finite numbers, rows and columns named by text; ValueError of others.
        available: whether the data are there that it needs; ValueError where they are not, and nothing is stored.
        tolerance: how far a number may lie from the stored one, in its own unit, before ValueError tells of it; one for
            all, or one a row. Default: half a unit of the second decimal.
    """
    chapter, _, table = name.partition("/")
    if not (chapter.isidentifier() and table.isidentifier()):
        raise expected("name", "<chapter>/<table>", repr(name))
    for width in tolerance.values() if isinstance(tolerance, Mapping) else [tolerance]:
        check_real("tolerance", width, 0.0)
    path = _folders.stored() / "chapters" / f"{chapter}.csv"
    stored = _read(path, table)
    if stored is None and not available:
        raise expected("name", f"a table that {path.name} holds, as its data are not here", repr(name))
    if not available:
        return stored
    measured = compute().astype(float)
    if not np.isfinite(measured.to_numpy()).all():
        raise expected("compute", "a table of finite numbers", measured.to_dict("index"))
    if stored is None:
        stored = _stored_now(path, table, measured)
    _check(name, measured, stored, tolerance)
    return stored


def fit_seconds() -> pd.DataFrame:
    """What ``benchmarks/calibrators.py`` stored: the seconds of one fit, as text, keys of methods by shapes.

    A fit that was given up has a text such as "over 50".
    """
    return pd.read_csv(_folders.stored() / "fits.csv", index_col="method", dtype=str)


def by_epoch(dataset: str) -> pd.DataFrame:
    """What ``benchmarks/epochs.py`` stored of the networks of a data set: the test set after each of some epochs.

    Example:
        >>> list(by_epoch("20newsgroups_random"))[-4:]
        ['nll', 'ece_scaled', 'nll_scaled', 'temperature']
    """
    rows = pd.read_csv(_folders.stored() / "epochs.csv")
    return rows[rows["dataset"] == dataset]


def _check(name: str, measured: pd.DataFrame, stored: pd.DataFrame, tolerance: float | Mapping[str, float]) -> None:
    """The first number that is not the stored one raises."""
    want, got = ([*table.index, *table.columns] for table in (stored, measured))
    if want != got:
        raise expected(name, f"a table of {want}, as it is stored", got)
    if isinstance(tolerance, Mapping) and set(tolerance) != set(stored.index):
        raise expected("tolerance", f"one a row, of {[*stored.index]}", [*tolerance])
    widths = pd.Series(tolerance, index=stored.index, dtype=float)
    allowed = (stored.abs() * 10.0 ** (1 - DIGITS)).add(widths, axis=0)  # the file rounds
    for row, column in np.argwhere(((measured - stored).abs() > allowed).to_numpy()):
        cell = f"{name}, {stored.index[row]}, {stored.columns[column]}"
        want, got = stored.iloc[row, column], measured.iloc[row, column]
        raise expected(cell, f"within {widths.iloc[row]:g} of the stored {want:g}", f"{got:g}")


def _read(path: Path, table: str) -> pd.DataFrame | None:
    """One table of a chapter, its rows and columns in the order of the file; None if it is not there."""
    if not path.exists():
        return None
    rows = pd.read_csv(path, dtype={"table": str, "row": str, "column": str, "value": float}, keep_default_na=False)
    check_columns(rows, COLUMNS)
    rows = rows[rows["table"] == table]
    if rows.empty:
        return None
    wide = rows.pivot(index="row", columns="column", values="value")
    return wide.loc[rows["row"].unique(), rows["column"].unique()].rename_axis(index=None, columns=None)


def _stored_now(path: Path, table: str, measured: pd.DataFrame) -> pd.DataFrame:
    """The table as the file has it: just added, or by another process meanwhile."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(path.with_name(f".{path.name}.lock")):
        if _read(path, table) is None:
            cells = [(table, row, column, measured.loc[row, column]) for row in measured.index for column in measured]
            before = path.read_bytes() if path.exists() else ",".join(COLUMNS).encode() + b"\n"
            form = {"index": False, "header": False, "float_format": f"%.{DIGITS}g", "lineterminator": "\n"}
            text = pd.DataFrame(cells).to_csv(**form)
            write_atomic(path, lambda stream: stream.write(before + text.encode()))
        return _read(path, table)
