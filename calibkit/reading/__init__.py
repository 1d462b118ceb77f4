"""A classifier's outputs on held-out samples, from whatever they are kept in.

``read`` finds out what is where and checks nothing else: :mod:`calibkit.reporting` says what is wrong with the numbers.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Union, get_args

import numpy as np
import torch

from calibkit._arrays import collected
from calibkit._checks import Array, check_choice, check_flag, expected, to_numpy
from calibkit._files import as_path
from calibkit.logits import ARRAYS, Kind, Logits, agreed_kind, kind_of, kind_of_fit
from calibkit.reading.columns import LABELS, Columns, Name, as_text, called
from calibkit.reading.files import opened
from calibkit.reading.tables import OUTPUTS, Given, Part, as_pandas, of_table

if TYPE_CHECKING:
    from pandas import DataFrame

#: What is read: a path, a Logits object, a DataFrame, of pandas or another, arrays by name, outputs, a pair.
Source = Union[str, os.PathLike, Logits, "DataFrame", Mapping[str, Array], Array, tuple[Array, Array]]
PREFIXES = ("", "val_", "test_")
NAMES = tuple(prefix + name for prefix in PREFIXES for name in (*OUTPUTS, *LABELS, "groups"))


def read(
    source: Source,
    labels: Source | None = None,
    *,
    kind: Kind | None = None,
    label: Name = None,
    split: Name = None,
    group: Name = None,
    id: Name = None,
    classes: Collection[str] | None = None,
    ignore: Collection[str] | None = None,
    labelled: bool = True,
    known: tuple[Collection[str], Kind | None] = ((), None),
) -> Given:
    """Outputs and labels from a file, a folder, a table or arrays.

    Args:
        source: a Logits object; arrays by name; (N, K) outputs, with ``labels`` beside them or as a pair; a DataFrame,
            of pandas, polars or Arrow; or the path of a file. In npz and torch files (read with ``weights_only``),
            folders and mappings the arrays are called ``logits``, ``probs`` or ``probabilities`` (``y_prob``,
            ``y_proba``, ``y_score``, ``scores``, ``outputs``), ``labels`` (``label``, ``y_true``, ``target``,
            ``targets``, ``y``) and perhaps ``groups``, with ``val_`` and ``test_`` before it where there are two
            splits. A table has a column of labels, and one a class, which may be called ``logit_`` or ``prob_`` and its
            name, or one score of the second of two classes, which is told from other numbers where it is called
            ``score`` or ``logit`` or has such a prefix. A csv may have ``;`` or tabs between its cells.
        labels: (N,), or the path of an .npy file, for a ``source`` of outputs alone; or the test set, where it holds
            labels of its own: ``source`` is then the validation set.
        kind: what the outputs are, where no name says it, nor numbers below 0 or rows that sum to 1.
        label: the column of labels; None: "label", or "target", "y_true" or "y". A label is the name of a column, or a
            number.
        split: the column that says "val" ("validation", "valid", "dev") or "test"; rows of "train" are left out. None:
            "split", if it is there.
        group: a column of integers or names, of samples that belong together; None: "group", if it is there and not
            among ``ignore``.
        id: a column that names the rows.
        classes: of a table, the names of the columns that are classes; all that are left if None.
        ignore: of a table, the names of columns that are none. A column of numbers that no label names, or one that is
            called as an index is, is left out where the others are shown to be all classes, and else refused unless
            either is given. Text is left out.
        labelled: whether labels must be there. Without, all rows of a table are one part, in their order.
        known: the classes that columns must be among others, and the kind of what nothing says it: a calibrator's.

    Raises:
        ValueError: no such format, arrays or columns missing or named twice, a column that may be no class, a value
            that is missing, ``kind`` open or against the names.
        FileNotFoundError: no such file.

    Example:
        >>> given = read({"probs": np.array([[0.9, 0.1]]), "labels": np.array([0])})
        >>> given.kind, given.val.outputs.shape, given.test
        ('probabilities', (1, 2), None)
    """
    if kind is not None:
        check_choice("kind", kind, get_args(Kind))
    how = Columns(label, split, group, id, classes, ignore, kind, check_flag("labelled", labelled), *known)
    held, beside = (_held(each, how) for each in (source, labels))
    names = [str(each) for each in (source, labels) if isinstance(each, str | os.PathLike)]
    if isinstance(held, tuple) and len(held) == 2 and beside is None:
        held, beside = held
    if not (_is_table(held) or _is_table(beside)):
        for what in ("id", "classes", "ignore"):
            if (asked := getattr(how, what)) is not None:
                raise expected(what, "None beside what is no table and has no columns", repr(asked))
    if not _is_whole(held):
        if beside is None and labelled:
            want = "given beside an array of outputs, as an array or the path of an .npy file"
            raise expected("labels", want, "None")
        held, beside, names = {"outputs": _array("source", held), "labels": beside}, None, names[:1]
    if beside is not None and not _is_whole(beside):
        want = "a test set with labels of its own, or None, beside arrays by name or a table, which hold theirs"
        raise expected("labels", want, type(beside).__name__)
    given = _one(held, how)
    if beside is not None:
        of_val = how._replace(kind=kind or given.kind, known=given.classes, fitted=None)
        given = _two(given, _one(beside, of_val))
    said, told = given.kind, given.told
    if said is None:
        odd = not {*how.known} <= {*(given.classes or how.known)}  # `apply` will refuse these by their names
        said = how.fitted if odd and how.fitted else kind_of_fit([part.outputs for part in given.parts], how.fitted)
        told += (f"{said}, as what the calibrator was fitted to",)
    return replace(given, kind=said, told=told, source=" and ".join(names) or "the data")


def _held(source: Any, how: Columns) -> Any:
    """What a path or another library's table holds; all else as it is."""
    if not isinstance(source, str | os.PathLike):
        return as_pandas(source)
    label, row_id = (None if name is None else str(name) for name in (how.label, how.id))
    return opened(as_path(source), NAMES, lambda header: set(header) & {label or called(LABELS, header), row_id})


