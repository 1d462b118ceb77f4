"""SVG of matplotlib as a page shows it: few bytes, the same ones each time, light or dark as the page is.

A browser tells an SVG image whether the page around it is dark. A picture of light paper then takes the inks of
``use_style(dark=True)``; where a browser does not, it keeps its own paper and stays as legible as before.

Names follow from what they name, so that pictures that are put into one page do not mix.
"""

from __future__ import annotations

import base64
import hashlib
import io
import re
from collections.abc import Iterator
from itertools import groupby
from xml.etree import ElementTree

from PIL import Image

from calibkit.plots.style import DARK, LIGHT, ON_DARK

SVG, HREF = "http://www.w3.org/2000/svg", "{http://www.w3.org/1999/xlink}href"
GLYPH = 8  # matplotlib writes a glyph in 64ths of a hundredth of its size; an eighth is enough
_DARK = "@media(prefers-color-scheme:dark)"
_NUMBER = re.compile(r"-?\d*\.?\d+(?:e-?\d+)?")
_POINTED = re.compile(r"#([\w-]+)")

ElementTree.register_namespace("", SVG)


def inks() -> dict[str, str]:
    """Colours that a dark page changes: paper, ink, grid, and those of :data:`ON_DARK`."""
    pairs = {str(LIGHT[key]): str(DARK[key]) for key in ("savefig.facecolor", "text.color", "grid.color")} | ON_DARK
    return {light.lower(): dark.lower() for light, dark in pairs.items()}


def tidy(svg: str) -> str:
    """Short numbers and names, styles as classes, no date, no empty groups, and the inks of a dark page."""
    if _DARK in svg:
        return svg
    root = ElementTree.fromstring(svg)
    pointed = {name for element in root.iter() for value in element.attrib.values() for name in _POINTED.findall(value)}
    styles: dict[str, str] = {}
    for parent in [*root.iter()]:
        parent[:] = [*_flat(parent, pointed)]
    for element in root.iter():
        element.text = element.tail = None
        if "style" in element.attrib and not element.tag.endswith("}style"):
            style = element.attrib.pop("style").replace(": ", ":").replace("; ", ";")
            element.set("class", styles.setdefault(style, "s" + _checksum(style)))
        _shorten(element)
    for parent in [*root.iter()]:
        parent[:] = [*_gathered(parent)]
    sheet = ElementTree.Element(f"{{{SVG}}}style")
    sheet.text = _sheet(styles)
    root.insert(0, sheet)
    return ElementTree.tostring(root, "unicode").replace(" />", "/>") + "\n"


def shrink(png: str) -> str:
    """A figure with a palette of 256 colours at most, off by a few of 255 levels at most: a third of the bytes.

    One that has a palette already, or lets the page through, stays as it is.
    """
    image = Image.open(io.BytesIO(base64.b64decode(png)))
    if image.mode == "P" or (image.mode == "RGBA" and image.getextrema()[3][0] < 255):
        return png
    stream = io.BytesIO()
    palette = image.convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    used = sorted(index for _, index in palette.getcolors())
    palette.remap_palette(used).save(stream, "PNG", optimize=True)
    return base64.b64encode(stream.getvalue()).decode()


def _flat(parent: ElementTree.Element, pointed: set[str]) -> Iterator[ElementTree.Element]:
    """Children as they are needed: no facts about the file, no names that nothing points to, no group without use."""
    for child in parent:
        tag = child.tag.rpartition("}")[2]
        if child.get("id") not in pointed:
            child.attrib.pop("id", None)
        if tag == "g" and not child.attrib:
            yield from _flat(child, pointed)
        elif tag not in ("metadata", "style") and not (tag == "defs" and child[:] and child[0].tag.endswith("}style")):
            yield child


