"""Sphinx extension of the index of concepts: the sections that the glossary points to are listed under their term.

So the glossary alone says where a concept is treated, and the pages carry no marks of their own.
"""

from __future__ import annotations

from collections.abc import Iterator

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import docname_join

GLOSSARY = "book/glossary"


def place(env: BuildEnvironment, link: addnodes.pending_xref) -> tuple[str, str, str] | None:
    """Page, anchor and title of what a link leads to; None for a term, an equation or a paper."""
    kind, target = link["reftype"], link["reftarget"]
    if kind == "ref":
        return env.domaindata["std"]["labels"][target]
    if kind == "doc":
        page = docname_join(GLOSSARY, target)
        return page, "", env.titles[page].astext()
    if kind == "myst":
        _, anchor, title = env.metadata[target]["myst_slugs"][link["reftargetid"]]
        return target, anchor, title
    return None


def places(env: BuildEnvironment) -> Iterator[tuple[str, tuple[str, str, str]]]:
    """Every term of the glossary with every place that its definition links to."""
    for item in env.get_doctree(GLOSSARY).findall(nodes.definition_list_item):
        found = [place(env, link) for link in item.findall(addnodes.pending_xref)]
        for term in item.findall(nodes.term):
            yield from ((term.astext(), where) for where in found if where)


def add(app: Sphinx, env: BuildEnvironment) -> None:
    """Put them into the index."""
    for term, (page, anchor, title) in places(env) if GLOSSARY in env.found_docs else ():
        entries = env.domaindata["index"]["entries"].setdefault(page, [])
        entry = ("single", f"{term}; {title}", anchor, "", None)
        if entry not in entries:
            entries.append(entry)


def setup(app: Sphinx) -> dict:
    """Wait until all pages have been read."""
    app.connect("env-updated", add)
    return {"parallel_read_safe": True}
