"""What the pages of the book say and show, and what the cells of its chapters print."""

import contextlib
import io
import json
import re
from functools import cache
from pathlib import Path

import pandas as pd

from book.kit.results import ledger

BOOK = Path(__file__).resolve().parents[1] / "book"


@cache
def by_id() -> pd.DataFrame:
    """The ledger, computed once: seconds."""
    return ledger().set_index("id")


def text(page: str) -> str:
    return (BOOK / f"{page}.md").read_text()


def says(page: str, *texts: str) -> None:
    absent = [said for said in texts if said not in text(page)]
    assert not absent


def run(page: str, folder: Path, **names: object) -> dict[str, object]:
    """The names that the Python blocks of a page leave behind, one run after the other by a reader who has some names
    and is in a folder. A text block below one is what it prints; one before all is a table to write.
    """
    names, printed = names | {"__name__": "page"}, None
    with contextlib.chdir(folder):
        for kind, block in re.findall(r"```(python|text)\n(.*?)```", text(page), re.S):
            if kind == "text":
                assert printed in (block, None)
                continue
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(block, f"{page}.md", "exec"), names)
            printed = out.getvalue()
    return names


def chapter(name: str) -> str:
    """The source of a chapter, the lines of its prose joined."""
    return (BOOK.parent / "notebooks" / f"{name}.py").read_text().replace("\n# ", " ")


def checked(chapter: str) -> str:
    """What the cells of a chapter print whose outputs are computed again and compared by ``make check``."""
    cells = json.loads((BOOK.parent / "notebooks" / f"{chapter}.ipynb").read_text())["cells"]
    found = []
    for cell in (cell for cell in cells if "nbval-check-output" in cell["metadata"].get("tags", ())):
        for output in cell["outputs"]:
            data = output.get("data", output)
            found.append("".join(data.get("text/markdown") or data.get("text/plain") or data.get("text", "")))
    return " ".join(" ".join(found).split())


def told(chapter: str, words: str) -> list[float]:
    """The numbers in what a checked cell of a chapter prints, where ``#`` in the words is one."""
    pattern = re.escape(words).replace(r"\#", r"([−+]?\d+(?:\.\d+)?)")
    return [float(x.replace("−", "-")) for x in re.search(pattern, checked(chapter)).groups()]
