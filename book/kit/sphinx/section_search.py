"""Sphinx extension: the page of search results lists the sections that answer first, not pages alone.

It needs no server: the words of all sections lie in ``_static/sections.js``, which the page of results reads, and
``section_search.js`` ranks them.
"""

from __future__ import annotations

import json
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

INDEX, RANKING = "sections.js", "section_search.js"
LEFT_OUT = ("book/api", "book/references", "genindex")
SILENT = (nodes.literal_block, nodes.raw, nodes.comment, nodes.math, nodes.math_block)


def sections(name: str, doctree: nodes.document) -> list[list[str]]:
    """Page, anchor, title and text of each section of a page, without code and without the sections in it."""
    found = []
    for section in doctree.findall(nodes.section):
        title = section.next_node(nodes.title)
        parts = [child for child in section.children[1:] if not isinstance(child, nodes.section)]
        words = [text for part in parts for text in part.findall(nodes.Text) if not isinstance(text.parent, SILENT)]
        found.append([name, section["ids"][0], title.astext(), " ".join(" ".join(words).split())])
    return found


def write(app: Sphinx, error: Exception | None) -> None:
    """Write the index, page by page in the order of the contents."""
    if error is not None or app.builder.format != "html":
        return
    pages = [name for name in sorted(app.env.found_docs) if not name.startswith(LEFT_OUT)]
    rows = [row for name in pages for row in sections(name, app.env.get_doctree(name))]
    text = json.dumps(rows, ensure_ascii=False, separators=(",", ":"))
    (Path(app.outdir) / "_static" / INDEX).write_text(f"const SECTIONS = {text};\n")


def on_results(app: Sphinx, page: str, template: str, context: dict, doctree: nodes.document | None) -> None:
    """Only the page of results loads them."""
    if page == "search":
        for name in (INDEX, RANKING):
            app.add_js_file(name, priority=900)


def setup(app: Sphinx) -> dict:
    """Connect them."""
    app.connect("html-page-context", on_results)
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
