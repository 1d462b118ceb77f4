"""The whole book as one PDF: each built page printed by Chromium, with bookmarks, page numbers and links that work.

python tools/pdf.py [FILE]    # default _build/calibkit.pdf; reads _build/html
"""

from __future__ import annotations

import io
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

from chromium import BUILT, ROOT, launched, pages, ready
from pypdf import PdfReader, PdfWriter
from pypdf.generic import ArrayObject, NameObject, NullObject, NumberObject

PAPER = {"format": "A4", "print_background": True, "margin": dict.fromkeys(("left", "right", "top"), "10mm")}
NUMBER = "<p style='break-before: page; font: 9pt sans-serif; margin: 0; padding-top: 285mm; text-align: center'>{}</p>"


def printed(browser: object, name: str) -> PdfReader:
    """A page of the book on paper."""
    page = browser.new_page(viewport={"width": 718, "height": 1000})
    page.emulate_media(media="print", color_scheme="light")
    page.goto((BUILT / f"{name}.html").as_uri())
    ready(page)
    page.wait_for_timeout(300)  # what is too wide for the paper shrinks
    data = page.pdf(**PAPER | {"margin": {**PAPER["margin"], "bottom": "16mm"}})
    page.close()
    return PdfReader(io.BytesIO(data))


def numbers(browser: object, count: int) -> PdfReader:
    """Sheets with nothing but their number."""
    page = browser.new_page()
    page.set_content("".join(NUMBER.format(i + 1) for i in range(count)))
    data = page.pdf(format="A4")
    page.close()
    return PdfReader(io.BytesIO(data))


def place(parts: dict[str, PdfReader], starts: dict[str, int], name: str, anchor: str) -> tuple[int, float | None]:
    """The sheet of an anchor, and its height on it; the first sheet of the page where it is unknown."""
    found = parts[name].named_destinations.get("/" + anchor) or parts[name].named_destinations.get(anchor)
    if found is None:
        return starts[name], None
    return starts[name] + parts[name].get_destination_page_number(found), float(found.top or 0)


def link(writer: PdfWriter, parts: dict[str, PdfReader], starts: dict[str, int]) -> None:
    """Turn links to the book's own files, and to anchors of the same page, into links to sheets."""
    for name, first in starts.items():
        for sheet in writer.pages[first : first + len(parts[name].pages)]:
            for note in (entry.get_object() for entry in sheet.get("/Annots", ())):
                target, anchor = name, str(note.get("/Dest", "")).lstrip("/")
                uri = urlsplit(str(note["/A"].get("/URI", ""))) if "/A" in note else None
                if uri is not None:
                    if uri.scheme != "file":
                        continue
                    path, anchor = Path(unquote(uri.path)), unquote(uri.fragment)
                    target = path.relative_to(BUILT).with_suffix("").as_posix() if BUILT in path.parents else ""
                    del note[NameObject("/A")]
                if target not in parts:
                    continue
                number, top = place(parts, starts, target, anchor)
                height = NullObject() if top is None else NumberObject(round(top))
                sheet_of = writer.pages[number].indirect_reference
                where = [sheet_of, NameObject("/XYZ"), NullObject(), height, NullObject()]
                note[NameObject("/Dest")] = ArrayObject(where)


def bound(browser: object, names: dict[str, str]) -> PdfWriter:
    """Pages, each with the part of the book that it stands in, as one book."""
    writer, parts, starts, marks = PdfWriter(), {}, {}, {}
    for name, part in names.items():
        starts[name], parts[name] = len(writer.pages), printed(browser, name)
        for sheet in parts[name].pages:
            writer.add_page(sheet)
        if part and part not in marks:
            marks[part] = writer.add_outline_item(title=part, page_number=starts[name], bold=True)
        title = (parts[name].metadata.title or name).partition(" \u2014 ")[0]
        writer.add_outline_item(title=title, page_number=starts[name], parent=marks.get(part))
        print(f"{name}: {len(parts[name].pages)} pages", flush=True)
    for sheet, number in zip(writer.pages, numbers(browser, len(writer.pages)).pages, strict=True):
        sheet.merge_page(number)
    link(writer, parts, starts)
    writer.add_metadata({"/Title": "Calibration, reproduced", "/Author": "The calibkit authors"})
    writer.compress_identical_objects()
    return writer


def main(out: Path) -> None:
    """Write the book."""
    with launched() as browser:
        writer = bound(browser, pages())
    out.parent.mkdir(parents=True, exist_ok=True)
    writer.write(out)
    print(f"{out}: {len(writer.pages)} pages, {out.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "_build" / "calibkit.pdf")
