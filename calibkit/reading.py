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
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import torch

from calibkit._checks import Array, check_choice, expected, to_tensor
from calibkit._extras import needs
from calibkit._files import read_folder, read_npz
from calibkit.logits import Logits

if TYPE_CHECKING:
    from pandas import DataFrame

Kind = Literal["logits", "probabilities"]
#: What an array of outputs may be called, and what it then holds; "val_" or "test_" may stand before each name.
OUTPUTS = {"logits": "logits", "probs": "probabilities", "probabilities": "probabilities"}
PREFIXES = ("", "val_", "test_")
NAMES = tuple(prefix + name for prefix in PREFIXES for name in (*OUTPUTS, "labels", "groups"))
TABLES = (".csv", ".parquet", ".pq")
TORCH = (".pt", ".pth")
FILES = "an .npz, .npy, .pt, .csv or .parquet file, or a folder of .npy files"


@dataclass(frozen=True)
class Part:
    """Outputs of one split as they were given.

    Attributes:
        outputs: (N, K) logits or probabilities.
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
        classes: K names, of a table's columns; empty where nothing has names.
        source: what to call it in a report.
    """

    val: Part
    test: Part | None
    kind: Kind
    classes: tuple[str, ...] = ()
    source: str = field(default="the data")


def read(
    source: str | os.PathLike | Logits | DataFrame | Mapping[str, Array] | tuple[Array, Array],
    labels: str | os.PathLike | Array | None = None,
    *,
    kind: Kind | None = None,
    label: str = "label",
    split: str = "split",
    group: str = "group",
    labelled: bool = True,
) -> Given:
    """Outputs and labels from a file, a folder, a table or arrays.

    Args:
        source: a Logits object; arrays by name; (N, K) outputs, with ``labels`` beside them or as a pair; a DataFrame;
            or the path of a file. In npz and torch files (read with ``weights_only``), folders and mappings the arrays
            are called ``logits``, ``probs`` or ``probabilities``, ``labels`` and perhaps ``groups``, each with ``val_``
            and ``test_`` before it where there are two splits. A table has a column a class and one of labels.
        labels: (N,), or the path of an .npy file; for a ``source`` of outputs alone.
        kind: what the outputs are, where no name says it.
        label: the column of labels; a label is the name of a column, or a number.
        split: a column that says "val" or "test", if the table has one of this name.
        group: a column of integers, of samples that belong together, if there is one of this name.
        labelled: whether labels must be there. Without, all rows of a table are one part, in their order.

    Raises:
        ValueError: no such format, arrays or columns missing or named twice, ``kind`` unknown or against the names.
        FileNotFoundError: no such file.

    Example:
        >>> given = read({"probs": np.array([[0.9, 0.1]]), "labels": np.array([0])})
        >>> given.kind, given.val.outputs.shape, given.test
        ('probabilities', (1, 2), None)
    """
    if kind is not None:
        check_choice("kind", kind, get_args(Kind))
    name = str(source) if isinstance(source, str | os.PathLike) else "the data"
    if isinstance(source, str | os.PathLike):
        source = _open(Path(source), label)
    if isinstance(labels, str | os.PathLike):
        labels = _open(Path(labels))
    if isinstance(source, tuple) and len(source) == 2 and labels is None:
        source, labels = source
    if labels is not None and (isinstance(source, Logits | Mapping) or hasattr(source, "columns")):
        raise expected("labels", "None beside arrays by name or a table, which hold their own", type(labels).__name__)
    if isinstance(source, Logits):
        arrays = {"val_logits": source.val_logits, "val_labels": source.val_labels, **_test_of(source)}
        return _of_arrays(arrays, kind, name, labelled)
    if isinstance(source, Mapping):
        return _of_arrays(source, kind, name, labelled)
    if hasattr(source, "columns") and hasattr(source, "to_numpy"):
        return _of_table(source, kind, name, {"label": label, "split": split, "group": group}, labelled)
    if labels is None and labelled:
        raise expected("labels", "given beside an array of outputs, as an array or the path of an .npy file", "None")
    return Given(Part(_array("source", source), _array("labels", labels)), None, _said(kind, "an array"), (), name)


def _open(path: Path, label: str = "label") -> Any:
    """The arrays by name, the one array, or the table of a path."""
    if path.is_dir():
        arrays = read_folder(path, NAMES)
    elif path.suffix == ".npz":
        arrays = read_npz(path, NAMES)
    elif path.suffix == ".npy":
        return _npy(path)
    elif path.suffix in TORCH:
        return _torch(path)
    elif path.suffix in TABLES:
        return _table(path, label)
    else:
        path.stat()  # FileNotFoundError, with its name
        raise expected("source", FILES, repr(str(path)))
    if not arrays:
        raise expected("source", f"{FILES} with arrays named {', '.join(NAMES[:4])}", f"none of them in {str(path)!r}")
    return arrays


