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
    gain = re.search(r"order_preserving less temperature_scaling: NLL (\S+) \[", PAGE.read_text())
    assert float(gain[1]) < -0.1  # the guide's one exception
    assert report((z, y), kind="logits", methods=keys).choice.key == "order_preserving"


def test_the_numbers_in_its_text(seen):
    """Weights of textgenrnn: an embedding, two LSTMs, attention over all three, an output layer over them, too."""
    inputs, units, characters = 100, 128, 465
    states = inputs + 2 * units
    lstms = sum(4 * units * (n + units + 2) for n in (inputs, units))
    weights = characters * inputs + lstms + states + (states + 1) * characters
    text = PAGE.read_text()
    assert f"in its package: {round(weights, -4):,} of them" in text
    assert "with a thousand questions, as here" in text and round(len(seen["rows"]), -3) == 1000
