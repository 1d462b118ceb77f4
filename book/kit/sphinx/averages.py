"""Sphinx extension of the ledger: ``{averages}`` lines up means of one method that differ by their networks."""

from __future__ import annotations

import pandas as pd
from sphinx.application import Sphinx

from book.kit.notebook.display_names import DATASETS, shown
from book.kit.notebook.over_networks import STRATA, select, stratum
from book.kit.notebook.table import minus, unbroken
from book.kit.results.difference_intervals import over_networks
from book.kit.sphinx.cached_results import differences
from book.kit.sphinx.directives import markdown, table

TS, CTS, CE = "temperature_scaling", "class_temperature_scaling", "cross_entropy"
#: Of the calibrators that the comparison shows side by side, the one with the fewest networks.
RAREST = "order_preserving"


def averages() -> list[str]:
    """The mean difference in ECE of each set of networks that a page takes, as a Markdown table."""
    found = []
    for base in (TS, f"{TS}:ece"):
        rows = select(differences(), base, method=CTS, metric="ece")
        published, kind = rows["source"] == "published-logits", stratum(rows)
        of = {"published": rows[published], "published, balanced": rows[kind == STRATA[0]]}
        if base == TS:
            every = set(select(differences(), TS, method=RAREST, metric="ece")["network"])
            side_by_side = rows["network"].isin(every) & (rows["loss"] == CE)
            of["on which every calibrator was fitted"] = rows[side_by_side]
        found += [("CTS", shown(base), name, some) for name, some in of.items()]
    for loss in ("mbls", "acls"):
        rows = select(differences(), TS, CE, method="identity", metric="ece", loss=loss)
        balanced = rows[stratum(rows) == STRATA[2]]
        found += [(shown(loss), "CE with TS", places(some), some) for some in (rows, balanced)]
    cells = [
        (name, base, f"{networks} ({len(rows)})", f"{over_networks(rows).percent:+.2f}")
        for name, base, networks, rows in found
    ]
    return [unbroken(minus(line)) for line in table("lllr", ("", "minus", "networks", "ECE, points"), cells)]


def places(rows: pd.DataFrame) -> str:
    """The data sets of the networks, by name, with their number where a set has several."""
    numbers = rows["dataset"].map(DATASETS).value_counts().sort_index()
    return "; ".join(name + f" ({n} networks)" * (n > 1) for name, n in numbers.items())


def setup(app: Sphinx) -> dict:
    """Register the directive."""
    app.add_directive("averages", markdown(averages))
    return {"parallel_read_safe": True}
