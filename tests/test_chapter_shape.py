"""A chapter on a paper tells one story, and its tables come after it."""

import json
import re
from pathlib import Path

import pytest

from book.papers import PAPERS

ROOT = Path(__file__).resolve().parents[1]
LAST = "## The paper's tables and figures, regenerated"


@pytest.mark.parametrize("paper", PAPERS)
def test_at_most_five_tables_stand_before_the_paper_s_own(paper):
    cells = json.loads((ROOT / "notebooks" / f"{paper}.ipynb").read_text())["cells"]
    text = ["".join(cell["source"]) if cell["cell_type"] == "markdown" else "" for cell in cells]
    (start,) = (n for n, source in enumerate(text) if LAST in source)
    assert re.findall(r"^## .*", "\n".join(text[start:]), re.M)[-1] == LAST
    story = [*text[:start], text[start].partition(LAST)[0]]
    typed = len(re.findall(r"^\|[\s:|-]+\|$", "\n".join(story), re.M))
    shown = sum(
        "".join(output.get("data", {}).get("text/html", "")).count("<table")
        for cell in cells[:start]
        for output in cell.get("outputs", [])
    )
    assert typed + shown <= 5
