"""What the search of the built book finds first."""

import pytest

pytestmark = pytest.mark.browser


def found(chromium, site, asked: str) -> list[str]:
    """The pages that a search lists, first to last."""
    page = chromium.new_page()
    page.goto(f"{(site / 'search.html').as_uri()}?q={asked}")
    page.wait_for_function("document.querySelector('#search-results h2')?.textContent === 'Search Results'")
    links = page.locator("#search-results li > a").evaluate_all("all => all.map(a => a.getAttribute('href'))")
    page.close()
    return [link.split("?")[0].split("#")[0].removesuffix(".html") for link in links]


@pytest.mark.parametrize(
    ("asked", "first"),
    [
        ("temperature scaling", "notebooks/temperature_scaling"),
        ("neural clamping", "notebooks/neural_clamping"),
        ("bootstrap", "book/glossary"),
        ("TemperatureScaling", "book/api/calibrators"),
        ("reliability_diagram", "book/api/plots"),
    ],
)
def test_what_comes_first(chromium, site, asked, first):
    assert found(chromium, site, asked)[0] == first


@pytest.mark.parametrize("asked", ["temperature scaling", "label smoothing", "margin", "verdict"])
def test_chapters_come_before_the_code(chromium, site, asked):
    pages = found(chromium, site, asked)
    code = [i for i, page in enumerate(pages) if page.startswith("book/api")]
    assert not code or min(code) > max(i for i, page in enumerate(pages) if page.startswith("notebooks"))


@pytest.mark.parametrize(
    ("asked", "section"),
    [
        ("greedy search guarantee validation accuracy", "notebooks/class_temperature_scaling.html#a-greedy-search"),
        ("1,000 classes 5,000 images", "book/which_method.html#"),
        ("samples per parameter", "book/which_method.html#how-many-samples"),
        ("beyond chance paired difference", "notebooks/metrics.html#when-is-a-paired-difference-beyond-chance"),
    ],
)
def test_sections_are_found_by_their_words(chromium, site, asked, section):
    page = chromium.new_page()
    page.goto(f"{(site / 'search.html').as_uri()}?q={asked}")
    page.wait_for_selector("#section-results li")
    links = page.locator("#section-results a").evaluate_all("all => all.map(a => a.getAttribute('href'))")
    page.close()
    assert any(link.startswith(section) for link in links[:5]), links
