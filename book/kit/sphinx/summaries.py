"""Sphinx extension of the API pages: ``{summary}`` is a table of what a page documents, one line a name.

The line is the first sentence of the docstring. What a registry has is listed with its key, which `calibrator`, a
configuration or the command line take.
"""

from __future__ import annotations

from pkgutil import resolve_name

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from book.kit.sphinx.directives import parents

REGISTRIES = (
    "calibkit.metrics.METRICS",
    "calibkit.calibrators.CALIBRATORS",
    "calibkit.objectives.OBJECTIVES",
    "calibkit.losses.LOSSES",
)


class Place(nodes.General, nodes.Element):
    """Where the table goes."""


class Summary(SphinxDirective):
    """``{summary}``."""

    def run(self) -> list[nodes.Node]:
        """A place, filled when the page has been read."""
        return [Place()]


def entries_of(path: str) -> dict[str, object]:
    """What the registry at ``package.NAME`` has, by key; a metric's function in the place of its record."""
    return {key: getattr(entry, "function", entry) for key, entry in resolve_name(path).items()}


def keys() -> dict[str, str]:
    """Full name of what a registry has -> its key."""
    entries = [item for path in REGISTRIES for item in entries_of(path).items()]
    return {f"{entry.__module__}.{entry.__qualname__}": key for key, entry in entries}


def first_sentence(paragraph: nodes.paragraph) -> nodes.paragraph:
    """A paragraph up to its first full stop, with its formulas and code; what follows a colon at its end is cut."""
    kept = nodes.paragraph()
    for child in paragraph.children:
        head, stop, _ = child.partition(". ") if isinstance(child, nodes.Text) else (child, "", "")
        kept += nodes.Text(head + "." * bool(stop)) if isinstance(child, nodes.Text) else child.deepcopy()
        if stop:
            break
    return kept


def table(heads: list[str], rows: list[list[nodes.Node]]) -> nodes.table:
    """A table of prepared cells."""
    group = nodes.tgroup(cols=len(heads))
    group += [nodes.colspec(colwidth=1) for _ in heads]
    titles = [[nodes.paragraph(text=head)] for head in heads]
    for part, lines in ((nodes.thead(), [titles]), (nodes.tbody(), [[[cell] for cell in row] for row in rows])):
        part += [nodes.row("", *(nodes.entry("", *cell) for cell in line)) for line in lines]
        group += part
    return nodes.table("", group, classes=["summary", "colwidths-auto"])


def fill(app: Sphinx, document: nodes.document) -> None:
    """Put the tables into their places."""
    for place in list(document.findall(Place)):
        known, rows = keys(), []
        for node in document.findall(addnodes.desc):
            signature, content = node.children[0], node.children[-1]
            if not signature["ids"] or any(isinstance(parent, addnodes.desc) for parent in parents(node)):
                continue  # a class documents it, as its method
            line = content.next_node(nodes.paragraph) or nodes.paragraph()
            rows.append([names(signature["ids"][0], known), first_sentence(line)])
        head = "name, key" if any(len(cell.children) > 1 for cell, _ in rows) else "name"
        place.replace_self(table([head, "what it is"], rows))


def names(name: str, known: dict[str, str]) -> nodes.paragraph:
    """A link to the entry, and its key where that is another word."""
    short = name.rpartition(".")[2]
    cell = nodes.paragraph("", "", nodes.reference("", "", nodes.literal(text=short), refid=name, internal=True))
    if known.get(name, short) != short:
        cell += [nodes.Text(" "), nodes.literal(text=known[name])]
    return cell


def setup(app: Sphinx) -> dict:
    """Register the directive."""
    app.add_node(Place)
    app.add_directive("summary", Summary)
    app.connect("doctree-read", fill)
    return {"parallel_read_safe": True}
