"""Sphinx extension of the papers' claims: the box at the head of a chapter, the counts at its end, and all together.

``{brief} PAPER`` has what stands in the box, beside it the small picture of the paper, and below where it is found.
``{counts} PAPER`` says what became of its claims, on what that rests and what stands in for its networks, and draws the
bar of its printed numbers.
``{claimmatrix}`` draws every row of the ledger as a coloured square or circle, a line a paper.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

from docutils import nodes
from pybtex.database import parse_file

from book.kit.notebook.display_names import shown
from book.kit.sphinx.cached_results import answers, claims, unkept
from book.kit.sphinx.citations import NUMBERS
from book.kit.sphinx.directives import Computed, extension, html
from book.kit.sphinx.frontpage import bar, keys, legend
from book.papers import PAPERS, framed
from calibkit._checks import check_choice

BIBLIOGRAPHY = Path(__file__).resolve().parents[2] / "references.bib"
LINKS = {"doi": "article", "eprint": "preprint", "code": "authors' code"}
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


def outcome(paper: str) -> list[str]:
    """Two lines of Markdown: the verdicts of a paper's claims and of our questions, and what they rest on."""
    rows = claims()
    rows = rows[rows["paper"] == paper]
    asked = int(rows["claim"].str.startswith(ASKED).sum())
    ours = f" and {asked} question{'s' * (asked > 1)} of ours" if asked else ""
    return [
        f"**{len(rows) - asked} claims{ours}** in the {{doc}}`/book/ledger`: {_counted(rows['verdict'])}.",
        f"**Evidence** ({{ref}}`explained <sec-ledger-reading>`): {_counted(rows['strength'])}.",
    ]


def stand_ins(paper: str) -> list[str]:
    """A line of Markdown on what stands in for which network of a paper."""
    of: dict[str, list[str]] = {}
    for theirs, ours in PAPERS[paper].stand_ins.items():
        of.setdefault(ours, []).append(_network(theirs))
    said = "; ".join(f"{_network(ours)} for {' and '.join(theirs)}" for ours, theirs in of.items())
    return [f"**{{term}}`Stand-ins <stand-in>`**, of which only the direction counts: {said}."]


def _network(name: str) -> str:
    """A model, with its data where they are named, as a page shows it."""
    data, _, model = name.rpartition("/")
    return f"{shown(model)} ({shown(data)})" if data else shown(model)


def lost(paper: str) -> list[str]:
    """A line of Markdown on the answers that rest on trainings which are not stored; none where there are none."""
    n = unkept()[paper]
    return [f"**{n} answers** rest on {{ref}}`trainings whose logits are not kept <sec-gone>`."] if n else []


def links(text: str) -> str:
    """One line of Markdown: where the first publication that the text cites is found; ValueError if it cites none."""
    cited = re.search(r"\{cite:t\}`(\w+)`", text)
    if cited is None:
        raise ValueError(f"Expected `text` to cite the paper, but got {text!r}")
    fields = parse_file(BIBLIOGRAPHY).entries[cited[1]].fields
    before = {key: address for key, (address, _) in NUMBERS.items()}
    found = (f"[{word}]({before.get(key, '')}{fields[key]})" for key, word in LINKS.items() if key in fields)
    return "**Read** " + ", ".join(found) + "."


def _counted(values) -> str:
    return "; ".join(f"{number} \N{MULTIPLICATION SIGN} {value}" for value, number in values.value_counts().items())


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


class Brief(Computed):
    """``{brief} PAPER``."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        """The box."""
        paper = str(check_choice("paper", self.arguments[0], PAPERS))
        box = nodes.admonition("", nodes.title("", "In brief"), classes=["brief"])
        box += nodes.raw("", framed(*PAPERS[paper].picture), format="html")
        box += self.parse([*self.content, "", links("\n".join(self.content))])
        return [box]


class Counts(Computed):
    """``{counts} PAPER``."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Paragraphs, and the bar."""
        paper = str(check_choice("paper", self.arguments[0], PAPERS))
        lines = [part for line in (*outcome(paper), *stand_ins(paper), *lost(paper)) for part in (line, "")]
        counts = answers("paper").loc[paper]
        return [*self.parse(lines), nodes.raw("", bar(counts) + legend(counts), format="html")]


setup = extension(brief=Brief, counts=Counts, claimmatrix=html(matrix))
