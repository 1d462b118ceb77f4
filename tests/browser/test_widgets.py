"""What is moved by hand: its numbers are those of the package, a keyboard moves it, and a still stands for it."""

import math

import numpy as np
import pytest
from scipy.special import softmax

from calibkit.data import subset
from calibkit.metrics import ece, nll
from calibkit.networks import load_logits

pytestmark = pytest.mark.browser
PAGES = {"temperature": "notebooks/temperature_scaling.html", "margin": "notebooks/mbls.html"}
LIVE, STILL = "div.widget .live", "div.widget .still svg >> visible=true"


@pytest.fixture(scope="module", params=PAGES)
def page(request, chromium, site):
    """The page of a widget, which is named in ``page.kind``."""
    opened = chromium.new_page(viewport={"width": 400, "height": 900})
    opened.kind = request.param
    opened.goto((site / PAGES[request.param]).as_uri())
    yield opened
    opened.close()


def moved(page, **values: float) -> dict[str, float]:
    """Set sliders, and read the numbers."""
    for name, value in values.items():
        page.fill(f"div.widget input[name={name}]", str(value))
    return {
        key: float(text)
        for key, text in page.evaluate(f"({{...document.querySelector('{LIVE} .said').dataset}})").items()
    }


@pytest.mark.parametrize("values", [(1.0, 15), (1.57, 8), (3.2, 40)])
def test_temperature_is_that_of_the_package(page, values):
    if page.kind != "temperature":
        pytest.skip("the other widget")
    data = load_logits("cifar10/resnet20-cross_entropy-s0")
    rows = subset(data.test_labels, 2000)
    probs = softmax(np.round(data.test_logits[rows].astype(float), 2) / values[0], axis=1)
    labels = data.test_labels[rows]
    found = moved(page, temperature=values[0], bins=values[1])
    assert found["ece"] == pytest.approx(ece(probs, labels, n_bins=values[1]), abs=1e-6)
    assert found["nll"] == pytest.approx(nll(probs, labels), abs=1e-6)


@pytest.mark.parametrize(("m", "weight", "k"), [(6.0, 0.1, 10), (0.0, 0.05, 10), (2.5, 0.3, 200)])
def test_margin_is_the_closed_form(page, m, weight, k):
    if page.kind != "margin":
        pytest.skip("the other widget")
    found = moved(page, margin=m, weight=weight, classes=k)
    distance = max(m, math.log(k / weight - k + 1))
    assert found["distance"] == pytest.approx(distance, abs=1e-6)
    assert found["confidence"] == pytest.approx(1 / (1 + (k - 1) * math.exp(-distance)), abs=1e-6)


def test_a_key_moves_it_and_the_numbers_are_said(page):
    said = page.locator(f"{LIVE} .said")
    before = said.text_content()
    page.locator("div.widget input").first.focus()
    page.keyboard.press("End")
    assert said.text_content() != before and said.get_attribute("aria-live") == "polite"
    assert page.locator(f"{LIVE} svg").get_attribute("aria-label").endswith(said.text_content())


def test_a_still_is_printed(page):
    assert page.locator(LIVE).is_visible() and page.locator(STILL).count() == 0
    page.emulate_media(media="print")
    assert not page.locator(LIVE).is_visible() and page.locator(STILL).count() == 1
    page.emulate_media(media="screen")


def test_a_still_is_shown_without_scripts(page, chromium):
    context = chromium.new_context(java_script_enabled=False)
    bare = context.new_page()
    bare.goto(page.url)
    assert bare.locator(STILL).count() == 1 and bare.locator("div.widget input").count() == 0
    context.close()