def _npy(path: Path) -> np.ndarray:
    try:
        return np.load(path, allow_pickle=False)
    except OSError:
        raise
    except Exception as error:  # a damaged file makes numpy raise whatever it likes
        raise expected("source", "an array of numbers that numpy.save wrote", repr(str(path))) from error


def _torch(path: Path) -> Any:
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception as error:  # damaged and foreign files raise whatever their reader likes
        raise expected("source", "a torch file of tensors alone, by name", f"{str(path)!r}") from error


def _table(path: Path, label: str) -> DataFrame:
    with needs("report"):
        import pandas as pd
        import pyarrow as pa
    path.stat()
    try:
        return _csv(path, label) if path.suffix == ".csv" else pd.read_parquet(path)
    except (ValueError, pa.ArrowException) as error:  # pandas' own errors are ValueErrors
        first = str(error).partition("\n")[0]
        raise expected("source", "a table that pandas reads", f"{first} in {str(path)!r}") from error


def _csv(path: Path, label: str) -> DataFrame:
    """A csv, exact to the last digit. Its labels are text as it stands: a class may be called "None", "NA" or "01"."""
    with needs("report"):
        import pandas as pd
    header = pd.read_csv(path, nrows=1, header=None, dtype=str, keep_default_na=False).iloc[0]
    others = [name for name in header if name != label]
    missing = ["", "#N/A", "N/A", "n/a", "NA", "<NA>", "NULL", "null", "NaN", "nan", "None"]
    text = {"dtype": {label: str}, "keep_default_na": False, "na_values": dict.fromkeys(others, missing)}
    old = int(pd.__version__.partition(".")[0]) < 3  # later ones are exact of themselves
    table = pd.read_csv(path, **text, **({"float_precision": "round_trip"} if old else {}))
    return table if header.is_unique else table.set_axis(list(header), axis=1)  # pandas numbers the second of a name


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
        held = (_array(prefix + part, arrays.get(prefix + part)) for part in (name, "labels", "groups"))
        parts.append(Part(*held))
    return Given(parts[0], parts[1] if len(parts) == 2 else None, kinds.pop(), (), source)


def _of_table(table: DataFrame, kind: Kind | None, source: str, columns: Mapping[str, str], labelled: bool) -> Given:
    """A table with a column a class, one of labels, and perhaps one each of splits and groups."""
    label, split, group = (columns[name] for name in ("label", "split", "group"))
    if label not in table and labelled:
        raise expected("label", "a column of the table", f"{label!r}, where it has {_listed(table.columns)}")
    if not len(table):
        raise expected("source", "a table with rows", "none")
    others = {label, split, group}
    classes = [name for name in table.columns if name not in others]
    if indexed := [name for name in classes if str(name).startswith("Unnamed: ")]:
        raise expected(
            "source", "a table without an index; write it with index=False", f"the columns {_listed(indexed)}"
        )
    if not table.columns.is_unique:
        raise expected("source", "a table whose columns have different names", f"the columns {_listed(table.columns)}")
    odd = [name for name in classes if table[name].dtype.kind not in "fiu"]
    if odd or len(classes) < 2:
        want = f"with a column of numbers for each class beside {label!r}; leave out what is none"
        raise expected("source", want, f"the columns {_listed(odd or table.columns)}")
    kind, names = _said(kind, "a table"), tuple(map(str, classes))
    if label in table and table[label].dtype.kind not in "iufb" and not set(table[label].astype(str)) <= set(names):
        try:
            table = table.assign(**{label: table[label].astype(float)})  # numbers, as a csv writes them
        except (TypeError, ValueError):
            pass

    def part(rows: DataFrame) -> Part:
        groups = rows[group].to_numpy() if group in rows else None
        labels = rows[label].to_numpy() if label in rows else None
        return Part(rows[classes].to_numpy(dtype=float), labels, groups)

    if split not in table or not labelled:
        return Given(part(table), None, kind, names, source)
    found = set(table[split].unique())
    if found != {"val", "test"}:
        raise expected(split, 'a column of "val" and "test", both of them', _listed(found))
    return Given(*(part(table[table[split] == which]) for which in ("val", "test")), kind, names, source)


def _said(kind: Kind | None, where: str) -> Kind:
    """``kind``, where no name says it."""
    if kind is None:
        raise expected("kind", f"logits or probabilities, as the names in {where} do not say which", "nothing")
    return kind


def _array(name: str, x: object) -> np.ndarray | None:
    """Numpy of what was given; text and objects as they are, for labels may be names."""
    if x is None:
        return None
    if isinstance(x, np.ndarray) and not np.ma.isMaskedArray(x):
        return x
    if not isinstance(x, torch.Tensor):
        try:
            values = np.asarray(x)
        except ValueError:  # rows of different lengths, which `to_tensor` says
            values = None
        if values is not None and values.dtype.kind in "OUST":
            return values
    tensor = to_tensor(name, x).cpu()
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def _listed(names: Collection) -> str:
    """The first few names."""
    shown = [repr(name) for name in list(names)[:6]]
    return ", ".join(shown) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
