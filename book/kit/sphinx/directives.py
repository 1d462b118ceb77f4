"""Directives of the book: what a function returns, Markdown or HTML, in the place where a page names it; extensions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


def table(align: str, heads: Iterable[str], rows: Iterable[Iterable[object]]) -> list[str]:
    """A Markdown table, of whose columns ``align`` says in a letter each whether they stand left or right.

    Example:
        >>> table("lr", ["method", "ECE"], [["TS", 1.2]])
        ['| method | ECE |', '|---|--:|', '| TS | 1.2 |']
    """
    rule = "".join({"l": "---|", "r": "--:|"}[letter] for letter in align)
    return [f"| {' | '.join(heads)} |", f"|{rule}", *(f"| {' | '.join(map(str, row))} |" for row in rows)]


def parents(node: nodes.Node) -> Iterator[nodes.Node]:
    """What encloses a node, from the inside out."""
    while (node := node.parent) is not None:
        yield node


class Computed(SphinxDirective):
    """A directive that shows Markdown."""

    def parse(self, lines: list[str], style: tuple[str, ...] = ()) -> list[nodes.Node]:
        """The nodes of ``lines``; ``style`` are classes of the tables in them."""
        node = nodes.section()
        self.state.nested_parse(StringList(lines, self.name), self.content_offset, node, match_titles=True)
        for table in node.findall(nodes.table):
            table["classes"] += style
        return node.children


def markdown(
    lines: Callable[..., list[str]], *, required: int = 0, optional: int = 0, style: tuple[str, ...] = ()
) -> type[Computed]:
    """The directive of a function that returns lines of Markdown; ``required`` and ``optional`` are its arguments."""

    class Directive(Computed):
        required_arguments, optional_arguments = required, optional

        def run(self) -> list[nodes.Node]:
            return self.parse(lines(*self.arguments), style)

    return Directive


def html(text: Callable[..., str], *, required: int = 0, captioned: bool = False) -> type[SphinxDirective]:
    """The directive of a function that returns HTML; its content is one argument more where it is ``captioned``."""

    class Directive(SphinxDirective):
        required_arguments, has_content = required, captioned

        def run(self) -> list[nodes.Node]:
            caption = [" ".join(self.content)] * captioned
            return [nodes.raw("", text(*self.arguments, *caption), format="html")]

    return Directive


def extension(**directives: type[SphinxDirective]) -> Callable[[Sphinx], dict]:
    """The ``setup`` of a module that registers these directives, by their names."""

    def setup(app: Sphinx) -> dict:
        for name, directive in directives.items():
            app.add_directive(name, directive)
        return {"parallel_read_safe": True}

    return setup
