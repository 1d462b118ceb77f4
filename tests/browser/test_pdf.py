"""The book as one PDF: sheets, bookmarks, numbers, and links that stay inside."""

import io
import unicodedata

import chromium as tool
import pytest

pypdf = pytest.importorskip("pypdf", reason="pypdf is not installed: extra `browser`")
pytestmark = pytest.mark.browser
NAMES = {"book/index": "", "book/which_method": "Judgement", "book/notation": "Ground"}


#: The sections of a page, and how the last row of each table begins.
ENDS = """[...document.querySelectorAll("article h2, article h3, article table tr:last-child > :first-child")]
    .filter((of) => of.checkVisibility() && !of.querySelector("mjx-container")).map((of) => of.innerText)"""


@pytest.mark.parametrize("name", ["book/ledger", "book/errata", "book/protocol", "notebooks/mbls"])
def test_a_page_is_printed_to_its_end(name, chromium, site):
    """Of a long table that a script had made smaller Chromium once printed one sheet, and lost all that follows."""
    page = chromium.new_page(viewport={"width": 1300, "height": 900})
    page.goto((site / f"{name}.html").as_uri())
    tool.ready(page)
    ends = ["".join(of.split())[:20] for of in page.evaluate(ENDS)]
    sheets = pypdf.PdfReader(io.BytesIO(page.pdf(format="A4"))).pages
    page.close()
    text = unicodedata.normalize("NFKC", "".join("".join(sheet.extract_text().split()) for sheet in sheets))
    assert len(ends) > 5 and [of for of in ends if of not in text] == []


@pytest.fixture(scope="module")
def book(chromium):
    import pdf

    return pdf.bound(chromium, NAMES)


def test_bookmarks_are_parts_with_their_pages_and_sheets_are_numbered(book):
    outline = book._get_outline()  # a list after an entry holds what stands below it
    assert [entry.title for entry in outline if not isinstance(entry, list)] == [
        "Calibration, reproduced", "Judgement", "Ground",
    ]  # fmt: skip
    assert [len(entry) for entry in outline if isinstance(entry, list)] == [1, 1]
    assert [page.extract_text().split()[-1] for page in book.pages] == [str(i + 1) for i in range(len(book.pages))]


def test_links_between_pages_go_to_sheets(book):
    notes = [note.get_object() for page in book.pages for note in page.get("/Annots", ())]
    inside = [note for note in notes if "/Dest" in note and isinstance(note["/Dest"], pypdf.generic.ArrayObject)]
    sheets = {page.indirect_reference.idnum for page in book.pages}
    assert inside and {note["/Dest"][0].idnum for note in inside} <= sheets
    assert not [note for note in notes if "/A" in note and str(note["/A"].get("/URI", "")).startswith("file:")]
