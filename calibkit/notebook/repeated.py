"""Methods that were fitted several times, with other random starts: their numbers, and whether they differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pandas as pd

from calibkit import results
from calibkit._checks import Array, expected
from calibkit.metrics import evaluate
from calibkit.metrics._sample import Sample
from calibkit.metrics.comparison import Estimate
from calibkit.metrics.resampling import resampled
from calibkit.results import effects
from calibkit.results.rows import IN_NATS


def measured(
    fits: Mapping[str, Sequence[Array]], labels: Array, metrics: Iterable[str], *, n_bins: int = 15
) -> pd.DataFrame:
    """The metrics of every fit; rows (method, fit), columns the metrics.

    Args:
        fits: method -> probabilities (N, K) of each of its fits.
        labels: (N,).
        metrics: names of ``METRICS``.
        n_bins: of the binned metrics.

    Example:
        >>> import numpy as np
        >>> labels = np.repeat([0, 1], [80, 20])
        >>> fits = {"sure": [np.tile([p, 1 - p], (100, 1)) for p in (0.95, 0.99)]}
        >>> measured(fits, labels, ["ece"]).round(2).to_dict("tight")["data"]
        [[0.15], [0.19]]
    """
    metrics = list(metrics)
    rows = {
        (name, i): evaluate(probs, labels, metrics, n_bins=n_bins)
        for name, of_method in fits.items()
        for i, probs in enumerate(of_method)
    }
    return pd.DataFrame.from_dict(rows, orient="index", columns=metrics).rename_axis(["method", "fit"])


def mean_and_spread(values: pd.DataFrame) -> pd.DataFrame:
    """What :func:`measured` gave as text, a row a method: the mean, ± the standard deviation where there are several.

    Args:
        values: rows (method, fit). Shown in percent with two decimals, what is in nats with four.

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
    """The mean of a metric over the fits of one method minus that over the fits of another, with its 95 % interval.

    The interval is that of :func:`calibkit.metrics.bootstrap_difference`: paired, as all fits are measured on the same
    resamples of the test set. It speaks of the draw of the test set, not of the random starts.

    Args:
        after: probabilities (N, K) of each fit.
        before: those of the fits it is held against.
        labels: (N,).
        metric: a name of ``METRICS``.
        n_bins: of a binned metric.
        n_resamples: number of resamples.
        seed: of the draws.

    Raises:
        ValueError: no fit, bad probabilities or labels.

    Example:
        >>> import numpy as np
        >>> labels = np.repeat([0, 1], [80, 20])
        >>> sure, honest = ([np.tile([p, 1 - p], (100, 1))] for p in (0.99, 0.8))
        >>> f"{difference(honest, sure, labels).percent:.0f}"
        '-19 [-35, -3]'
    """
    means = []
    for name, fits in (("after", after), ("before", before)):
        if not len(fits):
            raise expected(name, "at least one fit", "none")
        drawn = [resampled(Sample.of(probs, labels), [metric], None, n_resamples, seed, n_bins) for probs in fits]
        means.append(effects.mean_of([of_fit[metric] for of_fit in drawn]))
    return Estimate(*means[0].difference(means[1]))


def rows(
    fits: Mapping[str, tuple[Sequence[Array], str]],
    labels: Array,
    metrics: Sequence[str],
    *,
    n_bins: int = 15,
    **cell: str,
) -> list[dict]:
    """What was measured, as rows for :func:`calibkit.results.append`.

    Args:
        fits: key of a method -> probabilities (N, K) of each of its fits, and a note on them.
        labels: (N,).
        metrics: names of ``METRICS``.
        n_bins: of the binned metrics.
        cell: dataset, model, loss, budget and source.

    Example:
        >>> import numpy as np
        >>> probs, labels = np.tile([0.9, 0.1], (100, 1)), np.repeat([0, 1], [80, 20])
        >>> made = rows({"identity": ([probs], "gamma=1")}, labels, ["ece"], budget="reduced")
        >>> [(row["metric"], round(row["value"], 2), row["n_seeds"], row["note"]) for row in made]
        [('ece', 0.1, 1, 'gamma=1')]
    """
    made = []
    for key, (of_key, note) in fits.items():
        samples = [(probs, labels) for probs in of_key]
        made += results.measure(samples, metrics=metrics, n_bins=n_bins, method=key, note=note, **cell)
    return made


def differences(
    fits: Mapping[str, Sequence[Array]],
    pairs: Iterable[tuple[str, str]],
    labels: Array,
    *,
    n_bins: int = 15,
    loss: str = "cross_entropy",
    **cell: str,
) -> list[dict]:
    """Differences between methods as rows for :func:`calibkit.results.effects.append_effects`.

    Args:
        fits: key of a method -> probabilities (N, K) of each of its fits; of one fit, it is held against every fit.
        pairs: (method, base).
        labels: (N,).
        n_bins: of the binned metrics.
        loss: that the network was trained with.
        cell: dataset, model, budget and source.

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
        key: [results.rows.resample(probs, labels, effects.COMPARED, n_bins=n_bins) for probs in fits[key]]
        for key in used
    }
    made = []
    for method, base in pairs:
        n = max(len(drawn[method]), len(drawn[base]))
        sides = [
            {metric: [run[metric] for run in (of if len(of) > 1 else of * n)] for metric in effects.COMPARED}
            for of in (drawn[method], drawn[base])
        ]
        pair = {"method": method, "base_method": base, "loss": loss, "base_loss": loss}
        made += effects.rows_of(*sides, n_bins=n_bins, **pair, **cell)
    return made
