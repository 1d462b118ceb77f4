"""The box at the head of a chapter says what the results say; the paper's tables come last."""

import importlib
import json
import re
from pathlib import Path

import pytest
from refusals import refused

from book.kit import results
from book.papers import PAPERS

pytest.importorskip("sphinx")
brief = importlib.import_module("book.kit.sphinx.claims")
ROOT = Path(__file__).resolve().parents[1]
LAST = "## The paper's tables and figures, regenerated"


@pytest.mark.slow
def test_verdicts_and_strengths_add_up_to_the_claims():
    for paper in PAPERS:
        rows = results.ledger().query("paper == @paper")
        number, asked = len(rows), int(rows["claim"].str.startswith("Our question: ").sum())
        lines = brief.outcome(paper)
        stated, *questions = map(int, re.findall(r"(\d+) (?:claims|questions?)\b", lines[0]))
        assert (stated, sum(questions)) == (number - asked, asked) and ("questions" in lines[0]) == (asked > 1)
        for line in lines:
            assert sum(map(int, re.findall(r"(\d+) ×", line))) == number, line


def test_a_box_says_how_many_answers_rest_on_trainings_that_are_not_stored(monkeypatch):
    monkeypatch.setattr(brief, "unkept", lambda: {"mbls": 13, "acls": 0})
    assert brief.lost("acls") == []
    (line,) = brief.lost("mbls")
    assert "13 answers" in line and "<sec-gone>`" in line


def test_each_chapter_of_a_paper_begins_with_its_box_which_links_to_the_paper():
    for paper in PAPERS:
        cells = (ROOT / "notebooks" / f"{paper}.py").read_text()
        first, heading, _ = cells.partition("# ## ")
        assert heading and f"```{{brief}} {paper}" in first, (
            f"notebooks/{paper}.py wants its box before a `## ` heading"
        )
        absent = [start for start in ("Paper", "They claim", "We find", "Do this") if f"**{start}" not in first]
        assert not absent, f"the box of notebooks/{paper}.py lacks {absent}, each after `**`"
        line = brief.links(first)
        assert (
            line.startswith("**Read** [article](https://doi.org/10.") or "[preprint](https://arxiv.org/abs/" in line
        ), paper
        assert f"```{{counts}} {paper}" in cells
    refused("`text` to cite the paper", brief.links, "none")


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
