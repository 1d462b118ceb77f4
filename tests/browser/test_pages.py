"""Every page of the built book as a browser shows it: at four widths, in light and dark, on paper, by keyboard."""

import chromium as tool
import pytest
from page_checks import CONTRAST, EQUATIONS, HEADINGS, IDS, PICTURES, SCROLLERS, WIDER, findings, set_theme

pytestmark = pytest.mark.browser
WIDTHS = (400, 768, 1300, 2560)
PAPER = 718  # px: A4 less margins of 10 mm
LOCAL = ("file:", "data:", "blob:")
PAGES = [*tool.pages(), "search"]
#: Formulas are MathJax's to describe, and code has thousands of words, which CONTRAST looks at.
#: On a narrow screen it is the frame around the text that changes.
CONTEXT = {1300: ["mjx-container", "pre"], 400: ["mjx-container", "pre", "article"]}
OFF = ("empty-table-header",)  # a table of numbers has an empty corner


@pytest.fixture(scope="module", params=PAGES)
def page(request, chromium, site):
    """A page, opened once for all tests; what it logged and asked for is in ``page.said``."""
    opened = chromium.new_page(viewport={"width": 1300, "height": 900})
    opened.said = []
    opened.on("pageerror", lambda error: opened.said.append(str(error)))
    opened.on("console", lambda m: opened.said.append(m.text) if m.type in ("error", "warning") else None)
    opened.on("request", lambda r: None if r.url.startswith(LOCAL) else opened.said.append(f"asked for {r.url}"))
    opened.goto((site / f"{request.param}.html").as_uri())
    tool.ready(opened)
    opened.add_style_tag(content="*, ::before, ::after { transition: none !important }")  # no colour half way
    yield opened
    opened.close()


@pytest.fixture
def sized(page):
    """Resize the page, and settle."""

    def resize(width: int) -> None:
        page.set_viewport_size({"width": width, "height": 900})
        page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    yield resize
    page.emulate_media(media="screen")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    set_theme(page, "light")


def test_structure_words_of_pictures_and_nothing_from_the_network(page):
    assert page.said == []
    assert [findings(page, check) for check in (PICTURES, HEADINGS, IDS)] == [[], [], []]


def test_nothing_sticks_out_and_a_keyboard_scrolls_what_scrolls(page, sized):
    found = {}
    for width in WIDTHS:
        sized(width)
        found[width] = findings(page, WIDER) + findings(page, EQUATIONS) + findings(page, SCROLLERS)
    assert found == {width: [] for width in WIDTHS}


def test_nothing_is_cut_on_paper_and_a_dark_page_is_printed_light(page, sized):
    set_theme(page, "dark")
    sized(PAPER)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    assert findings(page, WIDER, paper=True) + findings(page, EQUATIONS) == []


def test_contrast_and_axe(page, sized):
    """Only contrast depends on the mode, and it takes axe the longest: at one width."""
    axe = pytest.importorskip("axe_playwright_python.base", reason="axe is not installed: extra `browser`")
    page.evaluate(axe.AXE_SCRIPT)
    for mode, width in (("light", 1300), ("light", 400), ("dark", 1300)):
        set_theme(page, mode)
        sized(width)
        assert width < 1300 or findings(page, CONTRAST) == [], mode
        off = OFF if width == 1300 else (*OFF, "color-contrast")
        options = {"rules": {rule: {"enabled": False} for rule in off}, "resultTypes": ["violations"]}
        if mode == "dark":
            options["runOnly"] = ["color-contrast"]
        asked = [{"exclude": CONTEXT[width]}, options]
        found = page.evaluate("([context, options]) => axe.run(context, options)", asked)["violations"]
        seen = [(rule["id"], len(rule["nodes"]), rule["nodes"][0]["html"][:200]) for rule in found]
        assert seen == [], (mode, width)


def test_the_first_key_offers_to_skip_the_menu(page, sized):
    sized(1300)
    page.evaluate("() => { document.activeElement.blur(); scrollTo(0, 0); }")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('href')") == "#main-content"
    assert page.evaluate("document.activeElement.getBoundingClientRect().top >= 0")
