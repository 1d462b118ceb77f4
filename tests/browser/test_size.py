"""A chapter is short enough to read, and its page light enough to open."""

import chromium as tool
import pytest

bs4 = pytest.importorskip("bs4")
pytestmark = pytest.mark.browser
CHAPTERS = [page for page in tool.pages() if page.startswith("notebooks/")]
WORDS, BYTES = 8_000, 3_000_000


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_chapter_has_at_most_8000_words_and_3_megabytes(name, site):
    """Tables, captions and outputs count, what is folded too; code does not."""
    chapter = site / f"{name}.html"
    assert chapter.stat().st_size < BYTES
    article = bs4.BeautifulSoup(chapter.read_text(), "html.parser").find("article")
    for element in article.select("script, style, .cell_input"):
        element.decompose()
    words = len(article.get_text(" ").split())
    assert words <= WORDS
