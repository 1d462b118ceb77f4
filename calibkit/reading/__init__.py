"""A classifier's outputs on held-out samples, from whatever they are kept in.

``read`` takes arrays, Logits files, folders of .npy, npz and torch files, csv, parquet and DataFrames. It finds out
what is where and checks nothing else: :mod:`calibkit.reporting` says what is wrong with the numbers.

Whether outputs are logits or probabilities is said by the name of their array, or by ``kind``; it is never guessed.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Union, get_args

import numpy as np
import torch

from calibkit._checks import Array, check_choice, expected, to_tensor
from calibkit.logits import Logits
from calibkit.reading.columns import class_columns, listed
from calibkit.reading.files import opened

if TYPE_CHECKING:
    from pandas import DataFrame, Series

Kind = Literal["logits", "probabilities"]
#: What is read: a path, a Logits object, a DataFrame, of pandas or another, arrays by name, outputs, a pair.
Source = Union[str, os.PathLike, Logits, "DataFrame", Mapping[str, Array], Array, tuple[Array, Array]]
#: What an array of outputs may be called, and what it then holds; "val_" or "test_" may stand before each name.
OUTPUTS: dict[str, Kind] = {"logits": "logits", "probs": "probabilities", "probabilities": "probabilities"}
PREFIXES = ("", "val_", "test_")
NAMES = tuple(prefix + name for prefix in PREFIXES for name in (*OUTPUTS, "labels", "groups"))


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
        classes: K names, of a table's columns; empty where nothing has names, or one column stands for two classes.
        source: what to call it in a report.
    """

    val: Part
    test: Part | None
    kind: Kind
    classes: tuple[str, ...] = ()
    source: str = field(default="the data")


def read(
    source: Source,
    labels: str | os.PathLike | Array | None = None,
    *,
    kind: Kind | None = None,
    label: str = "label",
    split: str = "split",
    group: str = "group",
    classes: Collection[str] | None = None,
    ignore: Collection[str] | None = None,
    labelled: bool = True,
) -> Given:
    """Outputs and labels from a file, a folder, a table or arrays.

    Args:
        source: a Logits object; arrays by name; (N, K) outputs, with ``labels`` beside them or as a pair; a DataFrame;
            or the path of a file. In npz and torch files (read with ``weights_only``), folders and mappings the arrays
            are called ``logits``, ``probs`` or ``probabilities``, ``labels`` and perhaps ``groups``, each with ``val_``
            and ``test_`` before it where there are two splits. A table has a column a class, or one score
            of the second of two classes, and one of labels; one of polars or pyarrow becomes one of pandas.
        labels: (N,), or the path of an .npy file; for a ``source`` of outputs alone.
        kind: what the outputs are, where no name says it.
        label: the column of labels; a label is the name of a column, or a number.
        split: a column that says "val" or "test", if the table has one of this name.
        group: a column of integers, of samples that belong together, if there is one of this name.
        classes: of a table, the names of the columns that are classes; all that are left if None.
        ignore: of a table, the names of columns that are none. A column of numbers that no label names, or one that is
            called as an index is, is refused unless either is given.
        labelled: whether labels must be there. Without, all rows of a table are one part, in their order.

    Raises:
        ValueError: no such format, arrays or columns missing or named twice, a column that may be no class, ``kind``
            unknown or against the names.
        FileNotFoundError: no such file.

    Example:
        >>> given = read({"probs": np.array([[0.9, 0.1]]), "labels": np.array([0])})
        >>> given.kind, given.val.outputs.shape, given.test
        ('probabilities', (1, 2), None)
    """
    if kind is not None:
        check_choice("kind", kind, get_args(Kind))
    name = str(source) if isinstance(source, str | os.PathLike) else "the data"
    held: Any = opened(Path(source), NAMES, label) if isinstance(source, str | os.PathLike) else source
    if isinstance(labels, str | os.PathLike):
        labels = opened(Path(labels), NAMES)
    if hasattr(held, "to_pandas"):
        held = held.to_pandas()
    if isinstance(held, tuple) and len(held) == 2 and labels is None:
        held, labels = held
    if labels is not None and (isinstance(held, Logits | Mapping) or hasattr(held, "columns")):
        raise expected("labels", "None beside arrays by name or a table, which hold their own", type(labels).__name__)
    is_table = hasattr(held, "columns") and hasattr(held, "to_numpy")
    for what, names in (("classes", classes), ("ignore", ignore)):
        if names is not None and not is_table:
            raise expected(what, "None beside what is no table and has no columns", repr(names))
    if isinstance(held, Logits):
        arrays = {"val_logits": held.val_logits, "val_labels": held.val_labels, **_test_of(held)}
        return _of_arrays(arrays, kind, name, labelled)
    if isinstance(held, Mapping):
        return _of_arrays(held, kind, name, labelled)
    if is_table:
        columns = {"label": label, "split": split, "group": group}
        for what, column in columns.items():
            if not isinstance(column, str | int):
                raise expected(what, "the name of a column", repr(column))
        return _of_table(held, kind, name, columns, (classes, ignore), labelled)
    if labels is None and labelled:
        raise expected("labels", "given beside an array of outputs, as an array or the path of an .npy file", "None")
    part = Part(_array("source", held), None if labels is None else _array("labels", labels))
    return Given(part, None, _said(kind, "an array"), (), name)


