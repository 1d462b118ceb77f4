"""A chapter on a paper tells its story in few screens and tables, and its page is light enough to open."""

import chromium as tool
import pytest

from book.papers import PAPERS

pytestmark = pytest.mark.browser
CHAPTERS = [page for page in tool.pages() if page.startswith("notebooks/")]
BYTES, SCREEN, SCREENS, TABLES = 3_000_000, 1_000, 12, 5
#: Where the last section begins, and how many tables stand before it.
STORY = """() => {
    const last = [...document.querySelectorAll("article h2")].pop();
    const before = (table) => last.compareDocumentPosition(table) & Node.DOCUMENT_POSITION_PRECEDING;
    const tables = [...document.querySelectorAll("article table")].filter(before).length;
    return [last.getBoundingClientRect().top + scrollY, tables];
}"""


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_chapter_has_at_most_3_megabytes(name, site):
    assert (site / f"{name}.html").stat().st_size < BYTES


@pytest.mark.parametrize("paper", PAPERS)
def test_a_story_has_at_most_twelve_screens_and_five_tables(paper, chromium, site):
    page = chromium.new_page(viewport={"width": 1300, "height": SCREEN})
    page.goto((site / f"notebooks/{paper}.html").as_uri())
    tool.ready(page)
    top, tables = page.evaluate(STORY)
    page.close()
    assert tables <= TABLES and top <= SCREENS * SCREEN
