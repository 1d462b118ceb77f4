"""What a reader opens on demand: which parts of a page lie between the tags."""

import importlib

import pytest

nodes = pytest.importorskip("docutils.nodes")
pytest.importorskip("sphinx")
folded = importlib.import_module("book.kit.sphinx.folded")


@pytest.mark.parametrize("after", ["tag_hide-input", "other"])
def test_the_parameters_are_folded_with_the_check_that_follows_them(after):
    cells = [nodes.container("", nodes.paragraph(), classes=[name]) for name in ("first", "tag_parameters", after)]
    transform = object.__new__(folded.Folded)
    transform.document = nodes.section("", nodes.title("", "Results"), *cells)
    transform.run()
    parts = [node.astext() if isinstance(node, nodes.raw) else node for node in transform.document[1:]]
    shut = parts.index("</details>")
    assert parts[:3] == [cells[0], f'<details class="fold"><summary>{folded.SETTINGS}</summary>', cells[1]]
    assert parts[3:shut] == ([cells[2]] if after == "tag_hide-input" else [])
    assert [*parts[3:shut], *parts[shut + 1 :]] == [cells[2]]
