"""Sphinx extension: a table that a cell of a notebook returns is numbered with all the other tables.

What ``book.kit.notebook.table`` makes is HTML with a caption and a name. Here that HTML becomes a node that Sphinx
counts, so that "Table 7.3" stands before the caption and ``{numref}`NAME` `` refers to it.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.writers.html5 import HTML5Translator

from book.kit.sphinx.directives import parents

START, CAPTION = '<figure class="numbers', "figcaption"  # of what is numbered, if it has a caption
FULL = "full-width"  # the class of a table that takes the whole page
WHOLE = {False: 16, True: 12}  # letters of a label that is not broken; fewer where the numbers take all the room
ZEROS = re.compile(r"[+−](0\.0+) \[[+−]\1,(\s)[+−]\1\]")
APOSTROPHE = re.compile(r"(?<=[a-z])'(?=s\b)|(?<=s)'(?=\s)")  # as the text around a table has it


class NumberedTable(nodes.General, nodes.Element):
    """A table of a notebook: ``caption``, ``style``, and inside it the HTML below the caption."""


class NumberedTables(SphinxTransform):
    """Put nodes that Sphinx can count in the place of tables that are HTML."""

    default_priority = 400

    def apply(self, **options: object) -> None:
        """Change the document."""
        for raw in list(self.document.findall(nodes.raw)):
            if not raw.astext().startswith(START) or f"<{CAPTION}>" not in raw.astext():
                continue
            node = made(ElementTree.fromstring(raw.astext()))
            _output_of(raw).replace_self(node)
            if node["names"]:
                self.document.note_explicit_target(node)
            else:
                self.document.set_id(node)


def made(figure: ElementTree.Element) -> NumberedTable:
    """The node of a table."""
    caption, *body = figure
    whole = WHOLE[FULL in figure.get("class", "").split()]
    for table in figure.iter("table"):  # letters of its longest label, half of which fit on a line
        heads = table.findall(".//th[@scope='row']")
        table.set("style", f"--label: {max((len(head.text or '') for head in heads), default=0)}")
        for head in heads:
            if len(head.text or "") <= whole:
                head.set("class", "whole")
        for head in table.iter("th"):
            head.text = head.text and head.text.replace(" = ", "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}")
        for cell in [*table.iter("td"), *table.iterfind(".//td/span")]:
            cell.text = cell.text and unsigned(cell.text)
    node = NumberedTable(caption=curled(caption.text), style=figure.get("class"))
    node["names"] = [nodes.fully_normalize_name(name)] if (name := figure.get("data-name")) else []
    text = "".join(ElementTree.tostring(part, "unicode", method="html") for part in body)
    node += nodes.raw("", curled(text), format="html")
    return node


def unsigned(text: str) -> str:
    """The text with no sign where an estimate and its interval are all zero in the digits that are shown.

    Example:
        >>> unsigned("+0.00 [−0.00, +0.00]"), unsigned("−0.00 [−0.04, +0.04]")
        ('0.00 [0.00, 0.00]', '−0.00 [−0.04, +0.04]')
    """
    return ZEROS.sub(r"\1 [\1,\2\1]", text)


def curled(text: str | None) -> str:
    """The text with the apostrophes of the pages around it.

    Example:
        >>> curled("the paper's logits, the authors' code, split='val'")
        "the paper’s logits, the authors’ code, split='val'"
    """
    return APOSTROPHE.sub("\N{RIGHT SINGLE QUOTATION MARK}", text or "")


def _output_of(raw: nodes.raw) -> nodes.Element:
    """All forms of the output that ``raw`` is one of: the text beside the HTML goes too."""
    containers = (node for node in parents(raw) if isinstance(node, nodes.container))
    return next((node for node in containers if node.get("nb_element") == "mime_bundle"), raw)


def visit(self: HTML5Translator, node: NumberedTable) -> None:
    """Write the caption behind its number."""
    self.body.append(self.starttag(node, "figure", CLASS=node["style"]) + "<figcaption>")
    self.add_fignumber(node)
    self.body.append(f'<span class="caption-text">{self.encode(node["caption"])}</span>')
    self.add_permalink_ref(node, "Link to this table")
    self.body.append("</figcaption>")


def depart(self: HTML5Translator, node: NumberedTable) -> None:
    """Close the figure."""
    self.body.append("</figure>\n")


def skip(self: nodes.NodeVisitor, node: NumberedTable) -> None:
    """Leave a table out where no HTML is written."""
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict:
    """Register the node and what makes it."""
    other = dict.fromkeys(("latex", "text", "man", "texinfo"), (skip, None))
    app.add_enumerable_node(NumberedTable, "table", lambda node: node["caption"], html=(visit, depart), **other)
    app.add_transform(NumberedTables)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
