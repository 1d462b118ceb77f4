"""The pages that help to find things: references, glossary, index and API."""

import importlib
import re
from pathlib import Path

import pytest
import yaml

for needed in ("sphinx", "pybtex"):
    pytest.importorskip(needed)
ROOT = Path(__file__).resolve().parents[1]
TOC = yaml.safe_load((ROOT / "_toc.yml").read_text())
SOURCES = [*sorted((ROOT / "book").rglob("*.md")), *sorted((ROOT / "notebooks").glob("*.py"))]
TEXT = {path: path.read_text() for path in SOURCES}
GLOSSARY = (ROOT / "book" / "glossary.md").read_text()
#: No address of either was found.
WITHOUT_LINK = {"platt1999probabilistic", "alpaydin1998cascading"}


@pytest.fixture(scope="module")
def entries():
    from pybtex.database import parse_file

    return parse_file(str(ROOT / "book" / "references.bib")).entries


def files(entry: dict) -> list[str]:
    return [entry["file"], *(name for section in entry.get("sections", ()) for name in files(section))]


def terms() -> list[str]:
    blocks = re.findall(r"```\{glossary\}\n(.*?)```", GLOSSARY, re.S)
    return [line for block in blocks for line in block.splitlines() if line and not line.startswith(" ")]


def test_every_entry_leads_to_the_paper(entries):
    links = {key: {"doi", "eprint", "url"} & set(entry.fields) for key, entry in entries.items()}
    assert {key for key, found in links.items() if not found} == WITHOUT_LINK
    for entry in entries.values():
        assert re.fullmatch(r"\d{4}\.\d{4,5}", entry.fields.get("eprint", "0000.00000"))
        assert re.fullmatch(r"10\.\d{4,5}/\S+", entry.fields.get("doi", "10.0000/x"))
        assert all(entry.fields.get(name, "http").startswith("http") for name in ("url", "code"))


def test_every_entry_is_cited_and_every_citation_is_an_entry(entries):
    lists = re.findall(r"\{cite(?::\w+)?\}`([^`]+)`", "\n".join(TEXT.values()))
    cited = {key.strip() for keys in lists for key in keys.split(",")}
    assert cited == set(entries)


def test_labels_are_what_the_text_says_sorted_and_all_different(entries):
    citations = importlib.import_module("book.kit.sphinx.citations")
    labels = {key: citations.label(entry) for key, entry in entries.items()}
    assert labels["brier1950verification"] == "Brier, 1950"
    assert labels["frenkel2021network"] == "Frenkel and Goldberger, 2021"
    assert labels["liu2022devil"] == "Liu et al., 2022a"
    assert labels["blasiok2024smooth"] == "Błasiok and Nakkiran, 2024"
    assert len(set(labels.values())) == len(labels)
    sort = citations.Sorting().sort(entries.values())
    found = [citations.label(entry) for entry in sort]
    assert found.index("Berta et al., 2026c") < found.index("Błasiok and Nakkiran, 2024") < found.index("Brier, 1950")
    assert found.index("Brier, 1950") < found.index("Bröcker and Smith, 2007") < found.index("Brostow et al., 2009")


def test_an_entry_shows_its_links(entries):
    from pybtex.database import BibliographyData
    from pybtex.plugin import find_plugin

    citations = importlib.import_module("book.kit.sphinx.citations")
    citations.setup(None)
    style = find_plugin("pybtex.style.formatting", "author_year")()
    (shown,) = style.format_bibliography(BibliographyData({"liu": entries["liu2022devil"]}))
    html = shown.text.render(find_plugin("pybtex.backends", "html")("utf-8"))
    assert "The Devil is in the Margin: Margin-based Label Smoothing" in html  # the letters of the title are kept
    for address in ("doi.org/10.1109/CVPR52688.2022.00018", "arxiv.org/abs/2111.15430", "github.com/by-liu/MbLS"):
        assert f'href="https://{address}"' in html


def test_every_term_leads_to_a_section():
    for block in re.split(r"\n\n", re.sub(r"```.*", "", GLOSSARY.split("```{glossary}", 1)[1])):
        if "\n  " not in block:
            continue  # a heading
        assert re.search(r"\]\(\.\./notebooks/\w+\.ipynb#|\{(doc|ref|eq)\}`", block), block


def test_terms_that_pages_link_to_are_in_the_glossary():
    linked = re.findall(r"\{term\}`(?:[^`<]*<)?([^`>]+)>?`", "\n".join(TEXT.values()))
    assert len(linked) > 40 and {term.lower() for term in linked} <= {term.lower() for term in terms()}


def test_each_page_is_in_the_contents_once():
    listed = [name for part in TOC["parts"] for chapter in part["chapters"] for name in files(chapter)]
    found = {str(path.relative_to(ROOT).with_suffix("")) for path in SOURCES}
    assert len(set(listed)) == len(listed) and {*listed, TOC["root"]} == found | {"genindex"}


def test_each_api_page_begins_with_a_summary_and_is_linked():
    pages = sorted((ROOT / "book" / "api").glob("*.md"))
    front = (ROOT / "book" / "api.md").read_text()
    assert len(pages) > 8
    for page in pages:
        text = page.read_text()
        assert text.count("```{summary}") == 1 and f"{{doc}}`api/{page.stem}`" in front
        documented = min(text.find(word) for word in (".. auto", "{registry}") if word in text)
        assert text.index("{summary}") < documented


def test_a_summary_links_each_name_to_its_first_sentence():
    nodes, addnodes = pytest.importorskip("docutils.nodes"), pytest.importorskip("sphinx.addnodes")
    summaries = importlib.import_module("book.kit.sphinx.summaries")
    from docutils.utils import new_document

    def described(name: str, text: str) -> addnodes.desc:
        return addnodes.desc(
            "", addnodes.desc_signature("", "", ids=[name]), addnodes.desc_content("", nodes.paragraph(text=text))
        )

    document = new_document("page")
    document += summaries.Place()
    document += described("calibkit.losses.mbls.MbLS", "A margin. More of it.")
    document += described("calibkit.metrics.proper.nll", "In nats")
    summaries.fill(None, document)
    rows = [[entry.astext() for entry in row] for row in document.findall(nodes.row)]
    assert rows == [["name, key", "what it is"], ["MbLS mbls", "A margin."], ["nll", "In nats"]]
    assert [link["refid"] for link in document.findall(nodes.reference)] == [
        "calibkit.losses.mbls.MbLS", "calibkit.metrics.proper.nll",
    ]  # fmt: skip
