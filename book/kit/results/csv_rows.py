"""Rows of the three result files: their schema, reading, appending, measuring.

CSV files, one number a row, in ``book/results``: ``paper.csv`` is typed from the papers and never changes; ``ours.csv``
is written by :func:`append`, through ``make results``; ``third_party.csv`` is what others measured. Columns:

===========  ==========================================================================================================
paper        name of a paper, a key of ``book.papers.PAPERS``. In ours.csv: the one whose training recipe was followed;
             empty where the number serves every paper.
table        as the paper counts, "I", "3", "B"; "log": the authors' public log. Empty in ours.csv.
dataset      key of DATASETS, or of a data set this package does not have.
model        resnet110, wide_resnet_26_10, ...
loss         training loss: a key, see below.
method       post-hoc calibrator: a key; ``identity`` is the network as it is.
metric       key of METRICS, or accuracy_drop, miou.
value        as printed (text), or as measured.
low, high    95% bootstrap interval over the test set; with several seeds, its mean.
std          standard deviation over seeds, as printed or measured.
unit         percent, fraction or nats. ours.csv holds fractions and nats only.
n_bins       of a binned metric, else empty.
n_seeds      trainings behind the number; of Neural Clamping fits of one network, which of a public one are of as many
             draws of held-out and test images.
budget       reduced or paper (smoke never enters).
source       paper.csv: printed, author-log. ours.csv: published-logits (the paper's own logits), ours (own training),
             public (weights that others than the paper's authors trained). third_party.csv: who measured it, a row of
             ``third_parties.csv``; of two with one cell the verdict takes that of the last row.
commit       of this project, when the number was first measured: one that comes out the same keeps it, and its note.
note         what else there is to know.
===========  ==========================================================================================================

A key is ``NAME [OPTION=VALUE ...][:OBJECTIVE [OPTION=VALUE ...]]``: the registry name with the options that are not the
default, and for a calibrator the objective it minimises, when it is not its default one. ``temperature_scaling`` (by
NLL), ``temperature_scaling:ece``, ``class_temperature_scaling`` (by ECE), ``class_temperature_scaling:nll``,
``ets:class_loss_scaling normalization=cm``, ``mbls margin=0``. :class:`calibkit.keys.Key` reads one.
"""

from __future__ import annotations

import csv
import fcntl
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd

from book.papers import PAPERS
from calibkit import _folders
from calibkit._checks import Array, check_choice, expected
from calibkit._files import write_text
from calibkit.keys import Key
from calibkit.metrics import Sample
from calibkit.metrics.intervals import Resampled
from calibkit.metrics.registry import BINNED, IN_NATS
from calibkit.metrics.resampling import Function, resampled

COLUMNS = (
    *("paper", "table", "dataset", "model", "loss", "method", "metric", "value", "low", "high", "std", "unit"),
    *("n_bins", "n_seeds", "budget", "source", "commit", "note"),
)
NUMBERS = ("value", "low", "high", "std")
#: What makes a cell: two rows of one file that agree here (and in paper, table, budget, source) are the same number.
CELL = ("dataset", "model", "loss", "method", "metric", "n_bins")
KEY = ("paper", "table", *CELL, "budget", "source")

BUDGETS = ("reduced", "paper")
SOURCES = {
    "paper": ("printed", "author-log"),
    "ours": ("published-logits", "ours", "public"),
    "third_party": ("calarena", "h-calibration", "re-labelsmoothing", "cals-4", "focal"),
}
#: What is compared in pairs, and what :func:`measure` takes by default: the printed metrics, and the proper scores.
MEASURED = ("accuracy", "nll", "brier", "entropy", "ece", "adaptive_ece", "classwise_ece")
UNITS = {"paper": ("percent", "fraction", "nats"), "ours": ("fraction", "nats"), "third_party": ("fraction", "nats")}


# ------------------------------------------------------------------------------------------------------ files
def load(which: str = "ours") -> pd.DataFrame:
    """``paper.csv`` or ``ours.csv`` as text columns, except value, low, high and std (float) and n_seeds (int).

    ``printed`` keeps the value's text, so that its number of digits is known.
    """
    path = _folders.stored() / f"{check_choice('which', which, SOURCES)}.csv"
    if not path.exists() and which != "paper":
        return _typed(pd.DataFrame(columns=list(COLUMNS), dtype=str), which)
    return read(path, which)


