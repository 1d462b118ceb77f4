"""What the file of a path holds: arrays by name, one array, or a table; read with suspicion, and never as a pickle."""

from __future__ import annotations

import gzip
import io
import json
import re
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import torch

from calibkit._checks import expected
from calibkit._extras import needs
from calibkit._files import LARGEST, check_unpacked, check_zip, read_folder, read_npy, read_npz, regular
from calibkit.reading.questions import are_questions, of_questions

if TYPE_CHECKING:
    from pandas import DataFrame

PARQUET, LINES = (".parquet", ".pq"), (".csv", ".tsv", ".txt", ".jsonl")
TABLES = (*PARQUET, *LINES, *(f"{suffix}.gz" for suffix in LINES))
TORCH = (".pt", ".pth")
MOST_DIGITS = 300  # of an integer that a float can hold: a longer one is no number, as a list is none
FILES = "an .npz, .npy, .pt, .csv, .tsv, .jsonl or .parquet file, or a folder of .npy files"
Text = Callable[[list[str]], Collection[str]]
_FLOAT = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*")


def suffix_of(path: Path) -> str:
    """The end of a name that tells the format: ".csv.gz" too."""
    return "".join(path.suffixes[-2:]) if path.suffix == ".gz" else path.suffix


def opened(path: Path, names: Collection[str], text: Text = lambda _: ()) -> Any:
    """The arrays by name, the one array, or the table of a file or a folder.

    Arrays that are not called one of ``names`` are not read; of a header ``text`` tells the columns that are text.
    ValueError tells of no such format, of a damaged file, and of one that is not regular or unpacks to far more than
    its size.
    """
    if path.is_dir():
        arrays = read_folder(path, names)
    elif path.suffix == ".npz":
        arrays = read_npz(path, names)
    elif path.suffix == ".npy":
        return read_npy(path)
    elif path.suffix in TORCH:
        return _torch(regular(path), names)
    elif suffix_of(path) in TABLES:
        return _table(path, suffix_of(path), text)
    else:
        regular(path)  # or FileNotFoundError, with its name
        raise expected("source", FILES, repr(str(path)))
    if not arrays:
        some = ", ".join(list(names)[:4])
        wanted = f"{FILES} with arrays named {some}, or val_ or test_ before it"
        raise expected("source", wanted, f"none of them in {str(path)!r}")
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
        objects = type(error).__name__ == "UnpicklingError"  # whose text advises to load them, and so run their code
        got = f"{'other objects' if objects else _first_line(error)} in {str(path)!r}"
        raise expected("source", "a torch file of tensors alone, by name", got) from error


def _table(path: Path, suffix: str, text: Text) -> DataFrame:
    with needs("report"):
        import pandas
        from pyarrow.parquet import read_metadata
    regular(path)
    try:
        if suffix in PARQUET:
            _check_parquet(read_metadata(path), path)
            table = pandas.read_parquet(path)
            return table if table.index.names == [None] else table.reset_index()
        with _stream(path) as stream:
            if not suffix.startswith(".jsonl"):
                return _csv(pandas, stream, suffix, text)
            rows = _json_lines(stream)
            if not are_questions(rows):
                return pandas.DataFrame(rows)
    except Exception as error:  # a damaged file makes pandas and pyarrow raise whatever they like
        _raise_of_the_path(error)
        want = "a table in UTF-8" if isinstance(error, UnicodeDecodeError) else "a table that pandas reads"
        raise expected("source", want, f"{_first_line(error)} in {str(path)!r}") from error
    try:
        return of_questions(rows)
    except UnicodeEncodeError as error:  # half a pair of surrogates, which JSON may hold
        raise expected("source", "a table whose text can be encoded in UTF-8", repr(error.object)) from error
    except ValueError as error:
        raise ValueError(f"{error}, in {str(path)!r}") from None


def _stream(path: Path) -> IO[bytes]:
    """The bytes of a file, unpacked."""
    if path.suffix != ".gz":
        return open(path, "rb")
    with gzip.open(path) as packed:
        data = packed.read(LARGEST + path.stat().st_size + 1)
    check_unpacked(len(data) - path.stat().st_size)
    return io.BytesIO(data)


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


def _json_lines(stream: IO[bytes]) -> list[dict]:
    """A JSON object a line, or one array of them."""
    is_array = stream.read(64).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[")
    stream.seek(0)
    read = partial(json.loads, parse_int=lambda digits: int(digits) if len(digits) < MOST_DIGITS else [digits])
    rows = read(stream.read()) if is_array else [read(line) for line in stream if line.strip()]
    if not all(isinstance(row, dict) for row in rows):
        raise ValueError("a line that is no JSON object")
    return rows


def _csv(pd: Any, stream: IO[bytes], suffix: str, text: Text) -> DataFrame:
    """A csv, exact to the last digit; its delimiter is what makes the most columns of the first row.

    Of the header ``text`` tells the columns that are text as it stands: a class may be called "None", "NA" or "01".
    """
    head = stream.read(1 << 20)
    stream.seek(0)
    first = {"nrows": 1, "header": None, "dtype": str, "keep_default_na": False, "encoding_errors": "replace"}
    likely = "\t" if suffix.startswith(".tsv") else ",;\t"  # the likeliest first
    found = {sep: list(pd.read_csv(io.BytesIO(head), sep=sep, **first).iloc[0]) for sep in likely}
    sep, header = max(found.items(), key=lambda item: len(item[1]))
    spaced = len(header) > 1 and all(name.startswith(" ") for name in header[1:])  # "cat, dog"
    header = [name.lstrip() for name in header] if spaced else header
    if all(_FLOAT.fullmatch(name) for name in header) and not all(name.isdigit() for name in header):
        raise ValueError("numbers in place of the columns' names in the first row")
    as_text = set(text(header))
    missing = ["", "#N/A", "N/A", "n/a", "NA", "<NA>", "NULL", "null", "NaN", "nan", "None"]
    options = {
        "sep": sep,
        "skipinitialspace": spaced,
        "decimal": "," if sep != "," and re.search(rb"(^|[;\t])\"?-?\d+,\d+\"?([;\t]|\r?$)", head, re.M) else ".",
        "dtype": dict.fromkeys(as_text, str),
        "keep_default_na": False,
        "na_values": dict.fromkeys((name for name in header if name not in as_text), missing),
        "low_memory": False,  # a column is of one type
    }
    old = int(pd.__version__.partition(".")[0]) < 3  # later ones are exact of themselves
    table = pd.read_csv(stream, **options, **({"float_precision": "round_trip"} if old else {}))
    if not isinstance(table.index, pd.RangeIndex):
        raise ValueError("rows with more cells than there are names")
    return table if len(set(header)) == len(header) else table.set_axis(header, axis=1)  # pandas numbers the second
