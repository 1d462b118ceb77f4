"""The built book in the Chromium of the system; skipped where playwright, a browser or a build is absent."""

from pathlib import Path

import chromium as tool
import pytest

ROOT = tool.ROOT


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
    if not (tool.BUILT / "index.html").exists():
        pytest.skip("there is no _build/html: make html")
    built = (tool.BUILT / "index.html").stat().st_mtime
    newer = [path for path in sources() if path.stat().st_mtime > built]
    if newer:
        pytest.skip(f"_build/html is older than {newer[0].relative_to(ROOT)}: make html")
    return tool.BUILT


@pytest.fixture(scope="session")
def chromium(site):
    """One browser for all tests."""
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed: extra `browser`")
    try:
        with tool.launched() as browser:
            yield browser
    except FileNotFoundError as error:
        pytest.skip(str(error))
