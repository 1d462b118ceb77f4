"""Sphinx extension: each figure says in words what it shows, pages run no script that they do not use, and what the
theme writes is as a page opened from a folder, or read aloud, needs it.

A figure's alternative text is the one that its notebook gives, else its caption, else the heading that it stands under.
"""

from __future__ import annotations

import re
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

from book.kit.sphinx.directives import parents

UNUSED = "thebe"  # runs cells on a server of others, which no page offers; its script is put in twice, and so fails
#: What is replaced in the pages that the theme has written.
MENDED = (
    (re.compile(r'<link rel="preload" as="font"[^>]*>\n?'), ""),  # a browser refuses it to a page from a folder
    (re.compile(r'(getItem\("mode"\) \|\| )""'), r'\1"auto"'),  # light or dark as the reader's system is
    (re.compile(r'(id="search-input".*)id="search-input"', re.S), r'\1id="search-again"'),  # of the page of results
    (re.compile(r'<summary>(?=<span class="toctree-toggle")'), '<summary aria-label="The pages below">'),
    # A group has a name as a region has, and a page may have many.
    (re.compile(r'(<div class="scroll" tabindex="0" )role="region"'), r'\1role="group"'),
    (re.compile(r' role="doc-biblioentry"'), ""),  # no longer a role
    # A picture keeps its size on a narrow screen, and scrolls.
    (
        re.compile(r'(<img alt="[^"]*" src="[^"]*_images/[^"]+\.svg"[^>]*/>)'),
        r'<div class="picture" tabindex="0" role="group" aria-label="Figure">\1</div>',
    ),
    # A formula and the stop behind it stand on one line.
    (re.compile(r'(<span class="math [^"]*">[^<]*</span>[.,;:?)]+)'), r'<span class="unbroken">\1</span>'),
    (re.compile(r'<div role="list" class="citation-list">'), '<div class="citation-list">'),
    (re.compile(r'<div(?= class="bd-sidebar-primary )'), '<div role="complementary" aria-label="The book"'),
)


class AlternativeTexts(SphinxPostTransform):
    """Give images without words the words around them."""

    default_priority = 10

    def run(self) -> None:
        """Change the document."""
        for image in self.document.findall(nodes.image):
            given = image.get("alt", "")
            if not given or "/" in given or given == image["uri"]:
                image["alt"] = words(image)


def words(image: nodes.image) -> str:
    """The caption of the figure around an image, or the heading above it."""
    for node in parents(image):
        if isinstance(node, nodes.figure):
            captions = [child for child in node.children if isinstance(child, nodes.caption)]
            if captions:
                return captions[0].astext()
        if isinstance(node, nodes.section):
            return f"Figure: {node.next_node(nodes.title).astext()}"
    return "Figure"


def without_unused(app: Sphinx, page: str, template: str, context: dict, doctree: nodes.document | None) -> None:
    """Leave out the scripts and the style of ``UNUSED``."""
    for kind in ("script_files", "css_files"):
        files = context.get(kind, [])
        context[kind] = [file for file in files if UNUSED not in f"{file} {getattr(file, 'attributes', '')}".lower()]


def titled(app: Sphinx, page: str, template: str, context: dict, doctree: nodes.document | None) -> None:
    """Let the page that is called as the book is say so once in its tab."""
    if context.get("title") == context.get("docstitle"):
        context["docstitle"] = ""


def mended(text: str) -> str:
    """A page with :data:`MENDED`."""
    for pattern, new in MENDED:
        text = pattern.sub(new, text)
    return text


def mend(app: Sphinx, error: Exception | None) -> None:
    """Change the pages that were written."""
    if error is None and app.builder.format == "html":
        for path in Path(app.outdir).rglob("*.html"):
            path.write_text(mended(path.read_text()))


def setup(app: Sphinx) -> dict:
    """Connect them."""
    app.add_post_transform(AlternativeTexts)
    app.connect("html-page-context", without_unused, priority=900)
    app.connect("html-page-context", titled)
    app.connect("build-finished", mend)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
