"""Results as tables for a page: text cells only, so that the same numbers give the same bytes."""

from __future__ import annotations

import pandas as pd

from calibkit._checks import expected
from calibkit.results.verdicts import BY_STAND_IN, answers

#: Beside a number of ours in a wide table; a printed number without ours stands alone.
MARKS = {
    "reproduced": "=",
    "same direction": "~",
    "not decided": "?",
    "opposite direction": "x",
    "not reproduced": "\N{NOT EQUAL TO}",
    "not run": "",
}
MARKS |= {"the same elsewhere": "=", "another elsewhere": "\N{NOT EQUAL TO}"}
MARKS |= {f"{word}, by a stand-in": MARKS[word] for word in BY_STAND_IN}
_NAMES = ("paper", "table", "dataset", "model", "loss", "method", "metric", "n_bins", "unit")
_RUN = ("n_seeds", "budget", "source", "stand_in")


def table(compared: pd.DataFrame, wide: str | None = None) -> pd.DataFrame:
    """What ``compare`` gave, as a table to read.

    Args:
        compared: rows of ``compare``, or some of them.
        wide: a column (``"method"``, ``"loss"``, ``"metric"``) whose values become columns; a cell is then
            ``printed / ours`` and a mark that stays on the line of ours: ``=`` reproduced, ``~`` same direction, ``?``
            not decided, ``x`` opposite direction, and a crossed ``=`` not reproduced. What others measured is in
            brackets, the number of a stand-in in parentheses. None: one row a number.

    Returns:
        DataFrame: of text. Columns in which all rows are the same are left out.

    Raises:
        ValueError: ``compared`` is empty, ``wide`` is not one of its columns, or two rows fall into one cell.
    """
    if compared.empty:
        raise expected("compared", "rows of compare()", "none")
    if wide is not None and wide not in compared.columns:
        raise expected("wide", f"one of {', '.join(compared.columns)}", repr(wide))
    text, verdicts = compared.astype(str), answers(compared)
    names = [name for name in _NAMES if name in text and name != wide and text[name].nunique() > 1]
    if wide is None:
        ran = verdicts != "not run"
        run = {name: text[name].where(ran, "") for name in _RUN if name in text and text[name][ran].nunique() > 1}
        cells = {"printed": compared["printed"], "ours": compared.apply(_ours, axis=1), **run}
        long = text[names].assign(**cells, verdict=verdicts)
        return long.set_index(names) if names else long.reset_index(drop=True)
    rows: dict[tuple, dict[str, str]] = {}
    for key, column, cell in zip(
        text[names].itertuples(index=False) if names else [()] * len(text),
        text[wide],
        compared.assign(answer=verdicts).apply(_cell, axis=1),
        strict=True,
    ):
        if column in rows.setdefault(tuple(key), {}):
            raise expected("compared", "rows of which each has a cell of its own", f"two for {column!r} in {key}")
        rows[tuple(key)][column] = cell
    index = pd.MultiIndex.from_tuples(rows, names=names) if names else None
    return pd.DataFrame(list(rows.values()), index=index, dtype=object).pipe(lambda f: f.where(f.notna(), ""))


def _decimals(row: pd.Series) -> int:
    return len(row["printed"].partition(".")[2])


def number_of_ours(row: pd.Series) -> str:
    """Ours, or what others measured in brackets, or that of a stand-in in parentheses; empty where there is none.

    Args:
        row: of ``compare``; its printed number says how many decimals.
    """
    for name, shown in (("ours", "{}"), ("elsewhere", "[{}]"), ("stand_in_value", "({})")):
        if not pd.isna(row[name]):
            return shown.format(f"{row[name]:.{_decimals(row)}f}")
    return ""


def _ours(row: pd.Series) -> str:
    if pd.isna(row["ours"]):
        return number_of_ours(row)
    d = _decimals(row)
    return f"{number_of_ours(row)} [{row['low']:.{d}f}, {row['high']:.{d}f}]"


def _cell(row: pd.Series) -> str:
    number, mark = number_of_ours(row), MARKS[row["answer"]]
    return f"{row['printed']} / {number}" + (mark and f"\N{NO-BREAK SPACE}{mark}") if number else row["printed"]
