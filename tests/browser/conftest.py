"""The built book in the Chromium of the system; skipped where playwright, a browser or a build is absent."""

import os
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILT = ROOT / "_build" / "html"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def sources() -> list[Path]:
    """What the build reads of the checkout."""
    folders = (ROOT / "book", ROOT / "notebooks", ROOT / "tools")
    files = [
        path for folder in folders for path in folder.rglob("*") if path.suffix in {".md", ".ipynb", ".css", ".js"}
    ]
    return [*files, *(ROOT / "tools").glob("*.py"), ROOT / "_config.yml", ROOT / "_toc.yml"]


@pytest.fixture(scope="session")
def site() -> Path:
    """The folder of the built book."""
    if not (BUILT / "index.html").exists():
        pytest.skip("there is no _build/html: make html")
    built = (BUILT / "index.html").stat().st_mtime
    newer = [path for path in sources() if path.stat().st_mtime > built]
    if newer:
        pytest.skip(f"_build/html is older than {newer[0].relative_to(ROOT)}: make html")
    return BUILT


@pytest.fixture(scope="session")
def chromium(site):
    """One browser for all tests."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: extra `browser`")
    found = next(filter(None, map(shutil.which, NAMES)), None)
    with sync_api.sync_playwright() as playwright:
        found = found or playwright.chromium.executable_path
        if not Path(found).exists():
            pytest.skip(f"there is none of {', '.join(NAMES)}, and no browser of playwright's own")
        inside = [] if os.geteuid() else ["--no-sandbox"]  # Chromium refuses to be sandboxed as root
        browser = playwright.chromium.launch(executable_path=found, args=inside)
        yield browser
        browser.close()
