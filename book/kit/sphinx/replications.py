"""Sphinx extension of the page on others' replications.

``{replications} NAME`` is a block of :data:`BLOCKS`: who measured it and how, what follows, its tables.
``{replications} sources`` lists who measured, and how many printed numbers that answers; ``third_parties.csv`` has a
row for each.
"""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
from docutils import nodes

from book.kit.notebook.table import Table, minus
from book.kit.results.verdict_rule import Answer
from book.kit.sphinx import others_calibrators, others_losses
from book.kit.sphinx.cached_results import compared
from book.kit.sphinx.directives import Computed, extension, table
from calibkit import _folders
from calibkit._checks import check_choice

#: A block of the page -> who measured it, a row of ``third_parties.csv``, and what came out.
BLOCKS: dict[str, tuple[tuple[str, ...], Callable[[], others_calibrators.Block]]] = {
    "class_loss": (("h-calibration",), others_calibrators.class_loss),
    "sketch": (("calibench",), others_calibrators.sketch),
    "maps": (("h-calibration",), others_calibrators.maps),
    "arena": (("calarena",), others_calibrators.arena),
    "baseline": (("cals-4", "re-labelsmoothing"), others_losses.baseline),
    "log": (("mbls-log", "acls-log"), others_losses.log),
    "smoothing": (("re-labelsmoothing",), others_losses.smoothing),
    "flsd": (("focal",), others_losses.flsd),
}
#: Claims of the ledger, by the section of the page that says what others measured of them.
CLAIMS = {
    "sec-others-class-loss": ("CLS3", "CLS3d", "CLS3e"),
    "sec-others-sketch": ("CTS3", "CTS3a", "CTS3b", "CTS3c", "CTS3e", "CTS3f", "CTS3g", "CTS7"),
    "sec-others-arena": ("CTS6",),
    "sec-others-losses": ("MbLS3", "MbLS3a", "MbLS3c", "MbLS3d", "ACLS5b", "ACLS5c", "ACLS5d"),
}


def linked(claim: str) -> str:
    """A link to what others measured of a claim of the ledger; "" where there is nothing."""
    return next((f"; {{ref}}`others <{section}>`" for section, ids in CLAIMS.items() if claim in ids), "")


def third_parties() -> pd.DataFrame:
    """``third_parties.csv`` by source: repository, path, commit or number of a thread, date, licence, protocol."""
    return pd.read_csv(_folders.stored() / "third_parties.csv", dtype=str, keep_default_na=False).set_index("source")


def address(row: pd.Series) -> str:
    """A link to the files as they were, or to the thread."""
    where = f"issues/{row['commit'][1:]}" if row["commit"].startswith("#") else f"tree/{row['commit']}/{row['path']}"
    return f"[{row['repository']}](https://github.com/{row['repository']}/{where.rstrip('/')})"


def sources() -> list[str]:
    """Who measured, as a Markdown table, and how many printed numbers that answers."""
    rows = [(address(row), f"`{row['commit']}`", *row[["date", "licence"]]) for _, row in third_parties().iterrows()]
    lines = table("llll", ("repository", "commit or thread", "date", "licence"), rows)
    found = compared()["elsewhere_verdict"].value_counts()
    same, another = (int(found.get(answer, 0)) for answer in (Answer.SAME_ELSEWHERE, Answer.ANOTHER_ELSEWHERE))
    said = f"They answer {same + another} printed numbers that we could not: {same} are the same, {another} another. "
    said += "The others are of ETS and TS in the tables of class-wise loss scaling."
    return [*lines, "", said]


def block(name: str) -> tuple[list[str], list[Table]]:
    """A block as Markdown, and its tables."""
    names, made = BLOCKS[name]
    lines: list[str] = []
    for _, row in third_parties().loc[list(names)].iterrows():
        licence = "no licence" if row["licence"] == "none" else row["licence"]
        lines += ["", f"*Measured by* {address(row)} at `{row['commit']}`, {row['date']}, {licence}. {row['protocol']}"]
    said, tables = made()
    return [*lines, *minus(said).splitlines()], tables


class Replications(Computed):
    """``{replications} NAME``."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Who measured it and what follows, then the tables."""
        name = str(check_choice("block", self.arguments[0], ("sources", *BLOCKS)))
        lines, tables = (sources(), []) if name == "sources" else block(name)
        return [*self.parse(lines), *(nodes.raw("", made._repr_html_(), format="html") for made in tables)]


setup = extension(replications=Replications)