def _shorten(element: ElementTree.Element) -> None:
    """Attributes of one element with fewer characters."""
    for name in ("id", HREF, "clip-path"):
        if name in element.attrib:
            element.set(name, _POINTED.sub(lambda found: f"#{_name(found[1])}", element.get(name, "")))
    if "id" in element.attrib:
        element.set("id", _name(element.get("id", "")))
    if HREF in element.attrib:
        to = element.attrib.pop(HREF)
        kind, inside, png = to.partition("base64,")
        element.set("href", kind + inside + shrink(png) if inside else to)
    move = element.get("transform", "")
    if found := re.fullmatch(r"translate\(([^ ]+) ([^ ]+)\)", move):
        if element.tag.endswith("}use") and "x" not in element.attrib:
            del element.attrib["transform"]
            element.attrib |= {axis: at for axis, at in zip("xy", found.groups(), strict=True) if float(at)}
    elif move == "scale(0.015625)":
        element.set("transform", f"scale({GLYPH / 64:g})")
        element.set("d", _path(element.get("d", ""), 1 / GLYPH))
    elif move and "d" not in element.attrib:
        element.set("transform", _NUMBER.sub(lambda found: _short(found[0], 4), move))
    elif "d" in element.attrib:
        element.set("d", _path(element.get("d", ""), 10))
    at = 0 if element.get("href", "").startswith("#D-") else 1  # a glyph's place in hundredths of its size
    for name, digits in {"x": at, "y": at, "width": 2, "height": 2}.items():
        if name in element.attrib:
            element.set(name, _NUMBER.sub(lambda found, digits=digits: _short(found[0], digits), element.get(name, "")))


def _path(commands: str, per_unit: float) -> str:
    """A path in steps from point to point, rounded to ``1 / per_unit``, or to 1 of a coarser unit for a glyph.

    Each point is rounded by itself, so that errors do not add up.
    """
    unit = max(per_unit, 1.0)
    x = y = start_x = start_y = 0
    written = []
    for letter, numbers in re.findall(r"([MLQCZz])([^MLQCZz]*)", commands):
        if letter in "Zz":
            written.append("z")
            x, y = start_x, start_y
            continue
        ends = [round(float(number) * per_unit) for number in numbers.split()]
        steps = [end - (y if i % 2 else x) for i, end in enumerate(ends)]
        if letter == "L" and 0 in steps:
            letter, steps = ("V", steps[1:]) if steps[0] == 0 else ("H", steps[:1])
        x, y = ends[-2:]
        if letter == "M":
            start_x, start_y = x, y
        texts = " ".join(_short(str(step / unit), 1) for step in steps)
        written.append(letter.lower() + re.sub(r"\b0\.", ".", texts).replace(" -", "-"))
    return "".join(written)


def _gathered(parent: ElementTree.Element) -> Iterator[ElementTree.Element]:
    """Neighbours that look alike as one group."""

    def look(child: ElementTree.Element) -> tuple:
        return child.tag.endswith(("}path", "}use")) and child.get("class"), child.get("clip-path"), child.get("id")

    for (style, clip, _), alike in groupby(parent, look):
        children = list(alike)
        if not style or len(children) < 2:
            yield from children
            continue
        group = ElementTree.Element(f"{{{SVG}}}g", {"class": style} | ({"clip-path": clip} if clip else {}))
        for child in children:
            child.attrib.pop("class")
            child.attrib.pop("clip-path", None)
        group.extend(children)
        yield group


def _sheet(styles: dict[str, str]) -> str:
    """A class for each style; on a dark page those that change, and text, which has no colour of its own."""
    light = "".join(f".{name}{{{style}}}" for style, name in styles.items())
    dark = [f"svg{{fill:{inks()['#000000']}}}"]
    for style, name in styles.items():
        turned = [f"{kind}:{inks()[color]}" for kind, color in re.findall(r"(\w+):(#\w{6})", style) if color in inks()]
        if turned:
            dark.append(f".{name}{{{';'.join(turned)}}}")
    return f"*{{stroke-linejoin:round;stroke-linecap:butt}}{light}{_DARK}{{{''.join(dark)}}}"


def _short(number: str, digits: int) -> str:
    text = f"{float(number):.{digits}f}"
    return "0" if not float(text) else text.rstrip("0").rstrip(".") if "." in text else text


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:5]


def _name(name: str) -> str:
    """Of a glyph its font and number, of anything else a checksum."""
    return name.replace("DejaVuSans", "D") if name.startswith("DejaVuSans") else name[:1] + _checksum(name)
