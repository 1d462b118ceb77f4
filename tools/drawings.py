"""SVG of matplotlib as a page shows it: few bytes, the same ones each time, light or dark as the page is.

A browser tells an SVG image whether the page around it is dark. A picture of light paper then takes the inks of
``use_style(dark=True)``; where a browser does not, it keeps its own paper and stays as legible as before.

Names follow from what they name, so that pictures that are put into one page do not mix.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from xml.etree import ElementTree

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
    sheet = ElementTree.Element(f"{{{SVG}}}style")
    sheet.text = _sheet(styles)
    root.insert(0, sheet)
    return ElementTree.tostring(root, "unicode").replace(" />", "/>") + "\n"


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
    if HREF in element.attrib and not element.get(HREF, "").startswith("data:"):
        element.set("href", element.attrib.pop(HREF))
    move = element.get("transform", "")
    if found := re.fullmatch(r"translate\(([^ ]+) ([^ ]+)\)", move):
        if element.tag.endswith("}use") and "x" not in element.attrib:
            del element.attrib["transform"]
            element.attrib |= {axis: at for axis, at in zip("xy", found.groups(), strict=True) if float(at)}
    elif move == "scale(0.015625)":
        element.set("transform", f"scale({GLYPH / 64:g})")
        element.set("d", _NUMBER.sub(lambda found: f"{float(found[0]) / GLYPH:.0f}", element.get("d", "")))
    elif move:
        element.set("transform", _NUMBER.sub(lambda found: _short(found[0], 4), move))
    for name, digits in {"d": 1, "x": 2, "y": 2, "width": 2, "height": 2}.items():
        if name in element.attrib:
            element.set(name, _NUMBER.sub(lambda found, digits=digits: _short(found[0], digits), element.get(name, "")))
    if "d" in element.attrib:
        element.set("d", re.sub(r"\s*([A-Za-z])\s*", r"\1", element.get("d", "").strip()))


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
