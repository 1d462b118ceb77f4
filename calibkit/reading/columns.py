"""What the columns of a table are: labels, splits, classes, or others. What is guessed is told; what may be two is not.

A column is left out of the classes where it can be none: it holds text, has no name, or stands beside columns that a
name, the labels or sums of 1 show to be all classes. Any other column of numbers is a class, or is asked about. One
alone, or one that is called so, is the score of the second of two classes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from numbers import Real
from os.path import commonprefix
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from calibkit._arrays import numbered
from calibkit._checks import expected
from calibkit.logits import Kind, kind_of

if TYPE_CHECKING:
    from pandas import DataFrame, Series

Name = str | int | None  # of a column
#: What labels are called, the likeliest first.
LABELS = ("label", "labels", "target", "targets", "y_true", "y")
#: What stands before the name of a class, and what the column then holds; None: either.
PREFIXES: dict[str, Kind | None] = {
    **dict.fromkeys(("logit_", "logits_"), "logits"),
    **dict.fromkeys(("prob_", "probs_", "proba_", "probability_"), "probabilities"),
    "p_": None,
}
#: Columns of numbers that stand beside classes; a class may be called so where a label names it.
BESIDE = frozenset(
    "id idx index row row_id sample_id uid conf confidence max_prob pred predicted prediction y_pred".split()
)
#: The same, but classes may well be called so: asked about.
NO_CLASSES = BESIDE | frozenset(
    "count date day epoch fold group image key loss margin number patient sample score seed step target time timestamp "
    "truth user user_id weight y y_true".split()
)
#: How two columns are called that are the classes of labels 0 and 1, after what both names begin with.
PAIRS = (("0", "1"), ("1", "2"), ("no", "yes"), ("false", "true"), ("neg", "pos"), ("negative", "positive"))
#: One column for two classes, without the name of either.
SCORES = ("score", *(prefix[:-1] for prefix in PREFIXES))


class Columns(NamedTuple):
    """How a source is to be read, and its columns in particular: the options of :func:`calibkit.reading.read`."""

    label: Name = None
    split: Name = None
    group: Name = None
    id: Name = None
    classes: Collection[str] | None = None
    ignore: Collection[str] | None = None
    kind: Kind | None = None
    labelled: bool = True
    known: Collection[str] = ()  # the classes that a calibrator was fitted to
    fitted: Kind | None = None  # and what it takes


class Classes(NamedTuple):
    """The columns that are classes."""

    columns: list[str]  # in the order of the table, but where labels are positions
    names: tuple[str, ...]  # without a common prefix; of one column both classes, where one label of two is called so
    kind: Kind | None  # what they hold, where the prefix says it
    told: tuple[str, ...]  # what was guessed, in words


def called(wanted: Sequence[str], names: Collection[str]) -> str | None:
    """The first of the wanted names that a column has, letter by letter, or else in any case."""
    exact, lower = [name for name in wanted if name in names], {name.lower(): name for name in names}
    return next(iter(exact or [lower[name] for name in wanted if name in lower]), None)


def class_columns(table: DataFrame, label: str | None, others: Collection[str], how: Columns) -> Classes:
    """The columns of a table that are classes; ValueError of one that is missing, is no class, or looks like none.

    ``others`` are columns that are none, ``label`` among them. ``ignore``, though empty, says that all other numbers
    are classes.
    """
    classes, ignore = how.classes, how.ignore
    for what, given in (("classes", classes), ("ignore", ignore)):
        names = () if given is None else given
        many = isinstance(names, Collection) and not isinstance(names, str) and np.iterable(names)
        if not many or not set(map(str, names)) <= set(table):
            raise expected(what, f"names among {listed(table.columns)}", repr(given))
    left_out = {*others, *map(str, ignore or ())}
    rest = [name for name in table if name not in left_out]
    said = as_text(table[label]) if label in table else set()
    numbers = {f"{x:.0f}" for x in map(_number, said) if x is not None and x % 1 == 0}  # "1.0" in a csv is "1"
    if len(numbers) == len(said) and not any(column.endswith(tuple(said)) for column in rest):
        said = numbers
    shown = _shown(rest, said, how)
    if classes is not None:
        chosen = set(map(str, classes))
        if twice := chosen & set(others):
            want = "other columns than those of labels, splits, groups and ids"
            raise expected("classes", want, listed(sorted(twice)))
        found, odd = [name for name in rest if name in chosen], []
    elif shown:
        found, odd = shown, [name for name in rest if name not in shown]
    else:
        odd = [name for name in rest if name.startswith("Unnamed: ") or _is_text(table[name])]
        found = [name for name in rest if name not in odd]
        lists = [name for name in odd if _is_list(table[name])]
        if lists and not (said and said <= set(found)):
            cure = f"write a column for each class, or lists called logits or probs, or leave it out{_option(lists)}"
            raise expected("source", "with one number in each cell", f"several in the column {lists[0]!r}; {cure}")
        if ignore is None:
            beside = _beside(table, said, found, how)
            found, odd = [name for name in found if name not in beside], odd + beside
    want = f"with a column of numbers for each class beside {label or 'label'!r}"
    if text := [name for name in found if table[name].dtype.kind not in "fiu"]:
        cure = "a number is written as -0.5 or 5e-1" if shown else f"leave out what is no class{_option(text)}"
        raise expected("source", want, f"{_odd_cell(table, text[0])}; {cure}")
    if not found:
        raise expected("source", want, f"the columns {listed(table.columns)}; the classes' columns are missing")
    names, of_kind = without_prefix(found, said)
    if not said or not said <= {*names}:  # which else are their order
        names, of_kind = without_prefix(found := in_order(found), said)
    if len(found) == 1:  # of the second of two classes, which may be called as one of two labels
        of_kind = of_kind or PREFIXES.get(f"{found[0].lower()}_")
        both = next((set(two) for two in (said, how.known) if len(two) == 2 and set(two) > {*names}), set())
        names = (*(both - {*names}), *names)
    told = (f"no classes: {listed(odd)}",) if odd else ()
    return Classes(found, names, of_kind, told)


def in_order(found: Sequence[str]) -> list[str]:
    """Columns as labels that are positions count them: by their numbers, as 10 comes after 2, and "no" before "yes"."""
    return numbered(found) or list(found[::-1] if _ends(found[::-1]) in PAIRS else found)


def _ends(names: Sequence[str]) -> tuple[str, ...]:
    """What follows the common beginning of names, in small letters."""
    lower = [name.lower() for name in names]
    return tuple(name.removeprefix(commonprefix(lower)) for name in lower)


def _shown(rest: list[str], said: set[str], how: Columns) -> list[str]:
    """The columns that names show to be classes, in the order of the table; none if there are none.

    Of a calibrator whose classes are all there they are these: of several such sets the one whose prefix says the kind,
    or without a kind any that has a prefix, as in a fit; else the one without a prefix.

    Else they are those with a prefix, where labels do not speak against it, and one alone where there are two labels,
    or two classes that are known. Those of the kind come first. Others are refused later by their names, but where
    labels name columns beside them.
    """
    sets = {of: {name[len(of) :]: name for name in rest if name.startswith(of) and name != of} for of in PREFIXES}
    sets[""] = {name: name for name in rest}
    if fitted := [prefix for prefix, names in sets.items() if how.known and {*how.known} <= {*names}]:
        kinds = (how.kind or how.fitted,)
        likely = [prefix for prefix in fitted if prefix and (kinds == (None,) or PREFIXES[prefix] in kinds)]
        if len(likely) > 1:
            raise expected("classes", "the columns of one set (--classes)", f"those of {' and '.join(likely)}")
        names = sets[(likely or sorted(fitted))[0]]  # "" comes first
        return [column for name, column in names.items() if name in how.known]
    found, two = {}, said or {*how.known}
    for prefix, names in sets.items():
        fits = said <= {*names} or _are_positions(said, len(names))
        if len(names) == 1:
            fits = len(two) == 2 and not two <= set(rest) and (_are_positions(two, 1) or {*names} < two)
        if names and PREFIXES.get(prefix) and fits:
            found[prefix] = list(names.values())
    found = {prefix: names for prefix, names in found.items() if len(names) > 1} or found
    found = {prefix: names for prefix, names in found.items() if how.kind in (PREFIXES[prefix], None)} or found
    if how.kind is not None and said and said <= set(rest) and how.kind not in map(PREFIXES.get, found):
        return []
    if len(found) > 1:
        got = f"columns of both, {' and '.join(f'{prefix}...' for prefix in found)}"
        raise expected("kind", "logits or probabilities, where a table holds both (--kind)", got)
    return next(iter(found.values()), [])


def _are_positions(said: Collection[str], last: int) -> bool:
    """Whether labels are numbers up to that of the last class, or true and false."""
    return all(name.lower() in ("false", "true") or (name.isdecimal() and int(name) <= last) for name in said)


def without_prefix(found: list[str], said: Collection[str] = ()) -> tuple[tuple[str, ...], Kind | None]:
    """The names of classes, and what their prefix says that they hold."""
    for prefix, kind in PREFIXES.items():
        if all(name.startswith(prefix) and len(name) > len(prefix) for name in found):
            return tuple(found if said and set(said) <= set(found) else [name[len(prefix) :] for name in found]), kind
    return tuple(found), None


def _beside(table: DataFrame, said: set[str], found: list[str], how: Columns) -> list[str]:
    """Columns of numbers that are no classes. ValueError where they may be, or may not."""
    want = "with a column for each class and no other numbers"
    numbers = [int(name) for name in said if name.isdecimal()]
    digits, of_columns = len(numbers) == len(said), bool(said) and said <= set(found)
    odd = [name for name in found if name not in said]
    if of_columns:  # of numbered classes one may have no sample
        odd = [name for name in odd if not (digits and name.isdecimal())]
    else:  # labels that are positions, or wrong
        odd = [name for name in odd if name.lower() in NO_CLASSES]
    rest = [name for name in found if name not in odd]
    two = len(said) <= 2 and _are_positions(said, 2) and not of_columns  # one score would do
    score = [name for name in found if two and name.lower() in SCORES]
    others = [name for name in found if name not in score] if len(score) == 1 else odd or rest[-1:]
    cure = f"leave out what is no class{_option(others)}, or say that all are (--ignore without a name)"
    if how.kind != "logits":
        numeric = [name for name in found if table[name].dtype.kind in "fiu"]
        x = table[numeric].to_numpy(dtype=float, na_value=np.nan)
        shares = [name for name, within in zip(numeric, ((x >= 0) & (x <= 1)).all(0), strict=True) if within]
        for classes in (found, rest, shares):  # without any of them they would not sum to 1
            among = [name in classes for name in numeric]
            if sum(among) == len(classes) and kind_of(x[:, among]) == "probabilities":
                return [name for name in found if name not in classes]
    named = without_prefix(rest, said)[0] == tuple(rest) and not all(name.isdecimal() for name in rest)
    if named and digits and 1 <= max(numbers, default=0) < len(rest) - 1:  # which one is no class?
        raise expected("source", want, f"the columns {listed(rest)}, and no label above {max(numbers)}; {cure}")
    scores = [name.lower() for name in found if name.lower() not in BESIDE]
    if len(score) == 1 and len(scores) == 2:
        return others
    if two and named and not how.known and len(rest) == 2 and _ends(rest) not in PAIRS:
        raise expected("source", want, f"the columns {listed(rest)}, which no label names; {cure}")
    if not odd:
        return []
    if len(scores) == 1 and scores[0] not in NO_CLASSES - {"score"}:  # of the second of two classes
        return [name for name in odd if name.lower() in BESIDE]
    if len(rest) > 1 and {name.lower() for name in odd} <= BESIDE:
        if said <= set(rest) or not digits or max(numbers) < len(rest):  # positions, but none of a column beside
            return odd
    raise expected("source", want, f"the columns {listed(odd)}, which no label names; {cure}")


def _is_text(column: Series) -> bool:
    """Whether no cell of a column is a number, as of names, dates and yes and no."""
    kind = column.dtype.kind
    return kind in "bmM" or (kind not in "fiu" and all(_number(cell) is None for cell in _distinct(column)))


def _is_list(column: Series) -> bool:
    """Whether cells of a column hold several numbers, as JSON has them."""
    cell = next(iter(column.dropna()), None)
    cell = list(cell.values()) if isinstance(cell, dict) else cell
    return isinstance(cell, list | tuple | np.ndarray) and all(isinstance(x, Real) for x in cell)


def _odd_cell(table: DataFrame, name: str) -> str:
    """Where a column of text stands that has numbers too."""
    for row, cell in enumerate(table[name], 1):
        if _number(cell) is None:
            return f"{cell!r} in the column {name!r}, row {row}"
    return f"the column {name!r} of text"


def _number(cell: object) -> float | None:
    """What a cell is the text of."""
    try:
        return float(cell)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None


def _distinct(column: Series) -> list:
    """The cells that are not missing, each once; a list or a dict, as JSON has them, as its text."""
    column = column.dropna()
    try:
        return column.unique().tolist()
    except TypeError:
        return column.astype(str).unique().tolist()


def as_text(labels: Series | np.ndarray) -> set[str]:
    """Labels as the names of columns: 1.0 is "1"."""
    distinct = np.unique(labels).tolist() if isinstance(labels, np.ndarray) else _distinct(labels)
    return {str(int(label) if isinstance(label, float) and label.is_integer() else label) for label in distinct}


def _option(names: Collection) -> str:
    """How the command line leaves these out."""
    shown = " ".join(f"'{name}'" if " " in str(name) else str(name) for name in list(names)[:6])
    return f" (--ignore {shown})"


def listed(names: Collection) -> str:
    """The first few names."""
    shown = [repr(name) for name in list(names)[:6]]
    return ", ".join(shown) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
