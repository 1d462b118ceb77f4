"""A table of the book as HTML: what ``book.css`` styles and the extension of the book numbers."""

from __future__ import annotations

from html import escape
from itertools import groupby

from book.kit.notebook.grid import Cell, Column, Grid, answers_of, badge, folding, is_numeric, notes, pads, part
from book.kit.results.verdict_rule import Answer

#: Pixels of a column of text, and of a digit and the space between columns, by which a table takes the whole page.
_TEXT, _DIGIT, _SPACE, _BADGE = 700, 8, 13, 18


def html(table: Grid) -> str:
    """A figure: caption, the table in a box that scrolls, folded rows, and what the badges mean.

    Example:
        >>> from book.kit.notebook.grid import Cell, Column, Row
        >>> print(html(Grid("", (Column("ECE"),), (Row("CE", (Cell("1.2"),)),), caption="One <loss>", name="tbl-one")))
        <figure class="numbers" data-name="tbl-one">
        <figcaption>One &lt;loss&gt;</figcaption>
        <div class="scroll" tabindex="0" role="region" aria-label="One &lt;loss&gt;"><table>
        <thead>
        <tr><th scope="col"></th><th scope="col" class="number">ECE</th></tr>
        </thead>
        <tbody>
        <tr><th scope="row">CE</th><td class="number">1.2</td></tr>
        </tbody>
        </table></div>
        </figure>
    """
    parts = [f"<figcaption>{escape(table.caption)}</figcaption>"] if table.caption else []
    if table.rows or not table.folded:
        parts.append(_box(table, table.caption or "table"))
    parts += [f'<p class="key">{key}</p>'] if (key := _key(table)) else []
    if table.folded:
        words = folding(table.folded)
        box = _box(part(table, table.folded), words)
        parts.append(f'<details class="folded"><summary>{words}</summary>\n{box}\n</details>')
    style = "numbers full-width" if _pixels(table) > _TEXT else "numbers"
    name = f' data-name="{escape(table.name)}"' if table.name else ""
    return f'<figure class="{style}"{name}>\n' + "\n".join(parts) + "\n</figure>"


def _columns(table: Grid) -> list[list[Cell]]:
    return [[row.cells[i] for row in table.rows] for i in range(len(table.columns))]


def _box(table: Grid, label: str) -> str:
    """The table in a box that can be scrolled, by keys too."""
    columns, lines = [_column(cells, i in _starts(table)) for i, cells in enumerate(_columns(table))], []
    for group, members in groupby(enumerate(table.rows), key=lambda pair: pair[1].group):
        lines.append("<tbody>")
        if group:
            head = f'<th colspan="{len(columns) + 1}" scope="rowgroup"><span>{escape(group)}</span></th>'
            lines.append(f'<tr class="group">{head}</tr>')
        for at, row in members:
            cells = "".join(column[at] for column in columns)
            lines.append(f'<tr><th scope="row">{escape(row.label)}</th>{cells}</tr>')
        lines.append("</tbody>")
    start = f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(label)}"><table>\n<thead>\n'
    return start + _heads(table) + "\n</thead>\n" + "\n".join(lines) + "\n</table></div>"


def _heads(table: Grid) -> str:
    """One row of heads, or two where columns share one."""
    two = any(column.group for column in table.columns)
    over, under, columns, starts = [], [], _columns(table), _starts(table)
    down = ' rowspan="2"' if two else ""
    for group, members in groupby(enumerate(table.columns), key=lambda pair: pair[1].group):
        inner = [_head(column, columns[i], i in starts, "" if group else down) for i, column in members]
        if group:
            over.append(f'<th colspan="{len(inner)}" scope="colgroup">{escape(group)}</th>')
            under += inner
        else:
            over += inner
    first = f'<tr><th scope="col"{down}>{escape(table.corner)}</th>{"".join(over)}</tr>'
    return first + (f"\n<tr>{''.join(under)}</tr>" if two else "")


def _starts(table: Grid) -> set[int]:
    """The columns with which a group begins that has another column before it."""
    groups = [column.group for column in table.columns]
    return {i for i in range(1, len(groups)) if groups[i] != groups[i - 1]}


def _style(texts: list[str], starts: bool) -> str:
    names = ["number"] * is_numeric(texts) + ["starts"] * starts
    return f' class="{" ".join(names)}"' if names else ""


def _head(column: Column, cells: list[Cell], starts: bool, down: str) -> str:
    style = _style([cell.text for cell in cells], starts)
    room = '<span class="answer"></span>' if any(cell.answer for cell in cells) else ""
    return f'<th scope="col"{down}{style}>{escape(column.head)}{room}</th>'


def _column(cells: list[Cell], starts: bool) -> list[str]:
    """The cells of a column; what a number lacks behind it to stand in line is an attribute, no text."""
    texts = [cell.text for cell in cells]
    style = _style(texts, starts)
    marked = any(cell.answer for cell in cells)
    drawn = []
    for cell, pad in zip(cells, pads(texts), strict=True):
        text = f'<span data-pad="{pad}">{escape(cell.text)}</span>' if pad and "number" in style else escape(cell.text)
        drawn.append(f"<td{style}>{text}{_badge(cell.answer, cell.hint) if marked else ''}</td>")
    return drawn


def _badge(answer: str, hint: str = "") -> str:
    if not badge(answer):
        return '<span class="answer"></span>'
    said = f"{answer}; {hint}" if hint else answer
    return f' <span class="answer {style_of(answer)}" role="img" title="{said}">{badge(answer)}</span>'


def style_of(answer: str) -> str:
    """The classes of an answer's badge.

    Example:
        >>> style_of("same direction, by a stand-in"), style_of("the same elsewhere")
        ('same-direction other', 'reproduced other')
    """
    like = Answer(answer).like
    return like.replace(" ", "-") + ("" if like == answer else " other")


def _key(table: Grid) -> str:
    """One line that says what the badges and brackets mean."""
    found = [f"{_badge(answer).strip()} {answer}" for answer in answers_of(table)]
    return " ".join(f"<span>{part}</span>" for part in [*found, *map(escape, notes(table))])


def _pixels(table: Grid) -> int:
    """About how wide the table is."""
    labels = [table.corner, *(row.label for row in table.rows)]
    total = _DIGIT * max(map(len, labels)) + _SPACE
    for column, cells in zip(table.columns, _columns(table), strict=True):
        longest = max([*column.head.split(), *(cell.text for cell in cells)], key=len, default="")
        total += _DIGIT * len(longest) + _SPACE + _BADGE * any(cell.answer for cell in cells)
    return total