def select(rows: pd.DataFrame, **only: str) -> pd.DataFrame:
    """The rows of results that have these values; ValueError of an unknown column."""
    for column, value in only.items():
        if column not in rows:
            raise expected("column", f"one of {', '.join(rows.columns)}", repr(column))
        rows = rows[rows[column] == value]
    return rows


def read(path: Path, which: str = "ours") -> pd.DataFrame:
    """A file of rows as :func:`load` gives it, under any name.

    Raises:
        ValueError: the file breaks the schema; the message names it.
        FileNotFoundError: no such file.
    """
    try:
        with open(path, encoding="utf-8", newline="") as stream:
            lines = list(csv.reader(stream, strict=True))
        for number, line in enumerate(lines, 1):
            if len(line) != len(COLUMNS):
                raise expected("rows", f"of {len(COLUMNS)} cells", f"{len(line)} in line {number}")
        return _typed(pd.DataFrame(lines[1:], columns=lines[0] if lines else [], dtype=str), which)
    except (ValueError, csv.Error) as error:
        raise expected("path", "a file of results", f"{str(path)!r}: {error}") from None


def _typed(frame: pd.DataFrame, which: str) -> pd.DataFrame:
    """Columns checked against the schema and given their types."""
    check_columns(frame, COLUMNS)
    frame = frame.assign(printed=frame["value"])
    for name in NUMBERS:
        text = frame[name]
        frame[name] = pd.to_numeric(text.mask(text == ""), errors="coerce").astype(float)
        wrong = text[frame[name].isna() & (text != "")]
        if len(wrong):
            raise expected(name, "a number or empty", repr(wrong.iloc[0]))
    if not frame["n_seeds"].str.fullmatch("[1-9][0-9]*").all():
        raise expected("n_seeds", "an integer > 0", f"one of {sorted(frame['n_seeds'].unique())}")
    frame["n_seeds"] = frame["n_seeds"].astype(int)
    allowed = {"unit": UNITS[which], "budget": BUDGETS, "source": SOURCES[which]}
    allowed["paper"] = PAPERS if which == "paper" else ("", *PAPERS)
    for name, choices in allowed.items():
        for value in frame[name].unique():
            check_choice(name, value, choices)
    for name in ("loss", "method"):
        for key in frame[name].unique():
            Key.parse(key)
    wanted = ("value", "low", "high") if which == "ours" else ("value",)
    for name in wanted:
        if not np.isfinite(frame[name]).all():
            raise expected(name, "a finite number", "an empty or infinite one")
    if (frame["low"] > frame["high"]).any():
        raise expected("low", "at most `high`", "a larger number")
    check_keys(frame, KEY)
    return frame


def check_columns(frame: pd.DataFrame, columns: tuple[str, ...]) -> None:
    """A stored file has these columns, in this order."""
    if tuple(frame.columns) != columns:
        raise expected("columns", ", ".join(columns), ", ".join(frame.columns))


def check_keys(frame: pd.DataFrame, key: Sequence[str]) -> None:
    """No two rows agree in all columns of the key."""
    twice = frame[frame.duplicated(list(key))]
    if len(twice):
        raise expected("rows", "of different keys", f"the same key twice: {twice.iloc[0][list(key)].to_dict()}")


def append(rows: Iterable[dict]) -> int:
    """Put rows into ``ours.csv``; returns how many rows of it are new or different.

    A row takes the place of the one with the same key, unless that is of more seeds. One whose value or interval is
    infinite does so too and is not written: no number is left. The file is locked while it is read and written, checked
    as a whole, sorted, and replaced in one step.

    Args:
        rows: dicts with the names in ``COLUMNS``; missing ones are empty. :func:`measure` makes them.

    Raises:
        ValueError: a row, or the file as it is, breaks the schema; the file is then left as it was.
    """
    new = pd.DataFrame(
        [{name: text_of(row.pop(name, "")) for name in COLUMNS} | row for row in map(dict, rows)], dtype=str
    )
    if new.empty:
        return 0
    finite = ~infinite(new)
    _typed(new.assign(**{name: new[name].where(finite, "0") for name in NUMBERS}), "ours")
    return put("ours.csv", load, new, list(KEY), ["n_seeds"])


