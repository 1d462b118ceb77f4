"""Every image of the book has words: its own, those of its caption, or those of the heading above."""

import importlib

import pytest

nodes = pytest.importorskip("docutils.nodes")
pytest.importorskip("sphinx")
accessible = importlib.import_module("book.kit.sphinx.accessible")


def test_words_of_the_caption_then_of_the_heading():
    captioned, bare, alone = (nodes.image(uri=f"{name}.png") for name in "abc")
    figure = nodes.figure("", captioned, nodes.caption("", "Is it calibrated?"))
    nodes.section("", nodes.title("", "Bins"), figure, nodes.container("", bare))
    nodes.container("", alone)
    assert [accessible.words(image) for image in (captioned, bare, alone)] == [
        "Is it calibrated?", "Figure: Bins", "Figure",
    ]  # fmt: skip


def test_only_what_has_no_words_is_given_some():
    given, path = nodes.image(uri="a.png", alt="A dog"), nodes.image(uri="b.png", alt="../_build/b.png")
    section = nodes.section("", nodes.title("", "Bins"), given, path)
    transform = object.__new__(accessible.AlternativeTexts)
    transform.document = section
    transform.run()
    assert (given["alt"], path["alt"]) == ("A dog", "Figure: Bins")


def test_what_the_theme_writes_is_mended():
    page = '<link rel="preload" as="font" crossorigin href="a.woff2" />\n<link rel="preload" as="script" href="a.js" />'
    assert accessible.mended(page) == '<link rel="preload" as="script" href="a.js" />'
    assert accessible.mended('<div class="bd-sidebar-primary bd-sidebar">').startswith('<div role="complementary" ')
    assert (
        accessible.mended('mode = localStorage.getItem("mode") || "";')
        == 'mode = localStorage.getItem("mode") || "auto";'
    )
    assert accessible.mended('<summary><span class="toctree-toggle">').startswith("<summary aria-label=")
    assert 'role="group"' in accessible.mended('<div class="scroll" tabindex="0" role="region" aria-label="table">')
    assert accessible.mended('<div class="citation" role="doc-biblioentry">') == '<div class="citation">'
    formula = r'<span class="math notranslate">\(T \to 0\)</span>'
    assert accessible.mended(f"{formula}. It") == f'<span class="unbroken">{formula}.</span> It'
    assert accessible.mended(f"{formula} is") == f"{formula} is"
