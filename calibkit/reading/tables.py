"""A table becomes outputs, labels and splits: which of its columns and rows are what, by their names and numbers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from calibkit._arrays import collected
from calibkit._checks import expected
from calibkit._extras import needs
from calibkit.logits import Kind, agreed_kind, kind_of
from calibkit.reading.columns import LABELS, PREFIXES, Columns, called, class_columns, listed

if TYPE_CHECKING:
    from pandas import DataFrame, Series

#: What an array of outputs may be called, and what it then holds; None: either.
OUTPUTS: dict[str, Kind | None] = {
    "logits": "logits",
    **dict.fromkeys(("probs", "probabilities", "y_prob", "y_proba"), "probabilities"),
    **dict.fromkeys(("y_score", "scores", "outputs")),
}
#: What a split may be called, in any case.
SPLITS = {
    **dict.fromkeys(("val", "valid", "validation", "dev"), "val"),
    **dict.fromkeys(("test", "testing"), "test"),
    **dict.fromkeys(("train", "training"), "train"),
}
EMPTY = ("", "nan", "NaN", "None", "<NA>", "NaT")  # labels, unless a class is called so


@dataclass(frozen=True)
class Part:
    """Outputs of one split as they were given.

    Attributes:
        outputs: (N, K) logits or probabilities; (N,) or (N, 1) of the second of two classes.
        labels: (N,) integers, or names of classes; None where they were not asked for.
        groups: (N,) integers: samples of one number belong together, as the pixels of an image; None: none do.
    """

    outputs: np.ndarray
    labels: np.ndarray | None
    groups: np.ndarray | None = None


@dataclass(frozen=True)
class Given:
    """What was read.

    Attributes:
        val: to fit on; the only part, if there is one.
        test: to judge by, or None.
        kind: what the outputs are said to be.
        classes: K names, of a table's columns; that of one column where it stands for two classes that labels do not
            name; empty where nothing has names.
        source: what to call it in a report.
        told: what was guessed, in words.
        others: the columns of a table that are no classes, in the order of its rows; None of two tables and of arrays.
    """

    val: Part
    test: Part | None
    kind: Kind
    classes: tuple[str, ...] = ()
    source: str = "the data"
    told: tuple[str, ...] = ()
    others: DataFrame | None = None

    @classmethod
    def of(cls, parts: Sequence[Part], *facts: Any, **others: Any) -> Given:
        """Of one part, or of two."""
        return cls(parts[0], parts[1] if len(parts) > 1 else None, *facts, **others)

    @property
    def parts(self) -> tuple[Part, ...]:
        """What there is of the two."""
        return (self.val,) if self.test is None else (self.val, self.test)


def as_pandas(source: Any) -> Any:
    """A table of polars, Arrow or another library as one of pandas; whatever else as it is."""
    source = collected(source)
    if not hasattr(source, "columns") or hasattr(source, "iloc"):
        return source
    if hasattr(source, "to_pandas"):
        return source.to_pandas()
    with needs("report"):
        import pyarrow
    return pyarrow.table(source).to_pandas() if hasattr(source, "__arrow_c_stream__") else source


def of_table(table: DataFrame, how: Columns) -> Given:
    """What a table holds; without ``labelled`` all rows are one part, in their order, and labels may be absent."""
    _check_names(table)
    if not len(table):
        raise expected("source", "a table with rows", "none")
    if not all(isinstance(name, str) for name in table):
        table = table.set_axis(list(map(str, table.columns)), axis=1)
    types = ((name, of) for name, of in table.dtypes.items() if isinstance(of, np.dtype))  # pandas' own are none
    swapped = {name: of.newbyteorder("=") for name, of in types if not of.isnative}
    table = _spread(table.astype(swapped) if swapped else table)
    asked = _asked(table, how)
    named = {*how.known, *map(str, how.classes if np.iterable(how.classes) else ())}
    no_class = [name for name in table if name not in named]
    label = asked["label"] or called(LABELS, no_class)
    if label is None and how.labelled:
        if scores := scores_of_labels(table, how.kind):
            return _of_labels(table, how, scores)
        raise expected("label", "the name of a column (--label)", f"none, where there are {listed(table.columns)}")
    split, group = (asked[what] or called([what], no_class) for what in ("split", "group"))
    others = [name for name in (label, split, group, asked["id"]) if name is not None]
    found = class_columns(table, label, others, how)
    ignored = {*map(str, how.ignore or ())}
    split, group = (name if how.labelled and name not in ignored else None for name in (split, group))
    rows, told = ([np.arange(len(table))], []) if split is None else _splits(table[split], split)
    if how.labelled and label != (asked["label"] or "label"):
        told.insert(0, f"labels: {label!r}")
    outputs = table[found.columns].to_numpy(dtype=float, na_value=np.nan)
    kept = np.concatenate(rows)
    holes: dict[Any, np.ndarray] = {label: _are_empty(table[label], found.names)} if how.labelled else {}
    holes |= {} if group is None else {group: table[group].isna().to_numpy()}
    if np.isnan(outputs.sum()):  # once over all of them, as there are hardly ever any
        holes |= dict(zip(found.columns, np.isnan(outputs).T, strict=True))
    _check_whole(holes, kept, None if asked["id"] is None else table[asked["id"]])
    labels = _labels(table[label], found.names[1:] and found.names) if label in table else None
    if labels is not None and labels.dtype == object and len(found.names) == 1 and how.labelled:
        names, column = listed(sorted(set(labels))), found.columns[0]
        want = f"0 and 1, where {column!r} is of class 1, or two names of which that column has one, as 'prob_cat'"
        raise expected(str(label), want, names)
    groups = None if group is None else table[group]
    if groups is not None:
        groups = groups.to_numpy() if groups.dtype.kind in "iu" else groups.factorize()[0]
    parts = [Part(outputs[of], *(None if x is None else x[of] for x in (labels, groups))) for of in rows]
    said: Any = agreed_kind(how.kind, found.kind) or kind_of(outputs if len(kept) == len(outputs) else outputs[kept])
    all_told = (*table.attrs.get("told", ()), *told, *found.told)
    return Given.of(parts, said, found.names, told=all_told, others=table.drop(columns=found.columns))


def _check_names(table: DataFrame) -> None:
    """Refuse columns without a name, or with one that another has."""
    if table.columns.nlevels > 1:
        raise expected("source", "a table with one name for each column", f"{table.columns.nlevels} rows of names")
    if table.columns.hasnans:
        raise expected("source", "a table with a name for each column", f"the columns {listed(table.columns)}")
    names = list(map(str, table.columns))
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise expected("source", "a table whose columns have different names", f"more than one called {listed(twice)}")


def scores_of_labels(names: Collection[str], kind: str | None) -> dict[str, str]:
    """Of several labels a row the column of each and that of its score: ``label_cat`` and ``prob_cat``; or none.

    Example:
        >>> scores_of_labels(["p_cat", "label_dog", "p_dog", "label_cat"], None)
        {'label_dog': 'p_dog', 'label_cat': 'p_cat'}
    """
    labels = [name.removeprefix("label_") for name in names if name.startswith("label_")]
    found = []
    for prefix, of in PREFIXES.items():
        scores = {name.removeprefix(prefix) for name in names if name.startswith(prefix)}
        if len(labels) > 1 and scores == set(labels) and (of is None or kind in (of, None)):
            found.append({f"label_{name}": prefix + name for name in labels})
    if len(found) > 1:
        raise expected("kind", "logits or probabilities, where a table holds both (--kind)", "columns of both")
    return found[0] if found else {}


def _of_labels(table: DataFrame, how: Columns, scores: dict[str, str]) -> Given:
    """A table with several labels a row, and a score for each: each by itself, then side by side."""
    each = [of_table(table, how._replace(label=of, classes=[score])) for of, score in scores.items()]
    parts = []
    for found in zip(*(one.parts for one in each), strict=True):
        labels: Any = [part.labels for part in found]
        parts.append(Part(np.hstack([part.outputs for part in found]), np.stack(labels, 1), found[0].groups))
    names = tuple(of.removeprefix("label_") for of in scores)
    told = (f"labels: {listed(scores)}", *(text for text in each[0].told if not text.startswith("labels: ")))
    said: Any = each[0].kind or kind_of(parts[0].outputs)
    return Given.of(parts, said, names, told=told, others=table.drop(columns=[*scores.values()]))


def _asked(table: DataFrame, how: Columns) -> dict[str, str | None]:
    """The names that were asked for, as text; ValueError where there is no such column."""
    asked = {}
    for what in ("label", "split", "group", "id"):
        name = getattr(how, what)
        if name is not None and not isinstance(name, str | int):
            raise expected(what, "the name of a column", repr(name))
        if name is not None and str(name) not in table and (how.labelled or what == "id"):
            raise expected(what, "a column of the table", f"{name!r}, where it has {listed(table.columns)}")
        asked[what] = None if name is None else str(name)
    return asked


def _spread(table: DataFrame) -> DataFrame:
    """A column of lists, as of JSON lines, becomes a column a class, with the prefix of what its name says."""
    for name in (name for name in OUTPUTS if name in table):
        if isinstance(table[name].iloc[0], list | tuple | np.ndarray):
            prefix = next(prefix for prefix, of in PREFIXES.items() if of == OUTPUTS[name])
            try:
                lists = type(table)(np.array(table[name].tolist(), dtype=float)).add_prefix(prefix)
            except (TypeError, ValueError, OverflowError) as error:
                raise expected("source", f"a table with as many {name} in each row", "other numbers of them") from error
            return table.drop(columns=name).reset_index(drop=True).join(lists)
    return table


def _splits(column: Series, name: str) -> tuple[list[np.ndarray], list[str]]:
    """The rows of val and test, or of the one set that there is; and what of this is told."""
    said = column.astype(str)
    of = said.str.strip().str.lower().map(SPLITS)
    words = {part: sorted(set(said[of == part])) for part in ("val", "test", "train")}
    odd = said[of.isna()].unique() if of.isna().any() else [] if words["val"] + words["test"] else words["train"]
    if len(odd):
        want = f'a column of "val" and "test" (--split names another, --ignore {name} takes all rows)'
        raise expected(name, want, listed(odd))
    uses = {"val": "to fit on", "test": "to judge by", "train": f"left out, {int((of == 'train').sum()):,} of them"}
    told = [f"rows of {listed(words[part])}: {use}" for part, use in uses.items() if words[part] not in ([], [part])]
    told += [f"rows of 'train': {uses['train']}"] if words["train"] == ["train"] else []
    return [np.flatnonzero(of == part) for part in ("val", "test") if words[part]], told


def _check_whole(holes: dict[str, np.ndarray], kept: np.ndarray, names: Series | None) -> None:
    """Refuse ``holes`` of columns in the rows that are ``kept``, and name the first, also by the ``names`` of rows."""
    rows = {column: np.intersect1d(kept, np.flatnonzero(bad)) for column, bad in holes.items()}
    if found := [(bad[0], len(bad), column) for column, bad in rows.items() if len(bad)]:
        row, n_rows, column = min(found, key=lambda hole: hole[0])
        who = f" ({names.name} {names.iloc[row]!r})" if names is not None else ""
        more = f" and {n_rows - 1} others" * (n_rows > 1)
        got = f"none in {column!r} of row {row + 1}{who}{more}, the first being 1"
        raise expected("source", "a table with a value in each row", got)


def _are_empty(labels: Series, classes: Collection[str]) -> np.ndarray:
    """Which labels are missing, unless a class is called so."""
    text = labels.astype(str)
    return ((labels.isna() & ~text.isin(classes)) | text.isin({*EMPTY} - {*classes})).to_numpy()


def _labels(labels: Series, classes: Collection[str]) -> np.ndarray:
    """Labels that name no class as the numbers that they are the text of, as a csv writes them; others as they are."""
    text = labels.astype(str)
    if labels.dtype.kind in "iufbc" or set(text) <= set(classes):
        return labels.to_numpy()
    if set(text.str.lower()) <= {"true", "false"}:
        return (text.str.lower() == "true").to_numpy()
    try:
        return labels.astype(float).to_numpy()
    except (TypeError, ValueError, OverflowError):
        return text.to_numpy(dtype=object)
