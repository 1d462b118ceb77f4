"""Sphinx extension: the box at the head of a chapter, and its numbers from the results.

``{brief} PAPER`` has what stands in it, the paper's small picture beside it, and below it what became of the paper's
claims, on what that rests, and the bar of its printed numbers.
"""

from __future__ import annotations

from docutils import nodes
from docutils.statemachine import StringList
from frontpage import bar
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from thumbnails import PICTURES, thumbnail

from calibkit import results
from calibkit._checks import check_choice

WORDS = {"none": "none yet", "digits": "small networks on digits", "reduced": "reduced budget", "toy": "toy example"}


def outcome(paper: str) -> list[str]:
    """Two lines of Markdown: the verdicts of a paper's claims, and what they rest on."""
    rows = results.ledger()
    rows = rows[rows["paper"] == paper]
    return [
        f"**{len(rows)} claims** in the {{doc}}`/book/ledger`: {_counted(rows['verdict'])}.",
        f"**Evidence for them**: {_counted(rows['strength'].replace(WORDS))}.",
    ]


def _counted(values) -> str:
    return "; ".join(f"{number} \N{MULTIPLICATION SIGN} {value}" for value, number in values.value_counts().items())


class Brief(SphinxDirective):
    """``{brief} PAPER``."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        """The box."""
        paper = str(check_choice("paper", self.arguments[0], PICTURES))
        box = nodes.admonition("", nodes.title("", "In brief"), classes=["brief"])
        box += nodes.raw("", thumbnail(paper), format="html")
        lines = [*self.content, *(part for line in outcome(paper) for part in ("", line))]
        self.state.nested_parse(StringList(lines, self.name), self.content_offset, box)
        box += nodes.raw("", bar(results.summary(by=("paper",)).loc[paper]), format="html")
        return [box]


def setup(app: Sphinx) -> dict:
    """Register the directive."""
    app.add_directive("brief", Brief)
    return {"parallel_read_safe": True}
