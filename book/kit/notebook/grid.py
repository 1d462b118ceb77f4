"""What a table of the book is made of, before it is HTML or text."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple


class Column(NamedTuple):
    """A column: what stands over it, and over it and its neighbours."""

    head: str
    group: str = ""


class Cell(NamedTuple):
    """A cell: its text, the answer to a printed number, of which a badge is drawn, and what else the badge says."""

    text: str
    answer: str = ""
    hint: str = ""


class Row(NamedTuple):
    """A row: its label, its cells, and the heading that it and its neighbours stand under."""

    label: str
    cells: tuple[Cell, ...]
    group: str = ""


@dataclass(frozen=True)
class Grid:
    """Rows and columns with their heads."""

    corner: str  # head of the labels
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]  # what is seen
    folded: tuple[Row, ...] = ()  # behind a click
    caption: str = ""
    name: str = ""  # what ``{numref}`` calls it


def part(grid: Grid, rows: tuple[Row, ...]) -> Grid:
    """Some rows of a grid with the columns that they fill; what stands over every column alike is left out.

    Example:
        >>> columns = tuple(Column(head, group) for group in ("CE", "LS") for head in ("printed", "ours"))
        >>> row = Row("ECE", (Cell("5.85"), Cell(""), Cell("2.79"), Cell("")))
        >>> part(Grid("", columns, (row,)), (row,)).columns
        (Column(head='CE', group=''), Column(head='LS', group=''))
    """
    filled = [i for i in range(len(grid.columns)) if any(row.cells[i].text or row.cells[i].answer for row in rows)]
    columns = tuple(grid.columns[i] for i in filled)
    if all(column.group for column in columns) and len({column.head for column in columns}) == 1:
        columns = tuple(Column(column.group) for column in columns)
    kept = tuple(row._replace(cells=tuple(row.cells[i] for i in filled)) for row in rows)
    return replace(grid, columns=columns, rows=kept, folded=())
