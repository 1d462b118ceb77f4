"""Which columns of a table are classes: all but those of labels, splits and groups, and none that looks like one.

One alone is the score of the second of two classes.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np

from calibkit._checks import ROUNDED, expected

if TYPE_CHECKING:
    from pandas import DataFrame, Series

#: What people call columns of numbers that are no classes; a class may be called so where a label names it.
NO_CLASSES = frozenset(
    "confidence conf count date day epoch fold group id idx image index key loss margin max_prob number patient pred "
    "predicted prediction row row_id sample sample_id score seed step target time timestamp truth uid user user_id "
    "weight y y_pred y_true".split()
)


def class_columns(
    table: DataFrame,
    label: str,
    others: Collection[str],
    kind: str | None,
    classes: Collection[str] | None = None,
    ignore: Collection[str] | None = None,
) -> list:
    """The columns of a table that are classes, in its order.

    Args:
        table: of numbers, a column a class, and others.
        label: the column of labels, if it is there.
        others: columns that are none, if they are there, ``label`` among them.
        kind: "logits", "probabilities" or None.
        classes: the names of those that are classes; None: all that are left.
        ignore: the names of those that are none; given, though empty, it says that all others are classes.

    Raises:
        ValueError: names that are missing or the same as text; a column that is no class, or looks like none.
    """
    if table.columns.nlevels > 1:
        raise expected("source", "a table with one name for each column", f"{table.columns.nlevels} rows of names")
    if table.columns.hasnans:
        raise expected("source", "a table with a name for each column", f"the columns {listed(table.columns)}")
    names = list(map(str, table.columns))
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise expected("source", "a table whose columns have different names", f"more than one called {listed(twice)}")
    for what, given in (("classes", classes), ("ignore", ignore)):
        if isinstance(given, str) or not set(map(str, given or ())) <= set(names):
            raise expected(what, f"names among {listed(names)}", repr(given))
    left_out = {*map(str, others), *map(str, ignore or ())}
    found = [column for column in table.columns if str(column) not in left_out]
    if classes is not None:
        found = [column for column in found if str(column) in set(map(str, classes))]
    _check(table, label, found, kind, asked=classes is not None or ignore is not None)
    return found


def _check(table: DataFrame, label: str, found: list, kind: str | None, *, asked: bool) -> None:
    """Refuse columns that are no classes."""
    if indexed := [name for name in found if str(name).startswith("Unnamed: ")]:
        want = "a table without an index; write it with index=False"
        raise expected("source", want, f"the columns {listed(indexed)}; or leave it out{_option(indexed)}")
    want = f"with a column of numbers for each class beside {label!r}"
    if odd := [name for name in found if table[name].dtype.kind not in "fiu"]:
        raise expected("source", want, f"the columns {listed(odd)}; leave out what is no class{_option(odd)}")
    if not found:
        raise expected("source", want, f"the columns {listed(table.columns)}; the classes' columns are missing")
    if not asked and (odd := _doubtful(table, label, found, kind)):
        got = f"the columns {listed(odd)}, which no label names"
        cure = f"leave out what is no class{_option(odd)}, or say that all are (--ignore without a name)"
        raise expected("source", "with a column for each class and no other numbers", f"{got}; {cure}")


def _doubtful(table: DataFrame, label: str, found: list, kind: str | None) -> list:
    """Columns of numbers that may be no classes: no label names them, or they are called as what is none."""
    if kind == "probabilities" and bool((np.abs(table[found].sum(axis=1) - 1) <= ROUNDED).all()):
        return []  # without any of them they would not sum to 1
    if [str(column).lower() for column in found] == ["score"]:
        return []  # of the second of two classes
    names, said = set(map(str, found)), as_text(table[label]) if label in table else set()
    unnamed = [column for column in found if str(column) not in said]
    if not said or not said <= names:  # labels that are positions, or wrong
        return [column for column in unnamed if str(column).lower() in NO_CLASSES]
    numbered = all(name.isdigit() for name in said)  # of numbered classes one may have no sample
    return [column for column in unnamed if not (numbered and str(column).isdigit())]


def as_text(labels: Series) -> set[str]:
    """Labels as the names of columns: 1.0 is "1"."""
    distinct = labels.dropna().unique().tolist()
    whole = (isinstance(label, float) and label.is_integer() for label in distinct)
    return {str(int(label) if is_whole else label) for label, is_whole in zip(distinct, whole, strict=True)}


def _option(names: Collection) -> str:
    """How the command line leaves these out."""
    shown = " ".join(f"'{name}'" if " " in str(name) else str(name) for name in list(names)[:6])
    return f" (--ignore {shown})"


def listed(names: Collection) -> str:
    """The first few names."""
    shown = [repr(name) for name in list(names)[:6]]
    return ", ".join(shown) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
