"""Results as tables for a page: text cells only, so that the same numbers give the same bytes."""

from __future__ import annotations

import pandas as pd

from calibkit._checks import expected

#: Beside a number of ours in a wide table; a printed number without ours stands alone.
MARKS = {"reproduced": "=", "partly": "~", "not reproduced": "x", "not run": ""}
_NAMES = ("paper", "table", "dataset", "model", "loss", "method", "metric", "n_bins", "unit")
_RUN = ("n_seeds", "budget", "source", "stand_in")


def table(compared: pd.DataFrame, wide: str | None = None) -> pd.DataFrame:
    """What ``compare`` gave, as a table to read.

    Args:
        compared: rows of ``compare``, or some of them.
        wide: a column (``"method"``, ``"loss"``, ``"metric"``) whose values become columns; a cell is then
            ``printed / ours`` and a mark, ``=`` reproduced, ``~`` partly, ``x`` not reproduced, that stays on the line
            of ours; the number of a stand-in is in parentheses. None: one row a number.

    Returns:
        DataFrame: of text. Columns in which all rows are the same are left out.

    Raises:
        ValueError: ``compared`` is empty, ``wide`` is not one of its columns, or two rows fall into one cell.
    """
    if compared.empty:
        raise expected("compared", "rows of compare()", "none")
    if wide is not None and wide not in compared.columns:
        raise expected("wide", f"one of {', '.join(compared.columns)}", repr(wide))
    text = compared.astype(str)
    names = [name for name in _NAMES if name in text and name != wide and text[name].nunique() > 1]
    if wide is None:
        ran = compared["ours"].notna()
        run = {name: text[name].where(ran, "") for name in _RUN if name in text and text[name][ran].nunique() > 1}
        cells = {"printed": compared["printed"], "ours": compared.apply(_ours, axis=1), **run}
        long = text[names].assign(**cells, verdict=compared["verdict"])
        return long.set_index(names) if names else long.reset_index(drop=True)
    rows: dict[tuple, dict[str, str]] = {}
    for key, column, cell in zip(
        text[names].itertuples(index=False), text[wide], compared.apply(_cell, axis=1), strict=True
    ):
        if column in rows.setdefault(tuple(key), {}):
            raise expected("compared", "rows of which each has a cell of its own", f"two for {column!r} in {key}")
        rows[tuple(key)][column] = cell
    index = pd.MultiIndex.from_tuples(rows, names=names) if names else None
    return pd.DataFrame(list(rows.values()), index=index).fillna("")


def _decimals(row: pd.Series) -> int:
    return len(row["printed"].partition(".")[2])


def _ours(row: pd.Series) -> str:
    if pd.isna(row["ours"]):
        return ""
    d = _decimals(row)
    return f"{row['ours']:.{d}f} [{row['low']:.{d}f}, {row['high']:.{d}f}]"


def _cell(row: pd.Series) -> str:
    if pd.isna(row["ours"]):
        return row["printed"]
    ours, mark = f"{row['ours']:.{_decimals(row)}f}", MARKS[row["verdict"]]
    return f"{row['printed']} / {f'({ours})' if row['stand_in'] else ours}" + (mark and f"\N{NO-BREAK SPACE}{mark}")
