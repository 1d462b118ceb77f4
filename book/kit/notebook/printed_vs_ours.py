"""A table of a paper as it is printed, beside what was measured here: two columns and a badge of the answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal

import pandas as pd

from book.kit.notebook.display_names import shown
from book.kit.notebook.grid import Cell, Column
from book.kit.notebook.table import Table, check_name, made, minus
from book.kit.results.verdict_rule import BY_THEIR_CODE, Answer
from book.kit.results.verdicts import UNDECIDED, answers
from book.papers import PAPERS
from calibkit._checks import expected
from calibkit.keys import Key

#: What tells the numbers of a paper's table apart, from the outside in.
_NAMES = ("dataset", "model", "loss", "method", "metric", "n_bins", "unit")


def beside(
    compared: pd.DataFrame,
    wide: str | None = None,
    caption: str = "",
    name: str = "",
    *,
    names: Mapping[str, str] | None = None,
    fold: bool = True,
) -> Table:
    """Numbers of a paper beside ours.

    The paper's own method comes first. Numbers with one bin count, or with none as the accuracy, share their rows;
    a drop of accuracy has a column of its own. Fractions are shown in percent, with the digits that are printed.
    What comes out by the authors' code, while ours beside it is another number, has a badge of its own. A badge that
    says "not decided" says as well what difference would have been seen.

    Args:
        compared: rows of :func:`book.kit.results.compare`, or some of them, of one paper.
        wide: the column whose values become columns; None: one row a number.
        caption: above the table, plain text; it gets a number on the page.
        name: what ``{numref}`` calls it; needs a caption.
        names: shown in place of keys, before those of :func:`book.kit.notebook.display_names.shown`.
        fold: away the rows of which nobody ran anything.

    Raises:
        ValueError: no rows, or of several papers; an unknown column; two numbers in a cell; a name without a caption.

    Example:
        >>> from book.kit import results
        >>> rows = results.compare("class_temperature_scaling", "I").query("model == 'resnet110'")
        >>> rows = rows[rows["loss"].isin(["brier", "mmce"]) & (rows["dataset"] == "cifar100")]
        >>> beside(rows, "method", "Table I, networks of two losses")
        Table I, networks of two losses
        <BLANKLINE>
                     CTS          uncalibrated         TS-ECE
        loss   printed  ours    printed  ours    printed  ours
        Brier     2.65  2.57 ≐     7.88  7.88 =     4.65  4.65 =
        <BLANKLINE>
        = reproduced; ≐ reproduced by the authors' code
        <BLANKLINE>
        1 row that nobody ran here
        <BLANKLINE>
        loss   CTS  uncalibrated  TS-ECE
        MMCE  2.33         19.14       3.86
    """
    check_name(caption, name)
    if compared.empty or compared["paper"].nunique() > 1:
        raise expected("compared", "rows of compare(), of one paper", f"{compared['paper'].nunique()} papers")
    if wide is not None and wide not in compared.columns:
        raise expected("wide", f"one of {', '.join(compared.columns)}", repr(wide))

    def name_of(text: str) -> str:
        return (names or {}).get(text, shown(text))

    said = answers(compared).mask(compared["replay"] == BY_THEIR_CODE, Answer.REPRODUCED_BY_THEIR_CODE)
    compared = _in_percent(compared)
    text = compared.astype(str)
    if compared.loc[compared["n_bins"] != "", "n_bins"].nunique() < 2:
        text["n_bins"] = ""
    if text.groupby("metric")["unit"].nunique().max() < 2:
        text["unit"] = ""
    drop = (text["metric"] == "accuracy_drop") & (wide not in (None, "metric"))
    text["column"] = text[wide].map(name_of) if wide else ""
    text.loc[drop, "column"] += ", " + name_of("accuracy_drop")
    text.loc[drop, ["metric", "n_bins", "unit"]] = text.loc[~drop, ["metric", "n_bins", "unit"]].min().to_numpy()
    levels = [level for level in _NAMES if level != wide and text[level].nunique() > 1] or ["metric"]
    order = _order(text, levels, wide)
    rows: dict[tuple, dict[str, tuple[Cell, Cell]]] = {}
    for i, answer in said.iloc[order].items():
        key, column = tuple(text.loc[i, levels]), text.loc[i, "column"]
        if column in rows.setdefault(key, {}):
            raise expected("compared", "rows of which each has a cell of its own", f"two for {column!r} in {key}")
        ours = number_of_ours(compared.loc[i])
        answer = "" if answer == Answer.NOT_RUN else answer
        cell = Cell(minus(ours), answer, _would_be_seen(compared.loc[i]) if answer in UNDECIDED else "")
        rows[key][column] = Cell(minus(compared.loc[i, "printed"])), cell
    labels, corner = [tuple(map(name_of, key)) for key in rows], tuple(map(name_of, levels))
    return _table([*rows.values()], labels, corner, fold, caption=caption, name=name)


def _in_percent(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with what is a fraction in percent; no printed digit is gained or lost."""
    of = rows["unit"] == "fraction"
    numbers = ["ours", "elsewhere", "stand_in_value", "visible"]
    shifted = [f"{Decimal(text).scaleb(2):f}" for text in rows.loc[of, "printed"]]
    rows = rows.copy()
    rows.loc[of, "printed"] = shifted
    rows.loc[of, numbers] = 100 * rows.loc[of, numbers].astype(float)
    rows.loc[of, "unit"] = "percent"
    return rows