def _test_of(logits: Logits) -> dict[str, np.ndarray]:
    arrays = {"test_logits": logits.test_logits, "test_labels": logits.test_labels}
    return arrays if logits.test_groups is None else {**arrays, "test_groups": logits.test_groups}


def _of_arrays(arrays: Mapping[str, Array], kind: Kind | None, source: str, labelled: bool) -> Given:
    """Arrays by name: one split, or val and test."""
    outputs = [(prefix, name) for prefix in PREFIXES for name in OUTPUTS if prefix + name in arrays]
    prefixes = [prefix for prefix, _ in outputs]
    if prefixes not in ([""], ["val_"], ["test_"], ["val_", "test_"]):
        want = "with one array of outputs, `logits` or `probs`, or with one of each `val_` and `test_`"
        raise expected(
            "source", want, ", ".join(p + n for p, n in outputs) or f"{', '.join(map(str, arrays)) or 'none'}"
        )
    kinds = {OUTPUTS[name] for _, name in outputs}
    if len(kinds) > 1 or (kind is not None and kinds != {kind}):
        raise expected("kind", f"that of the names, {' and '.join(sorted(kinds))}", repr(kind))
    parts = []
    for prefix, name in outputs:
        if f"{prefix}labels" not in arrays and labelled:
            raise expected("source", f"with `{prefix}labels` beside `{prefix}{name}`", ", ".join(arrays))
        held = {of: arrays.get(prefix + of) for of in (name, "labels", "groups")}
        found = {of: _array(prefix + of, array) for of, array in held.items() if array is not None}
        parts.append(Part(found[name], found.get("labels"), found.get("groups")))
    return Given(parts[0], parts[1] if len(parts) == 2 else None, kinds.pop(), (), source)


def _of_table(
    table: DataFrame,
    kind: Kind | None,
    source: str,
    columns: Mapping[str, str],
    chosen: tuple[Collection[str] | None, Collection[str] | None],
    labelled: bool,
) -> Given:
    """A table with a column a class, one of labels, and perhaps one each of splits and groups."""
    label, split, group = (columns[name] for name in ("label", "split", "group"))
    if label not in table and labelled:
        raise expected("label", "a column of the table", f"{label!r}, where it has {listed(table.columns)}")
    if not len(table):
        raise expected("source", "a table with rows", "none")
    classes = class_columns(table, label, columns.values(), kind, *chosen)
    kind, names = _said(kind, "a table"), tuple(map(str, classes)) if len(classes) > 1 else ()
    if label in table and table[label].dtype.kind not in "iufb" and not set(table[label].astype(str)) <= set(names):
        table = table.assign(**{label: _numbers(table[label])})

    def part(rows: DataFrame) -> Part:
        groups = rows[group].to_numpy() if group in rows else None
        labels = rows[label].to_numpy() if label in rows else None
        return Part(rows[classes].to_numpy(dtype=float), labels, groups)

    if split not in table or not labelled:
        return Given(part(table), None, kind, names, source)
    found = set(table[split].unique())
    if found != {"val", "test"}:
        raise expected(split, 'a column of "val" and "test", both of them', listed(found))
    val, test = (part(table[table[split] == which]) for which in ("val", "test"))
    return Given(val, test, kind, names, source)


def _numbers(labels: Series) -> Series:
    """Labels that are no names as the numbers that they are the text of, as a csv writes them; others as they are."""
    if set(labels.astype(str).str.lower()) <= {"true", "false"}:
        return labels.astype(str).str.lower() == "true"
    try:
        return labels.astype(float)
    except (TypeError, ValueError):
        return labels


def _said(kind: Kind | None, where: str) -> Kind:
    """``kind``, where no name says it."""
    if kind is None:
        raise expected("kind", f"logits or probabilities, as the names in {where} do not say which", "nothing")
    return kind


def _array(name: str, x: object) -> np.ndarray:
    """Numpy of what was given; text and objects as they are, for labels may be names."""
    if isinstance(x, np.ndarray) and not np.ma.isMaskedArray(x):
        return x
    if not isinstance(x, torch.Tensor):
        try:
            values = np.asarray(x)
        except ValueError:  # rows of different lengths, which `to_tensor` says
            values = None
        if values is not None and values.dtype.kind in "OUST":
            return values
    return _numpy_of(to_tensor(name, x))


def _numpy_of(x: torch.Tensor) -> np.ndarray:
    """A tensor as numpy has it: single precision where numpy has no such numbers."""
    x = (x.dequantize() if x.is_quantized else x).cpu().resolve_conj().resolve_neg()
    if x.is_complex():
        return x.to(torch.complex128).numpy()
    known = not x.is_floating_point() or x.dtype in (torch.float16, torch.float32, torch.float64)
    return (x if known else x.float()).numpy()