def put(file: str, stored: Callable[[], pd.DataFrame], new: pd.DataFrame, key: list[str], counts: list[str]) -> int:
    """Put rows of text into a stored file that ``stored`` reads; returns how many rows of it are new or different.

    Of equal keys the new one stays, unless it differs in its commit and note alone, or one of its ``counts``, of seeds
    or of the degrees of freedom of their spread, is lower; infinite ones are left out. The file is locked, sorted and
    replaced in one step.
    """
    path = _folders.stored() / file
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(path.with_name(f".{file}.lock")):
        old = stored()[list(new)].map(text_of)
        before = old.set_index(key)[counts].replace("", "0").astype(float)
        before = before.reindex(pd.MultiIndex.from_frame(new[key]), fill_value=0)
        enough = (new[counts].replace("", "0").astype(float).to_numpy() >= before.to_numpy()).all(axis=1)
        both = pd.concat([old, new[enough]])
        both = both.drop_duplicates(both.columns.difference(["commit", "note"])).drop_duplicates(key, keep="last")
        both = both[~infinite(both)].sort_values(key)
        write_text(path, both.to_csv(index=False, lineterminator="\n"))
    known = set(old.itertuples(index=False, name=None))
    return sum(row not in known for row in both.itertuples(index=False, name=None))


def infinite(frame: pd.DataFrame) -> pd.Series:
    """Which rows, of text, have no finite value or interval."""
    return frame.filter(["value", "low", "high"]).isin(["inf", "-inf"]).any(axis=1)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Alone with the file ``path`` among all processes that ask; on NFS a folder is locked for one machine only."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def text_of(value: object) -> str:
    """A CSV cell: floats to 6 significant digits, None and NaN empty."""
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def quoted(key: str) -> str:
    """A key as one word of a command."""
    return f'"{key}"' if " " in key else key


# ---------------------------------------------------------------------------------------------------- measuring
def over_seeds(values: Sequence[float], intervals: Sequence[tuple[float, float]]) -> dict[str, float | None]:
    """The columns value, low, high of a metric, averaged over trainings, and std, None for a single or infinite one."""
    low, high = np.mean(intervals, axis=0)
    std = float(np.std(values, ddof=1)) if len(values) > 1 and np.isfinite(values).all() else None
    return {"value": float(np.mean(values)), "low": float(low), "high": float(high), "std": std}


def measure(
    runs: Sequence[tuple[Array, Array]], *, metrics: Sequence[str] = MEASURED, n_bins: int = 15, **cell: str
) -> list[dict]:
    """The metrics of one cell as rows for :func:`append`, with bootstrap intervals.

    Args:
        runs: (probs, labels) on the test set, one pair a training seed.
        metrics: keys of METRICS.
        n_bins: of the binned metrics.
        cell: dataset, model, loss, method, budget, source, and if wanted paper and note.

    Returns:
        list[dict]: value and low, high averaged over seeds, std over seeds (empty for one).
    """
    runs = list(runs)
    if not runs:
        raise expected("runs", "at least one (probs, labels)", "none")
    return metric_rows([resample(*run, metrics, n_bins=n_bins) for run in runs], n_bins, **cell)


def resample(
    probs: Array,
    labels: Array,
    metrics: Sequence[str] | Mapping[str, Function],
    *,
    groups: Array | None = None,
    n_bins: int = 15,
) -> dict[str, Resampled]:
    """The metrics of one training with their 1,000 resamples, as :func:`measure` and :mod:`.paired_differences` use
    them; names of METRICS, or own functions as :func:`calibkit.metrics.bootstrap` takes them.
    """
    return resampled(Sample.of(probs, labels), metrics, groups, 1000, 0, n_bins)


def metric_rows(runs: Sequence[Mapping[str, Resampled]], n_bins: int = 15, **cell: str) -> list[dict]:
    """What :func:`measure` gives, from what :func:`resample` gave for each training."""
    stamp = {"n_seeds": len(runs), "commit": _folders.commit(), **cell}
    rows = []
    for metric in runs[0]:
        values, ends = [run[metric].value for run in runs], [run[metric].interval() for run in runs]
        rows.append(stamp | over_seeds(values, ends) | of_metric(metric, n_bins))
    return rows


def of_metric(metric: str, n_bins: int) -> dict[str, str | int]:
    """The columns of a row that its metric decides."""
    unit = "nats" if metric in IN_NATS else "fraction"
    return {"metric": metric, "n_bins": n_bins if metric in BINNED else "", "unit": unit}
