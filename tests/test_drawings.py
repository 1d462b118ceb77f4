"""Pictures of the book: as they were drawn, with fewer bytes, and dark on a dark page."""

import base64
import io
import re
from xml.etree import ElementTree

import drawings
import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from calibkit import plots


def drawn() -> str:
    with mpl.rc_context():
        plots.use_style()
        figure, stream = Figure(figsize=(4, 3), layout="constrained"), io.StringIO()
        ax = figure.subplots()
        ax.plot([0, 1 / 3, 1], [0, 1 / 7, 2], "o-", label="accuracy")
        ax.bar([0, 1], [1, 2], color=plots.RED, edgecolor="white")
        ax.imshow(np.eye(3), extent=(0, 1, 0, 1))
        ax.legend()
        figure.savefig(stream, format="svg")
    return stream.getvalue()


@pytest.fixture(scope="module")
def pair():
    text = drawn()
    return text, drawings.tidy(text)


def of(text: str, tag: str) -> list:
    return [element for element in ElementTree.fromstring(text).iter() if element.tag.endswith(f"}}{tag}")]


def points(path) -> np.ndarray:
    """All points of a path, absolute, by its letters one after another."""
    here, start, found = np.zeros(2), np.zeros(2), []
    for letter, numbers in re.findall(r"([a-zA-Z])([^a-zA-Z]*)", path.get("d")):
        values = [float(x) for x in re.findall(r"-?\d*\.?\d+", numbers)]
        if letter in "hv":
            values = [values[0], 0] if letter == "h" else [0, values[0]]
        ends = np.reshape(values, (-1, 2)) + (here if letter.islower() else 0)
        here = start if letter in "zZ" else ends[-1]
        start = here if letter in "mM" else start
        found.append(ends)
    return np.concatenate(found)


def test_all_that_is_drawn_is_still_there_within_a_tenth_of_a_point(pair):
    before, after = pair
    assert len(after) < 0.6 * len(before)
    for tag in ("path", "use", "image"):
        assert len(of(before, tag)) == len(of(after, tag)) > 0
    for one, other in zip(of(before, "path"), of(after, "path"), strict=True):
        glyph = "scale" in one.get("transform", "")
        np.testing.assert_allclose(points(one) / (8 if glyph else 1), points(other), atol=0.51 if glyph else 0.051)
    images = [next(value for name, value in of(text, "image")[0].attrib.items() if "href" in name) for text in pair]
    shown = [np.asarray(Image.open(io.BytesIO(base64.b64decode(x.split(",")[1]))).convert("RGB")) for x in images]
    np.testing.assert_allclose(*shown, rtol=0, atol=4)


def test_a_glyph_stands_within_half_a_hundredth_of_its_size(pair):
    uses = [[use for use in of(text, "use") if "#D" in str(use.attrib)] for text in pair]
    assert len(uses[0]) > 20
    for one, other in zip(*uses, strict=True):
        x, y = re.findall(r"[\d.]+", one.get("transform", "translate(0 0)"))
        assert other.get("x", "0").isdigit() and abs(float(x) - int(other.get("x", "0"))) <= 0.5
        assert abs(float(y) - int(other.get("y", "0"))) <= 0.5


def test_what_is_pointed_to_has_its_name(pair):
    named = set(re.findall(r' id="([^"]+)"', pair[1]))
    assert named and set(re.findall(r'(?:href="#|url\(#)([^")]+)', pair[1])) == named


def test_it_is_the_same_each_time_without_a_date_and_twice_is_once(pair):
    assert drawings.tidy(drawn()) == pair[1] == drawings.tidy(pair[1])
    assert "<dc:date" not in pair[1] and "metadata" not in pair[1]


def test_styles_are_kept_and_a_dark_page_changes_paper_and_ink(pair):
    before, after = pair
    light, dark = after.split("@media(prefers-color-scheme:dark)")
    rules = dict(re.findall(r"\.(\w+)\{([^}]*)\}", light))
    turned = dict(re.findall(r"\.(\w+)\{([^}]*)\}", dark.split("</style>")[0]))
    styles = [x.get("style").replace(": ", ":").replace("; ", ";") for x in of(before, "path") if x.get("style")]
    root = ElementTree.fromstring(after)
    paths = [element for element in root.iter() if element.tag.endswith("}path")]
    parents = {child: parent for parent in root.iter() for child in parent}
    found = [path.get("class") or parents[path].get("class") for path in paths]
    assert styles == [rules[name] for name in found if name]
    assert turned[next(name for name, rule in rules.items() if rule == "fill:#ffffff")] == "fill:#121212"
    assert not {"#d55e00"} & set(" ".join(turned.values()).split(":"))


def test_an_image_of_few_colours_stores_no_others():
    pixels, stream = np.uint8([[[213, 94, 0], [230, 230, 230], [255, 255, 255]]] * 4), io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG")
    small = drawings.shrink(base64.b64encode(stream.getvalue()).decode())
    image = Image.open(io.BytesIO(base64.b64decode(small)))
    assert len(image.getpalette()) == 3 * 3 and drawings.shrink(small) == small
    np.testing.assert_array_equal(np.asarray(image.convert("RGB")), pixels)


def test_an_image_that_lets_the_page_through_still_does():
    pixels, stream = np.uint8([[[213, 94, 0, 255], [0, 0, 0, 0]]] * 4), io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG")
    image = Image.open(io.BytesIO(base64.b64decode(drawings.shrink(base64.b64encode(stream.getvalue()).decode()))))
    np.testing.assert_array_equal(np.asarray(image.convert("RGBA")), pixels)
