"""The book as one PDF: sheets, bookmarks, numbers, and links that stay inside."""

import pytest

pypdf = pytest.importorskip("pypdf", reason="pypdf is not installed: extra `browser`")
pytestmark = pytest.mark.browser
NAMES = {"book/index": "", "book/which_method": "Judgement", "book/notation": "Ground"}


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
