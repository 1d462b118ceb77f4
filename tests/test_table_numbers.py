"""Tables that a cell of a notebook returns: Sphinx counts them and refers to them."""

import re
from io import StringIO

import nbformat
import pandas as pd
import pytest

from book.kit.notebook.table import table

pytest.importorskip("sphinx")
pytest.importorskip("myst_nb")
FRAME = pd.DataFrame({"ECE": [1.25]}, index=["CE"])
IN_TEXT = "```{table} In text\n| a |\n|---|\n| b |\n```"


def returned(shown):
    """A code cell with a stored output."""
    data = {"text/html": shown._repr_html_(), "text/plain": repr(shown)}
    output = nbformat.v4.new_output("execute_result", data, execution_count=1)
    return nbformat.v4.new_code_cell("shown", outputs=[output], execution_count=1)


def page(tmp_path, *cells, builder="html"):
    """What Sphinx makes of a notebook, and its warnings."""
    from sphinx.application import Sphinx
    from sphinx.util.docutils import docutils_namespace

    about = {"language_info": {"name": "python", "pygments_lexer": "ipython3"}}
    nbformat.write(nbformat.v4.new_notebook(cells=list(cells), metadata=about), tmp_path / "index.ipynb")
    options = {"extensions": ["myst_nb", "book.kit.sphinx.table_numbers"], "numfig": True, "nb_execution_mode": "off"}
    warnings = StringIO()
    folders = (tmp_path, None, tmp_path / "out", tmp_path / "trees")
    with docutils_namespace():
        Sphinx(*folders, builder, status=None, warning=warnings, confoverrides=options).build()
    return (tmp_path / "out" / f"index.{'html' if builder == 'html' else 'txt'}").read_text(), warnings.getvalue()


def test_a_short_label_is_whole_and_what_is_zero_throughout_has_no_sign(tmp_path):
    labels = ["DenseNet-121", "20 Newsgroups, random split", "m = 0"]
    cells = ["+0.00 [-0.00, +0.00]", "-0.00 [-0.04, +0.04]", "+1.00 [+0.00, +2.00]"]
    html, _ = page(tmp_path, returned(table(pd.DataFrame({"ECE": cells}, labels), "One", "tbl-one")))
    assert re.findall(r'<th class="whole" scope="row">(.*?)</th>|<th scope="row" class="whole">(.*?)</th>', html) == [
        ("", "DenseNet-121"), ("", "m\xa0=\xa00")
    ]  # fmt: skip
    assert '<th scope="row">20 Newsgroups, random split</th>' in html
    assert [text for text in ("0.00 [0.00, 0.00]", *cells[1:]) if text.replace("-", "−") not in html] == []


def test_tables_are_counted_with_those_of_the_text_and_referred_to(tmp_path):
    html, warnings = page(
        tmp_path,
        nbformat.v4.new_markdown_cell(f"# Page\n\nSee {{numref}}`tbl-one`, {{numref}}`tbl-two`.\n\n{IN_TEXT}"),
        returned(table(FRAME, "First & <last>", "tbl-one")),
        returned(table(FRAME, "No name")),
        returned(table(FRAME, "Second", "tbl-two")),
    )  # fmt: skip
    assert warnings == ""
    captions = re.findall(
        r'<span class="caption-number">(Table \d+) </span><span class="caption-text">(.*?)</span>', html
    )
    assert captions == [
        ("Table 1", "In text"), ("Table 2", "First &amp; &lt;last&gt;"), ("Table 3", "No name"), ("Table 4", "Second")
    ]  # fmt: skip
    for number, name in ((2, "tbl-one"), (4, "tbl-two")):
        assert re.search(rf'href="#{name}"><span class="std std-numref">Table {number}</span>', html)
        assert len(re.findall(rf'<figure class="numbers[^"]*" id="{name}">', html)) == 1
    assert html.count("<figure") == html.count("</figure>") == 3
    assert html.count("1.25") == 3  # the text beside the HTML is not shown, too


def test_other_html_stays_as_it_is(tmp_path):
    output = nbformat.v4.new_output("execute_result", {"text/html": "<p id='own'>x</p>"}, execution_count=1)
    html, warnings = page(
        tmp_path,
        nbformat.v4.new_markdown_cell("# Page"),
        nbformat.v4.new_code_cell("x", outputs=[output], execution_count=1),
        returned(table(FRAME)),
    )
    assert warnings == "" and "<p id='own'>x</p>" in html
    assert '<figure class="numbers">' in html and "caption-number" not in html


def test_a_build_without_html_leaves_them_out(tmp_path):
    text, warnings = page(
        tmp_path, nbformat.v4.new_markdown_cell("# Page"), returned(table(FRAME, "One", "tbl-one")), builder="text"
    )
    assert "Page" in text and "figure" not in text and warnings == ""
