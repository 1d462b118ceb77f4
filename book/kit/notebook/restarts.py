"""Methods that were fitted several times, with other random starts: their numbers, and whether they differ.

Where held-out and test images are halves of one set, each fit may have halves of its own: then ``labels`` has a row a
fit. Two draws of halves share images, so their errors are taken as fully correlated: the ends of the intervals are
averaged, and more draws do not narrow them. How far the draws lie apart is in ``std`` and ``seed_error``.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd
from scipy.special import erfcinv

from book.kit import results
from book.kit.judging.seeds import mean_of
from book.kit.results import csv_rows
from book.kit.results.paired_differences import COMPARED
from book.kit.results.record import paired
from calibkit._checks import Array, expected
from calibkit.metrics import Sample, evaluate
from calibkit.metrics.comparison import Estimate
from calibkit.metrics.registry import IN_NATS
from calibkit.metrics.resampling import resampled


def measured(
    fits: Mapping[str, Sequence[Array]], labels: Array, metrics: Iterable[str], *, n_bins: int = 15
) -> pd.DataFrame:
    """The metrics of every fit, given by method as probabilities (N, K); rows (method, fit), columns the metrics.

    Labels are (N,), or (R, N), a row a fit.

    Example:
        >>> import numpy as np
        >>> labels = np.repeat([0, 1], [80, 20])
        >>> fits = {"sure": [np.tile([p, 1 - p], (100, 1)) for p in (0.95, 0.99)]}
        >>> measured(fits, labels, ["ece"]).round(2).to_dict("tight")["data"]
        [[0.15], [0.19]]
    """
    metrics = list(metrics)
    rows = {
        (name, i): evaluate(*sample, metrics, n_bins=n_bins)
        for name, of_method in fits.items()
        for i, sample in enumerate(_samples(of_method, labels))
    }
    return pd.DataFrame.from_dict(rows, orient="index", columns=metrics).rename_axis(["method", "fit"])


def mean_and_spread(values: pd.DataFrame) -> pd.DataFrame:
    """What :func:`measured` gave as text, a row a method: the mean, ± the standard deviation where there are several.

    In percent with two decimals; what is in nats with four.

    Example:
        >>> rows = pd.MultiIndex.from_tuples([("NC", 0), ("NC", 1), ("TS", 0)])
        >>> text = mean_and_spread(pd.DataFrame({"ece": [0.1, 0.12, 0.2], "entropy": [0.5, 0.5, 0.4]}, rows))
        >>> text.to_dict("index")
        {'NC': {'ece': '11.00 ± 1.41', 'entropy': '0.5000 ± 0.0000'}, 'TS': {'ece': '20.00', 'entropy': '0.4000'}}
    """
    text = {}
    for name, of_method in values.groupby(level=0, sort=False):
        text[name] = {}
        for metric, of_metric in of_method.items():
            scale, digits = (1, 4) if metric in IN_NATS else (100, 2)
            spread = f" ± {scale * of_metric.std(ddof=1):.{digits}f}" if len(of_metric) > 1 else ""
            text[name][metric] = f"{scale * of_metric.mean():.{digits}f}{spread}"
    return pd.DataFrame.from_dict(text, orient="index", columns=list(values.columns))


def difference(
    after: Sequence[Array],
    before: Sequence[Array],
    labels: Array,
    metric: str = "ece",
    *,
    n_bins: int = 15,
    n_resamples: int = 1000,
    seed: int = 0,
) -> Estimate:
    """The mean of a metric over the fits of one method minus that over the fits of another, with its 95% interval.

    Fits are probabilities (N, K), labels (N,), or (R, N), a row a fit. The interval is that of
    :func:`calibkit.metrics.bootstrap_difference`: paired, as all fits are measured on the same resamples of the test
    set. It speaks of the draw of the test set, not of the random starts. ValueError tells of no fit.

    Example:
        >>> import numpy as np
        >>> labels = np.repeat([0, 1], [80, 20])
        >>> sure, honest = ([np.tile([p, 1 - p], (100, 1))] for p in (0.99, 0.8))
        >>> f"{difference(honest, sure, labels).percent:.0f}"
        '-19 [-35, -3]'
    """
    drawn = []
    for name, fits in (("after", after), ("before", before)):
        if not len(fits):
            raise expected(name, "at least one fit", "none")
        samples = [Sample.of(*sample) for sample in _samples(fits, labels)]
        drawn.append([resampled(sample, [metric], None, n_resamples, seed, n_bins)[metric] for sample in samples])
    pairs = zip(*drawn, strict=True) if np.ndim(labels) == 2 else [map(mean_of, drawn)]
    return Estimate(*map(float, np.mean([of.difference(base) for of, base in pairs], axis=0)))


def _samples(fits: Sequence[Array], labels: Array) -> list[tuple[Array, Array]]:
    """Probabilities and labels of each fit; none of a method without any."""
    of_fits = labels if np.ndim(labels) == 2 and len(fits) else [labels] * len(fits)
    return list(zip(fits, of_fits, strict=True))


def rows(
    fits: Mapping[str, tuple[Sequence[Array], str]], labels: Array, metrics: Sequence[str], **how: int | str
) -> list[dict]:
    """What was measured, as rows for :func:`book.kit.results.append`.

    Fits are given by the key of their method: the probabilities (N, K) of each, and a note on them. Labels are (N,), or
    (R, N), a row a fit; ``how`` is dataset, model, loss, budget and source, and ``n_bins``, by default 15.

    Example:
        >>> import numpy as np
        >>> probs, labels = np.tile([0.9, 0.1], (100, 1)), np.repeat([0, 1], [80, 20])
        >>> made = rows({"identity": ([probs], "gamma=1")}, labels, ["ece"], budget="reduced")
        >>> [(row["metric"], round(row["value"], 2), row["n_seeds"], row["note"]) for row in made]
        [('ece', 0.1, 1, 'gamma=1')]
    """
    each = ((_samples(of_key, labels), {"method": key, "note": note}) for key, (of_key, note) in fits.items())
    return [row for of, said in each for row in results.measure(of, metrics=metrics, **said, **how)]


def differences(
    fits: Mapping[str, Sequence[Array]],
    pairs: Iterable[tuple[str, str]],
    labels: Array,
    *,
    n_bins: int = 15,
    loss: str = "cross_entropy",
    **cell: str,
) -> list[dict]:
    """Differences between methods, pairs of one and its base, as rows for
    :func:`book.kit.results.paired_differences.append_effects`.

    Fits are by the key of their method the probabilities (N, K) of each; of one fit, it is held against every fit of
    the other. Labels are (N,), or (R, N), a row a fit; ``loss`` trained the network; ``cell`` is dataset, model, budget
    and source.

    Example:
        >>> import numpy as np
        >>> labels = np.repeat([0, 1], [80, 20])
        >>> fits = {key: [np.tile([p, 1 - p], (100, 1))] for key, p in (("identity", 0.99), ("ets", 0.8))}
        >>> rows = differences(fits, [("ets", "identity")], labels, dataset="digits")
        >>> [(row["method"], round(row["value"], 2)) for row in rows if row["metric"] == "ece"]
        [('ets', -0.19)]
    """
    pairs = list(pairs)
    used = {key for pair in pairs for key in pair}
    drawn = {
        key: [csv_rows.resample(*sample, COMPARED, n_bins=n_bins) for sample in _samples(fits[key], labels)]
        for key in used
    }
    made = []
    for method, base in pairs:
        n = max(len(drawn[method]), len(drawn[base]))
        sides = [of if len(of) > 1 else of * n for of in (drawn[method], drawn[base])]
        pair = dict(method=method, base_method=base, loss=loss, base_loss=loss, n_bins=n_bins, **cell)
        of_draws = ([[a], [b]] for a, b in zip(*sides, strict=True)) if np.ndim(labels) == 2 else [sides]
        tables = [paired(*of_draw, pair) for of_draw in of_draws]
        made += map(_over_draws, zip(*tables, strict=True))
    return made


def _over_draws(rows: Sequence[dict]) -> dict:
    """One difference from those of several draws of halves: all means; the chance is that of the mean z-score. One that
    is infinite speaks for all.
    """
    if (n := len(rows)) == 1:
        return rows[0]
    for row in rows:
        if math.isinf(row["value"]):
            return row
    mean = {name: float(np.mean([row[name] for row in rows])) for name in ("value", "low", "high")}
    chances = [max(row["chance"], sys.float_info.min) for row in rows]  # of 0 the z-score is infinite
    z = np.mean([math.copysign(math.sqrt(2) * erfcinv(p), row["value"]) for p, row in zip(chances, rows, strict=True)])
    error = float(np.std([row["value"] for row in rows], ddof=1)) / math.sqrt(n)
    chance = math.erfc(abs(z) / math.sqrt(2))
    return rows[0] | mean | {"chance": chance, "seed_error": error, "seed_df": n - 1, "n_seeds": n, "base_seeds": n}
