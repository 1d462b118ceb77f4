"""Sphinx extension: what a reader opens on demand.

The cell of a chapter's parameters, with the check that follows it, and the last section of a chapter: a paper's tables,
regenerated, or details.
Links to what is inside open it, see ``fit.js``.
"""

from __future__ import annotations

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

SETTINGS = "Run this chapter with other settings"
#: How the title of a section begins -> what opens it.
SECTIONS = {
    "The paper’s tables and figures, regenerated": "Show all of them, as printed and as measured here",
    "Details": "Show the details",
}


class Folded(SphinxPostTransform):
    """Put both between the tags of an HTML ``<details>``."""

    default_priority = 10
    formats = ("html",)

    def run(self) -> None:
        """Change the document."""
        for cell in list(self.document.findall(lambda node: "tag_parameters" in has_classes(node))):
            after = cell.next_node(descend=False, siblings=True)
            fold([cell, *([after] if "tag_hide-input" in has_classes(after) else [])], SETTINGS)
        for section in list(self.document.findall(nodes.section)):
            title = section.next_node(nodes.title).astext()
            for summary in (text for start, text in SECTIONS.items() if title.startswith(start)):
                fold(section.children[1:], summary)


def has_classes(node: nodes.Node | None) -> list[str]:
    """The classes of a node; none of a text."""
    return node.get("classes", []) if isinstance(node, nodes.Element) else []


def fold(siblings: list[nodes.Node], summary: str) -> None:
    """Enclose siblings that follow each other."""
    parent, start = siblings[0].parent, siblings[0].parent.index(siblings[0])
    parent.insert(start + len(siblings), nodes.raw("", "</details>", format="html"))
    opening = f'<details class="fold"><summary>{summary}</summary>'
    parent.insert(start, nodes.raw("", opening, format="html"))


def setup(app: Sphinx) -> dict:
    """Register the transform."""
    app.add_post_transform(Folded)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
