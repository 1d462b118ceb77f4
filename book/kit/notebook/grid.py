"""What a table of the book is made of, how its columns align, and the same as aligned text."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, replace
from itertools import groupby
from typing import NamedTuple

from book.kit.results.verdict_rule import Answer

_SYMBOLS = {
    Answer.REPRODUCED: "=",
    Answer.REPRODUCED_BY_THEIR_CODE: "\N{APPROACHES THE LIMIT}",
    Answer.SAME: "~",
    Answer.MIXED: "\N{PLUS-MINUS SIGN}",
    Answer.OPEN: "?",
    Answer.OPPOSITE: "\N{MULTIPLICATION SIGN}",
    Answer.NOT_REPRODUCED: "\N{NOT EQUAL TO}",
    Answer.NOT_RUN: "",
}
#: The symbols of answers, in the order in which a table explains them; where ours have none, that of the like of ours.
MARKS = {answer: _SYMBOLS.get(answer, _SYMBOLS[answer.like]) for answer in Answer}
_NUMBER = re.compile(r"([(\[]?[+\N{MINUS SIGN}]?\d[\d,]*)(\.\d+)?( ?%)?([)\]]?)")
_FIRST = re.compile(r"[(\[]?[+\N{MINUS SIGN}]?\d")


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


def badge(answer: str) -> str:
    """The symbol of an answer; empty where there is none."""
    return MARKS.get(answer, "")


def is_numeric(texts: list[str]) -> bool:
    """Whether a column aligns to the right: at least half of its cells begin with a number."""
    filled = [text for text in texts if len(text) > 1 or text.isalnum()]
    return 2 * sum(bool(_FIRST.match(text)) for text in filled) >= max(len(filled), 1)


def pads(texts: list[str]) -> list[str]:
    """What each cell of a column lacks behind its number, so that all decimal points stand in one line.

    Example:
        >>> pads(["1.25", "(10.5)", "7", "none"])
        [')', '0', '.00)', '']
    """
    found = [_NUMBER.fullmatch(text) for text in texts]
    numbers = [match for match in found if match]
    places = max((len(match[2] or "") for match in numbers), default=0)
    percent = next((match[3] for match in numbers if match[3]), "")
    bracket = next((match[4] for match in numbers if match[4]), "")
    out = []
    for match in found:
        if match is None:
            out.append("")
            continue
        lacking = (match[2] or ("." if places else "")).ljust(places, "0")[len(match[2] or "") :]
        out.append(lacking + ("" if match[3] else percent) + ("" if match[4] else bracket))
    return out


def width(text: str) -> int:
    """Characters that a line of text is wide: marks over or under a letter take none."""
    return sum(not unicodedata.combining(char) for char in text)


def text(table: Grid) -> str:
    """The table below its caption, what the badges mean, and the rows that are folded."""
    parts = [table.caption]
    if table.rows or not table.folded:
        parts += [_body(table), key(table)]
    if table.folded:
        parts += [folding(table.folded), _body(part(table, table.folded))]
    return "\n\n".join(filter(None, parts))


def _body(table: Grid) -> str:
    """Heads and rows."""
    columns = [_cells([row.cells[i] for row in table.rows], column) for i, column in enumerate(table.columns)]
    labels = [f"{'  ' if row.group else ''}{row.label}" for row in table.rows]
    first = max(map(width, [table.corner, *labels]), default=0)
    lines = _over(table.columns, first, [width(cells[0]) for cells in columns])
    lines.append("  ".join([table.corner.ljust(first), *(cells[0] for cells in columns)]))
    for group, members in groupby(enumerate(table.rows), key=lambda pair: pair[1].group):
        lines += [group] if group else []
        for at, _ in members:
            lines.append("  ".join([labels[at].ljust(first), *(cells[at + 1] for cells in columns)]))
    return "\n".join(line.rstrip() for line in lines)


def _cells(cells: list[Cell], column: Column) -> list[str]:
    """The head and the cells of a column, all of one width."""
    texts = [cell.text for cell in cells]
    marks = [badge(cell.answer) for cell in cells]
    tail = 2 * any(marks)
    out = [text + " " * len(pad) for text, pad in zip(texts, pads(texts), strict=True)]
    wide = max([width(column.head), *map(width, out)])
    if not is_numeric(texts):
        return [cell.ljust(wide + tail) for cell in (column.head, *out)]
    return [
        cell.rjust(wide) + (f" {mark}".ljust(tail) if tail else "")
        for cell, mark in zip((column.head, *out), ("", *marks), strict=True)
    ]


def _over(columns: tuple[Column, ...], first: int, widths: list[int]) -> list[str]:
    """The line of heads that span several columns, if there are any."""
    if not any(column.group for column in columns):
        return []
    spans = []
    for group, members in groupby(zip(columns, widths, strict=True), key=lambda pair: pair[0].group):
        inner = [n for _, n in members]
        spans.append(group.center(sum(inner) + 2 * (len(inner) - 1)))
    return ["  ".join([" " * first, *spans])]


def folding(rows: tuple[Row, ...]) -> str:
    """What is said of the rows that are folded away."""
    return f"{len(rows)} rows that nobody ran here" if len(rows) > 1 else "1 row that nobody ran here"


def answers_of(table: Grid) -> list[Answer]:
    """The answers that the table shows, by falling weight."""
    found = {cell.answer for row in table.rows for cell in row.cells if cell.answer}
    return [answer for answer in MARKS if answer in found]


def notes(table: Grid) -> list[str]:
    """What brackets around a number mean."""
    texts = [
        cell.text for row in table.rows for cell in row.cells if any(column.head == "ours" for column in table.columns)
    ]
    round_ = any(text.startswith("(") for text in texts)
    square = any(text.startswith("[") for text in texts)
    return ["(…) a stand-in of ours"] * round_ + ["[…] measured by others"] * square


def key(table: Grid) -> str:
    """One line that says what the badges and brackets mean."""
    found = list(dict.fromkeys((badge(answer), answer.word) for answer in answers_of(table)))
    return "; ".join([*(f"{mark} {words}" for mark, words in found), *notes(table)])
