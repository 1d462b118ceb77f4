"""Every table of the book: as HTML for a page, as aligned text everywhere else.

A cell of a notebook returns :func:`table` of a DataFrame, or :func:`book.kit.notebook.printed_vs_ours.beside` of the
numbers of a paper. With a caption and a name it is numbered on the page, and ``{numref}`NAME` `` refers to it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby

import numpy as np
import pandas as pd

from book.kit.notebook import grid, table_html
from book.kit.notebook.grid import Cell, Column, Grid, Row
from calibkit._checks import expected

#: Hyphens that are minus signs: before a digit, and behind nothing that they could join to it.
_MINUS = re.compile(r"(?<![\w.)\]-])-(?=\.?\d)")
MISSING = "\N{EN DASH}"


class Table(Grid):
    """A table to look at: a notebook shows its HTML, ``str`` gives aligned text."""

    def __repr__(self) -> str:
        """Aligned text."""
        return grid.text(self)

    def _repr_html_(self) -> str:
        return table_html.html(self)


def table(
    frame: pd.DataFrame | pd.Series,
    caption: str = "",
    name: str = "",
    *,
    digits: int | Mapping[str, int] = 2,
    names: Mapping[str, str] | Callable[[str], str] | None = None,
) -> Table:
    r"""A DataFrame as a table of the book.

    Numbers get ``digits`` decimals and real minus signs, also those inside text cells; NaN and None become a dash.
    Columns of numbers stand right-aligned on the decimal point. Where rows have several labels, the outer ones that
    repeat become headings. Columns with two labels have two rows of heads.

    Args:
        frame: numbers or text; it is not changed.
        caption: above the table, plain text; it gets a number on the page.
        name: what ``{numref}`` calls it, ``"tbl-mbls-1"``; ValueError where it has no caption.
        digits: decimals of floats; by (innermost) column, where they differ. Columns that are not named have 2.
        names: what is shown for a label of rows or columns: a mapping, or a function such as ``names.shown``.

    Example:
        >>> frame = pd.DataFrame({"ECE": [1.25, -10.5], "trained": ["once", "twice"]}, ["cross_entropy", "mbls"])
        >>> table(frame, "Two losses", names={"cross_entropy": "CE", "mbls": "MbLS"})
        Two losses
        <BLANKLINE>
                 ECE  trained
        CE      1.25  once
        MbLS  −10.50  twice
    """
    check_name(caption, name)
    frame = frame.to_frame() if isinstance(frame, pd.Series) else frame
    name_of = _naming(names)
    heads = _labels(frame.columns, name_of)
    columns = [Column(head, _joined(outer)) for *outer, head in heads]
    keys = [key[-1] if isinstance(key, tuple) else key for key in frame.columns]
    places = [digits if isinstance(digits, int) else digits.get(key, 2) for key in keys]
    cells = [[Cell(_text(value, n)) for value in frame.iloc[:, i].tolist()] for i, n in enumerate(places)]
    labels = _labels(frame.index, name_of)
    corner = tuple("" if part is None else name_of(str(part)) for part in frame.index.names)
    return made(corner, columns, labels, list(zip(*cells, strict=True)), caption=caption, name=name)


def made(
    corner: tuple[str, ...],
    columns: list[Column],
    labels: list[tuple[str, ...]],
    cells: list[tuple[Cell, ...]],
    fold: Callable[[tuple[Cell, ...]], bool] = lambda row: False,
    **words: str,
) -> Table:
    """A table whose rows have one or more labels each; those that ``fold`` names are behind a click.

    Outer labels become headings where, of the rows that follow each other, two or more share them on the average.
    """
    depth = max((len(label) for label in labels), default=1) - 1
    while depth and 2 * sum(1 for _ in groupby(label[:depth] for label in labels)) > len(labels):
        depth -= 1
    rows = [
        Row(_joined(label[depth:]), tuple(row), _joined(label[:depth]))
        for label, row in zip(labels, cells, strict=True)
    ]
    shown = tuple(row for row in rows if not fold(row.cells))
    folded = tuple(row for row in rows if fold(row.cells))
    return Table(_joined(corner[depth:]), tuple(columns), shown, folded, **words)


def check_name(caption: str, name: str) -> None:
    """A table with a name has a caption: without one it would have no number to refer to."""
    if name and not caption:
        raise expected("caption", "a text, as the table has a name", f"none for {name!r}")


def listed(names: Sequence[str], before: str = "") -> str:
    """In words: "a, b and c", with ``before`` in front; "none" of nothing.

    Example:
        >>> listed(["0", "2", "4"], "m = "), listed([])
        ('m = 0, 2 and 4', 'none')
    """
    *most, last = [*names] or ["none"]
    return before * bool(names) + " and ".join([", ".join(most), last] if most else [last])


def minus(text: str) -> str:
    """The text with real minus signs.

    Example:
        >>> minus("-0.51 [-0.6, 0.1], ResNet-50, 3-5")
        '−0.51 [−0.6, 0.1], ResNet-50, 3-5'
    """
    return _MINUS.sub("\N{MINUS SIGN}", text)


def unbroken(text: str) -> str:
    r"""The text with intervals that no line ends in.

    Example:
        >>> unbroken("-0.51 [-0.6, 0.1], ResNet-50").split(" ")
        ['-0.51', '[-0.6,\xa00.1],', 'ResNet-50']
    """
    return re.sub(r"(\[[^],]+,) ([^],]+\])", "\\1\N{NO-BREAK SPACE}\\2", text)


def _text(value: object, digits: int) -> str:
    if isinstance(value, (float, np.floating)):
        if pd.isna(value):
            return MISSING
        text = f"{value:.{digits}f}"
        return minus(text) if float(text) else f"{0:.{digits}f}"
    return MISSING if value is None or value is pd.NA or value is pd.NaT else minus(str(value))


def _naming(names: Mapping[str, str] | Callable[[str], str] | None) -> Callable[[str], str]:
    if callable(names):
        return names
    return lambda text: (names or {}).get(text, text)


def _labels(index: pd.Index, name_of: Callable[[str], str]) -> list[tuple[str, ...]]:
    """The parts of each label of rows or columns, as they are shown."""
    keys = [key if isinstance(key, tuple) else (key,) for key in index]
    return [tuple(minus(name_of(f"{x:g}" if isinstance(x, float) else str(x))) for x in key) for key in keys]


def _joined(parts: Sequence[str]) -> str:
    return ", ".join(part for part in parts if part)