def _would_be_seen(row: pd.Series) -> str:
    """The smallest difference that a test of its own would have seen, with one digit more than is printed."""
    if pd.isna(row["visible"]):
        return ""
    decimals = len(row["printed"].partition(".")[2]) + 1
    return f"a difference of {row['visible']:.{decimals}f} would have been seen"


def number_of_ours(row: pd.Series) -> str:
    """Ours, or what others measured in brackets, or that of a stand-in in parentheses; empty where there is none. The
    printed number of the row of ``compare`` says how many decimals.
    """
    decimals = len(row["printed"].partition(".")[2])
    for name, shown_as in (("ours", "{}"), ("elsewhere", "[{}]"), ("stand_in_value", "({})")):
        if not pd.isna(row[name]):
            return shown_as.format(f"{row[name]:z.{decimals}f}")
    return ""


def _table(
    rows: list[dict[str, tuple[Cell, Cell]]], labels: list[tuple], corner: tuple[str, ...], fold: bool, **words: str
) -> Table:
    """Two columns a group; that of ours is left out where it is empty."""
    groups = list(dict.fromkeys(group for row in rows for group in row))
    ran = {group for row in rows for group, (_, ours) in row.items() if ours.text or ours.answer}
    columns, empty, lines = [], Cell(""), []
    for group in groups:
        columns += [Column("printed", group)] + [Column("ours", group)] * (group in ran)
    for row in rows:
        cells = []
        for group in groups:
            printed, ours = row.get(group, (empty, empty))
            cells += [printed] + [ours] * (group in ran)
        lines.append(tuple(cells))
    is_ours = [column.head == "ours" for column in columns]

    def nobody_ran(cells: Iterable[Cell]) -> bool:
        return fold and not any(cell.text or cell.answer for cell, own in zip(cells, is_ours, strict=True) if own)

    return made(corner, columns, labels, lines, nobody_ran, **words)


def _order(text: pd.DataFrame, levels: list[str], wide: str | None) -> list[int]:
    """Positions of the rows: by each level as the paper has it, but its own method before the others."""
    ranks, of_paper = [], PAPERS[text["paper"].iloc[0]].own
    for level in [*levels, *([wide] if wide else [])]:
        first = {value: i for i, value in enumerate(dict.fromkeys(text[level]))}
        own = {value: _distance(value, of_paper) if level in ("loss", "method") else 0 for value in first}
        place = {value: i for i, value in enumerate(sorted(first, key=lambda v: (own[v], first[v])))}
        ranks.append(text[level].map(place))
    return sorted(range(len(text)), key=lambda i: tuple(rank.iloc[i] for rank in ranks))


def _distance(value: str, own: str) -> int:
    """0: the paper's method; 1: with options; 2: another."""
    try:
        key = Key.parse(value)
    except ValueError:
        return 2
    for part in (key, key.objective):
        if part is not None and part.name == own:
            return int(bool(part.options))
    return 2
