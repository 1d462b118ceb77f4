"""What the file of a path holds: arrays by name, one array, or a table; read with suspicion, and never as a pickle."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from calibkit._checks import expected
from calibkit._extras import needs
from calibkit._files import check_unpacked, check_zip, read_folder, read_npy, read_npz, regular

if TYPE_CHECKING:
    from pandas import DataFrame

TABLES = (".csv", ".parquet", ".pq")
TORCH = (".pt", ".pth")
FILES = "an .npz, .npy, .pt, .csv or .parquet file, or a folder of .npy files"


def opened(path: Path, names: Collection[str], label: str = "label") -> Any:
    """The arrays by name, the one array, or the table of a path.

    Args:
        path: of a file or a folder.
        names: what arrays may be called; others are not read.
        label: the column of labels of a table, which is text as it stands.

    Raises:
        ValueError: no such format, a damaged file, one that is no regular file or unpacks to far more than its size.
        FileNotFoundError: no such file.
    """
    if path.is_dir():
        arrays = read_folder(path, names)
    elif path.suffix == ".npz":
        arrays = read_npz(path, names)
    elif path.suffix == ".npy":
        return read_npy(path)
    elif path.suffix in TORCH:
        return _torch(regular(path), names)
    elif path.suffix in TABLES:
        return _table(path, label)
    else:
        path.stat()  # FileNotFoundError, with its name
        raise expected("source", FILES, repr(str(path)))
    if not arrays:
        some = ", ".join(list(names)[:4])
        raise expected("source", f"{FILES} with arrays named {some}", f"none of them in {str(path)!r}")
    return arrays


def _torch(path: Path, names: Collection[str]) -> Any:
    """What ``torch.save`` wrote, of tensors that take as much room in the file as in memory."""
    try:
        check_zip(path)
        found = torch.load(path, map_location="cpu", weights_only=True)
        held = [found.get(name) for name in names] if isinstance(found, Mapping) else [found]
        for x in held:
            if isinstance(x, torch.Tensor) and x.layout == torch.strided and not x.is_nested and x.device.type == "cpu":
                check_unpacked(x.numel() * x.element_size() - x.untyped_storage().nbytes())
        return found
    except Exception as error:  # damaged and foreign files raise whatever their reader likes
        _raise_of_the_path(error)
        got = f"{_first_line(error)} in {str(path)!r}"
        raise expected("source", "a torch file of tensors alone, by name", got) from error


def _table(path: Path, label: str) -> DataFrame:
    with needs("report"):
        import pandas
        from pyarrow.parquet import read_metadata
    regular(path)
    try:
        if path.suffix == ".csv":
            return _csv(pandas, path, label)
        _check_parquet(read_metadata(path), path)
        return pandas.read_parquet(path)
    except Exception as error:  # a damaged file makes pandas and pyarrow raise whatever they like
        _raise_of_the_path(error)
        raise expected("source", "a table that pandas reads", f"{_first_line(error)} in {str(path)!r}") from error


def _raise_of_the_path(error: Exception) -> None:
    """Let an error pass that the system gave for the path itself, as of one that may not be read."""
    if isinstance(error, OSError) and error.filename is not None:
        raise error


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


def _check_parquet(facts: Any, path: Path) -> None:
    """Look at how many values a parquet table says it has."""
    groups = [facts.row_group(i) for i in range(facts.num_row_groups)]
    values = sum(group.column(i).num_values for group in groups for i in range(group.num_columns))
    check_unpacked(8 * max(values, facts.num_rows) - path.stat().st_size)


def _csv(pd: Any, path: Path, label: str) -> DataFrame:
    """A csv, exact to the last digit. Its labels are text as it stands: a class may be called "None", "NA" or "01"."""
    header = pd.read_csv(path, nrows=1, header=None, dtype=str, keep_default_na=False).iloc[0]
    others = [name for name in header if name != label]
    missing = ["", "#N/A", "N/A", "n/a", "NA", "<NA>", "NULL", "null", "NaN", "nan", "None"]
    text = {"dtype": {label: str}, "keep_default_na": False, "na_values": dict.fromkeys(others, missing)}
    old = int(pd.__version__.partition(".")[0]) < 3  # later ones are exact of themselves
    table = pd.read_csv(path, **text, **({"float_precision": "round_trip"} if old else {}))
    return table if header.is_unique else table.set_axis(list(header), axis=1)  # pandas numbers the second of a name