def _is_table(held: Any) -> bool:
    return hasattr(held, "columns") and hasattr(held, "iloc")


def _is_whole(held: Any) -> bool:
    """Whether it holds labels beside its outputs."""
    return isinstance(held, Logits | Mapping) or _is_table(held)


def _one(held: Any, how: Columns) -> Given:
    """What has outputs and labels by their names."""
    if isinstance(held, Logits):
        held = {name: getattr(held, name) for name in (*ARRAYS, "test_groups")}
    if isinstance(held, Mapping):
        return _of_arrays(held, how.kind, how.labelled)
    try:
        return of_table(held, how)
    except UnicodeEncodeError as error:  # half a pair of surrogates, which JSON may hold
        raise expected("source", "a table whose text can be encoded in UTF-8", repr(error.object)) from error


def _two(val: Given, test: Given) -> Given:
    """A validation set and a test set, their columns in one order."""
    if val.test is not None or test.test is not None:
        raise expected("labels", "a test set beside a validation set, one of them in each", "more than two sets")
    part, names = test.val, test.classes
    if len(val.classes + names) == 1:  # the name of one column, beside an array
        names = val.classes
    if sorted(val.classes) != sorted(names):
        want = f"a test set of the classes {', '.join(val.classes[:5])} ..., as the validation set is"
        raise expected("labels", want, ", ".join(names[:6]) or "arrays without names")
    if val.classes != names:
        if part.outputs.shape[1] == 1:
            want = f"a test set whose one column is of {val.classes[1]!r}, as that of the validation set is"
            raise expected("labels", want, f"one of {names[1]!r}")
        odd = set() if part.labels is None else {*as_text(part.labels)} - {*names}
        if odd:
            want = "names of classes, as the two tables have their columns in different orders"
            raise expected("labels", want, repr(min(odd)))
        part = replace(part, outputs=part.outputs[:, [names.index(name) for name in val.classes]])
    kind: Any = agreed_kind(None, val.kind, test.kind)
    return replace(val, test=part, kind=kind, told=tuple(dict.fromkeys(val.told + test.told)), others=None)


def _of_arrays(arrays: Mapping[str, Array], kind: Kind | None, labelled: bool) -> Given:
    """Arrays by name: one split, or val and test."""
    arrays = {name: x for name, x in arrays.items() if x is not None}
    outputs = [(prefix, name) for prefix in PREFIXES for name in OUTPUTS if prefix + name in arrays]
    prefixes = [prefix for prefix, _ in outputs]
    if prefixes not in ([""], ["val_"], ["test_"], ["val_", "test_"]):
        want = "with one array of outputs, `logits` or `probs`, or with one of each `val_` and `test_`"
        got = ", ".join(prefix + name for prefix, name in outputs) or ", ".join(map(str, arrays)) or "none"
        raise expected("source", want, got)
    named = agreed_kind(kind, *(OUTPUTS[name] for _, name in outputs))
    parts, told = [], []
    for prefix, name in outputs:
        labels = next((of for of in LABELS if prefix + of in arrays), "labels")
        if prefix + labels not in arrays and labelled:
            raise expected("source", f"with `{prefix}labels` beside `{prefix}{name}`", ", ".join(arrays))
        told += [f"labels: {prefix + labels!r}"] if labelled and labels != "labels" else []
        held = {of: arrays.get(prefix + of) for of in (name, labels, "groups")}
        found = {of: _array(prefix + of, array) for of, array in held.items() if array is not None}
        parts.append(Part(found[name], found.get(labels), found.get("groups")))
    return Given.of(parts, named or agreed_kind(None, *(kind_of(part.outputs) for part in parts)), told=tuple(told))


def _array(name: str, x: object) -> np.ndarray:
    """Numpy of what was given; text and objects as they are, for labels may be names."""
    if isinstance(x, np.ndarray) and not np.ma.isMaskedArray(x):
        return x
    x = collected(x)
    if not isinstance(x, torch.Tensor):
        with suppress(Exception):  # rows of different lengths, an object that raises; `to_tensor` says so
            values = np.asarray(x)
            if values.dtype.kind in "OUST":
                return values
    return to_numpy(name, x)


__all__ = ["Columns", "Given", "Kind", "Part", "Source", "read"]
