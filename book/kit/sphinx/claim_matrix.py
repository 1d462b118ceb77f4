"""Sphinx extension: ``{claimmatrix}`` draws every row of the ledger as a coloured square or circle, a line a paper."""

from __future__ import annotations

from html import escape

from book.kit.sphinx.cached_results import claims
from book.kit.sphinx.directives import extension, html
from book.kit.sphinx.frontpage import keys
from book.papers import PAPERS

#: How a row begins that asks what its paper does not claim; it is a circle.
ASKED = "Our question:"
#: A verdict -> the class of its square in the style sheet.
STYLES = {
    "holds": "reproduced",
    "holds in part": "same-direction",
    "ECE undecided, likelihood agrees": "not-decided agrees",
    "holds in ECE, likelihood against": "mixed",
    "not decided": "not-decided",
    "ECE undecided, likelihood against": "not-decided objects",
    "fails in ECE, likelihood agrees": "opposite-direction agrees",
    "does not hold": "opposite-direction",
    "not run here": "absent",
}


def matrix() -> str:
    """The squares, each with its claim and verdict as its name and a link to its row, and what the colours mean."""
    rows, lines = claims(), []
    for name, paper in PAPERS.items():
        squares = ""
        for row in rows[rows["paper"] == name].itertuples():
            said = escape(f"{row.id}: {row.claim}: {row.verdict}")
            asked = " asked" * row.claim.startswith(ASKED)
            squares += f'<a class="{STYLES[row.verdict]}{asked}" href="#{row.id}" title="{said}"></a>'
        lines.append(f'<p class="claims"><b>{paper.short}</b> <span>{squares}</span></p>')
    found = {*rows["verdict"]}
    meanings = keys((style, verdict) for verdict, style in STYLES.items() if verdict in found)
    return f'<div class="claims">{"".join(lines)}{meanings}</div>'


setup = extension(claimmatrix=html(matrix))
