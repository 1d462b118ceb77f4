"""Rows of ``effects.csv``: by how much one method is better than another on the same test set, with its chance.

One difference a row, of a method on a network to another method on it, or to the same network trained with another
loss. Columns:

====================  =================================================================================================
dataset, model, loss  the network, as in ``ours.csv``
method                post-hoc calibrator, as there
base_loss             what is subtracted: the training loss ...
base_method           ... and the calibrator
metric, n_bins, unit  as in ``ours.csv``; fraction or nats
value                 metric of the method less that of the base; of several seeds the mean
low, high             its 95% interval over test sets, paired: :func:`calibkit.metrics.bootstrap_difference`
chance                the p-value that goes with it
seed_error            its standard error over seeds, or those fits; empty where there is a single one
seed_df               degrees of freedom of ``seed_error``
n_seeds, base_seeds   trainings on either side; of Neural Clamping fits of one network, and its base counts as often;
                      of a public network draws of held-out and test images
budget, source        as in ``ours.csv``
commit                of this project, when it was first measured
====================  =================================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd

from book.kit.judging.seeds import Spread, error_of_two, mean_of
from book.kit.results import csv_rows
from book.kit.results.csv_rows import check_columns, check_keys, of_metric, put, text_of
from calibkit import _folders
from calibkit._checks import expected
from calibkit.metrics.intervals import Resampled

KEY = ("dataset", "model", "loss", "method", "base_loss", "base_method", "metric", "n_bins", "budget", "source")
NUMBERS = ("value", "low", "high", "chance", "seed_error", "seed_df")
COUNTS = ("n_seeds", "base_seeds")
COLUMNS = (*KEY[:8], *NUMBERS, *COUNTS, "unit", "budget", "source", "commit")
#: What is compared: the printed metrics, and the proper scores that decide.
COMPARED = csv_rows.MEASURED
FILE = "effects.csv"
#: Of other validation samples: columns of ``refits.csv`` that tell a difference, and how many refits are behind it.
REFIT_KEY = ("dataset", "model", "loss", "method", "base_method", "metric", "n_bins", "budget", "source")


def load_refits() -> pd.DataFrame:
    """The rows of ``refits.csv``, see :mod:`book.kit.results.refits`; none where there is no file."""
    path = _folders.stored() / "refits.csv"
    if not path.exists():
        return pd.DataFrame(columns=[*REFIT_KEY, "fit_error"]).astype({"fit_error": float})
    return pd.read_csv(path, dtype=str, keep_default_na=False).astype({"fit_error": float})


def load_effects() -> pd.DataFrame:
    """The rows of ``effects.csv``, numbers where there are numbers, else text; and the column ``fit_error`` of
    ``refits.csv``, the standard error over validation samples, NaN where nothing was fitted again.

    Raises:
        ValueError: a file with other columns, a number that is none, or the same key twice.
    """
    effects = _read()
    refits = load_refits()
    refits = refits.assign(base_loss=refits["loss"])
    return effects.merge(refits, how="left", on=[*REFIT_KEY, "base_loss"])


def _read() -> pd.DataFrame:
    path = _folders.stored() / FILE
    if not path.exists():
        return pd.DataFrame(columns=list(COLUMNS)).astype(dict.fromkeys(NUMBERS, float) | dict.fromkeys(COUNTS, int))
    frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    check_columns(frame, COLUMNS)
    try:
        frame[list(NUMBERS)] = frame[list(NUMBERS)].replace("", "nan").astype(float)
        frame[list(COUNTS)] = frame[list(COUNTS)].astype(int)
    except ValueError as error:
        raise expected("path", "a file of numbers", f"{str(path)!r}: {error}") from None
    check_keys(frame, KEY)
    return frame


def append_effects(rows: Iterable[dict]) -> int:
    """Put rows into ``effects.csv``; returns how many rows of it are new or different.

    A row takes the place of the one with the same key, unless that is of more seeds on either side, or its spread over
    seeds was pooled over more; an infinite one does so too and is not written.

    Raises:
        KeyError: a row without all the columns.
        ValueError: a value or interval that is not a number.
    """
    new = pd.DataFrame([{name: text_of(row[name]) for name in COLUMNS} for row in rows], columns=list(COLUMNS))
    if new.empty:
        return 0
    if (new[["value", "low", "high", "chance"]] == "").any(axis=None):
        raise expected("rows", "differences that are numbers", "NaN")
    return put(FILE, _read, new, list(KEY), [*COUNTS, "seed_df"])


def difference(
    runs: Sequence[Resampled],
    base: Sequence[Resampled],
    *,
    same_networks: bool,
    spreads: tuple[Spread, Spread] = (None, None),
) -> dict:
    r"""The columns value to seed_df, n_seeds and base_seeds, of one metric.

    Of two methods on the same networks, in the same order, the seeds are paired: the error is that of the mean
    difference, ``std / sqrt(n)``. Of two losses it is that of :func:`book.kit.judging.seeds.error_of_two`, of the
    spreads of the two, pooled over losses.
    """
    value, low, high = mean_of(runs).difference(mean_of(base))
    found = {"value": value, "low": low, "high": high, "chance": mean_of(runs).chance(mean_of(base))}
    error = df = math.nan
    if same_networks and len(runs) > 1:
        changes = [a.value - b.value for a, b in zip(runs, base, strict=True)]
        error, df = float(np.std(changes, ddof=1)) / math.sqrt(len(runs)), len(runs) - 1
    elif not same_networks:
        error, df = error_of_two(len(runs), len(base), *spreads)
    return found | {"seed_error": error, "seed_df": df, "n_seeds": len(runs), "base_seeds": len(base)}


def difference_rows(
    runs: Mapping[str, Sequence[Resampled]],
    base: Mapping[str, Sequence[Resampled]],
    spreads: Mapping[str, tuple[Spread, Spread]] | None = None,
    *,
    n_bins: int = 15,
    **cell: str,
) -> list[dict]:
    """Rows for :func:`append_effects`, one for each metric; where a value is infinite, so is the row.

    Both sides are by metric the value and draws of each training, ``spreads`` by metric those of :func:`difference`;
    None: both are of the same trainings. The cell is dataset, model, loss, method, base_loss, base_method, budget and
    source.
    """
    made = []
    for metric in runs:
        every = [run.draws for run in (*runs[metric], *base[metric])]
        if np.isfinite(every).all():
            both = (spreads or {}).get(metric, (None, None))
            found = difference(runs[metric], base[metric], same_networks=spreads is None, spreads=both)
        else:
            found = dict.fromkeys(NUMBERS, math.inf) | {"n_seeds": len(runs[metric]), "base_seeds": len(base[metric])}
        made.append(found | of_metric(metric, n_bins) | {"commit": _folders.commit(), **cell})
    return made
