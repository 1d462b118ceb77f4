"""What pages are made of: no script, no other file, light and dark."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from html import escape

from calibkit import plots
from calibkit._extras import needs
from calibkit.metrics.comparison import Estimate
from calibkit.reporting.summary import signed

with needs("plots"):
    from matplotlib.figure import Figure

STYLE = """
:root { color-scheme: light dark; --line: #d5d9de; --soft: #f3f5f7; --ink: #1d2329; --mark: #0072b2; --warn: #b34700; }
@media (prefers-color-scheme: dark) {
  :root { --line: #3a424b; --soft: #20262c; --ink: #e4e8ec; --mark: #56b4e9; --warn: #f0a050; }
  body { background: #14181c; }
}
body { color: var(--ink); font: 16px/1.55 system-ui, sans-serif; margin: 0 auto; max-width: 80rem; padding: 1.5rem; }
h1 { font-size: 1.6rem; line-height: 1.2; } h2 { font-size: 1.2rem; margin-top: 2.2rem; }
p { max-width: 46rem; } code, pre { font-family: ui-monospace, monospace; font-size: 0.9em; }
pre { background: var(--soft); overflow-wrap: anywhere; padding: 0.8rem 1rem; white-space: pre-wrap; }
.lead { font-size: 1.15rem; } code { overflow-wrap: anywhere; }
.box { border-left: 0.3rem solid var(--mark); background: var(--soft); padding: 0.2rem 1.2rem; }
.warn { border-color: var(--warn); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 0.92rem; }
caption { text-align: left; padding-bottom: 0.4rem; max-width: 46rem; }
th, td { border-bottom: 1px solid var(--line); padding: 0.25rem 0.45rem; text-align: right; white-space: nowrap; }
th:first-child, td:first-child, td.text { text-align: left; }
th { vertical-align: bottom; } th, td:first-child, td.text { white-space: normal; }
tr.taken { background: var(--soft); font-weight: 600; }
figure { margin: 1.2rem 0; } figure svg { background: #fff; height: auto; max-width: 100%; }
figcaption { max-width: 46rem; font-size: 0.92rem; }
@media (max-width: 60rem) {
  table, caption, tbody, tr, td, td.text { display: block; } thead { display: none; }
  td { border: 0; display: flex; gap: 1rem; justify-content: space-between; padding: 0 0.5rem; }
  td:empty { display: none; }
  td::before { content: attr(data-of); text-align: left; white-space: normal; }
  td:first-child, td.text { display: block; } td:first-child { font-weight: 600; }
  td:first-child::before, td.text::before { content: none; }
  tr { border-bottom: 1px solid var(--line); padding: 0.4rem 0; }
}
"""


def document(title: str, parts: Iterable[str]) -> str:
    """A whole page; title and parts are HTML."""
    body = "\n".join(parts)
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>'
    return f'<!doctype html>\n<html lang="en"><head>{head}<style>{STYLE}</style></head><body>\n{body}\n</body></html>\n'


def table(caption: str, head: Iterable[str], rows: Iterable[str]) -> str:
    """A table of rows that are HTML; on a phone each row is a list, where a cell has the name of its column."""
    names = tuple(head)
    cells = "".join(f'<th scope="col">{name}</th>' for name in names)
    body = "\n".join(_named(row, names) for row in rows)
    caption = f"<caption>{caption}</caption>"
    return f'<div class="wide"><table>{caption}<thead><tr>{cells}</tr></thead><tbody>\n{body}\n</tbody></table></div>'


def cells(parts: Iterable[str], kind: str = "") -> str:
    """A row of HTML."""
    return f"<tr{kind and f' class={kind}'}>" + "".join(f"<td>{cell}</td>" for cell in parts) + "</tr>"


def text(parts: Iterable[str]) -> str:
    """A row of text, which may be broken."""
    return "<tr>" + "".join(f'<td class="text">{escape(cell)}</td>' for cell in parts) + "</tr>"


def lacks(name: str, why: str, columns: int) -> str:
    """A row of text on what has no numbers for so many columns."""
    return f'<tr><td>{escape(name)}</td><td class="text" colspan="{columns}">{escape(why)}</td></tr>'


def _named(row: str, names: Sequence[str]) -> str:
    start, *cells = row.split("<td")
    return start + "".join(f'<td data-of="{escape(name)}"{cell}' for name, cell in zip(names, cells, strict=False))


def figure(draw: Callable[[Figure], object], size: tuple[float, float], caption: str, alt: str) -> str:
    """What ``draw`` draws, with its caption."""
    return f"<figure>{plots.svg(draw, size, alt)}<figcaption>{escape(caption)}</figcaption></figure>"


def change(x: Estimate, scale: float) -> str:
    """A difference with its interval, a true minus sign before what is below 0; nothing where it is not finite."""
    if not all(map(math.isfinite, x)):
        return ""
    return signed(Estimate(*(scale * part for part in x)), ".4f" if scale == 1 else ".2f")
