"""The means of one method that stand side by side on the ledger are those of the pages that they come from."""

import pytest

from book.kit.notebook.table import minus
from book.kit.results import ledger
from book.kit.sphinx.booktables import averages
from book.kit.sphinx.frontpage import proposals


@pytest.mark.slow
def test_each_mean_is_the_one_that_its_page_has():
    rows = [line.replace("\xa0", " ").strip("| ").split(" | ") for line in averages()[2:]]
    found = {tuple(row[:2]): [] for row in rows}
    for name, base, networks, value in rows:
        found[name, base].append((int(networks.rpartition("(")[2].strip(")")), value))
    of = ledger().set_index("id")
    pages = {("CTS", "TS"): "CTS3a", ("CTS", "TS-ECE"): "CTS3", ("MbLS", "CE with TS"): "MbLS3d"}
    for key, claim in (pages | {("ACLS", "CE with TS"): "ACLS5d"}).items():
        n = int(of.loc[claim, "lower"].split(" of ")[1])
        assert (n, minus(of.loc[claim, "effect"])) in found[key]
    front = {name: minus(f"{mean.percent:+.2f}") for name, mean in proposals("ece").items()}
    for name, base, kind in (
        ("CTS", "TS", "published"),
        ("MbLS", "CE with TS", "ours"),
        ("ACLS", "CE with TS", "ours"),
    ):
        (mean,) = (text for key, text in front.items() if key.startswith(f"{name}, {kind}, balanced"))
        assert mean in [value for _, value in found[name, base]]
