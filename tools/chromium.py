"""The pages of the book in a Chromium: which pages there are, and how to open a browser on this machine."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
BUILT = ROOT / "_build" / "html"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def pages() -> dict[str, str]:
    """Pages of the table of contents, in its order, each with the part of the book that it stands in."""
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text())
    found = {toc["root"]: ""}

    def add(entries: list[dict], part: str) -> None:
        for entry in entries:
            found[entry["file"]] = part
            add(entry.get("sections", []), part)

    for part in toc["parts"]:
        add(part["chapters"], part["caption"])
    return found


def executable(playwright: object) -> str:
    """A browser of the system, else playwright's own; FileNotFoundError where there is neither."""
    found = next(filter(None, map(shutil.which, NAMES)), None) or playwright.chromium.executable_path
    if not Path(found).exists():
        raise FileNotFoundError(f"there is none of {', '.join(NAMES)}, and no browser of playwright's own")
    return found


@contextmanager
def launched() -> Iterator[object]:
    """A browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        inside = [] if os.geteuid() else ["--no-sandbox"]  # Chromium refuses to be sandboxed as root
        browser = playwright.chromium.launch(executable_path=executable(playwright), args=inside)
        yield browser
        browser.close()


def ready(page: object) -> None:
    """Wait until formulas are set."""
    page.evaluate("() => window.MathJax?.startup?.promise.then(() => undefined)")
