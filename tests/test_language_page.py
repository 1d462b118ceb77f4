"""What book/language.md shows is run, one block after the other, and prints what the page says."""

import re

import pytest
from cells_and_pages import BOOK, run, text


@pytest.fixture(scope="module")
def seen():
    """The names that the page leaves behind."""
    return run("language", BOOK.parent)


def test_what_the_page_says_of_its_example(seen):
    from calibkit import report

    table, rows = seen["table"], seen["rows"]
    assert len(table) == len(rows) and not table.attrs["told"]
    z = table.filter(like="logit_").to_numpy()
    y = table["label"].map("ABCD".index).to_numpy()
    assert [row["target"] for row in rows] == y.tolist()
    assert ((z.argmax(1) == y) == [row["acc"] for row in rows]).all()
    keys = ["temperature_scaling", "order_preserving"]
    gain = re.search(r"order_preserving less temperature_scaling: NLL (\S+) \[", text("language"))
    assert float(gain[1]) < -0.1  # the guide's one exception
    assert report((z, y), kind="logits", methods=keys).choice.key == "order_preserving"


def test_the_numbers_in_its_text(seen):
    """Weights of textgenrnn: an embedding, two LSTMs, attention over all three, an output layer over them, too."""
    inputs, units, characters = 100, 128, 465
    states = inputs + 2 * units
    lstms = sum(4 * units * (n + units + 2) for n in (inputs, units))
    weights = characters * inputs + lstms + states + (states + 1) * characters
    assert f"in its package: {round(weights, -4):,} of them" in text("language")
    assert "with a thousand questions, as here" in text("language") and round(len(seen["rows"]), -3) == 1000
