"""What book/language.md shows is run, one block after the other, and prints what the page says."""

import contextlib
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "book" / "language.md"


@pytest.fixture(scope="module")
def seen():
    """The names that the page leaves behind."""
    names: dict = {"__name__": "page"}
    printed = None
    with contextlib.chdir(ROOT):
        for kind, text in re.findall(r"```(python|text)\n(.*?)```", PAGE.read_text(), re.S):
            if kind == "text":
                assert printed in (text, None)  # None: a table to write
                continue
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(text, "language.md", "exec"), names)
            printed = out.getvalue()
    return names


def test_what_the_page_says_of_its_example(seen):
    from calibkit import report

    table, rows = seen["table"], seen["rows"]
    assert len(table) == len(rows) and not table.attrs["told"]
    z = table.filter(like="logit_").to_numpy()
    y = table["label"].map("ABCD".index).to_numpy()
    assert [row["target"] for row in rows] == y.tolist()
    assert ((z.argmax(1) == y) == [row["acc"] for row in rows]).all()
    keys = ["temperature_scaling", "order_preserving"]
    assert report((z, y), kind="logits", methods=keys).choice.key == "order_preserving"
