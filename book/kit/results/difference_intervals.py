"""The interval and the p-value of a difference, on one network or on several: test sets, seeds, validation samples."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from book.kit.judging.pooling import CORRELATION, pooled
from book.kit.judging.seeds import chance_with, widened
from calibkit.data import DATASETS
from calibkit.metrics.comparison import Estimate

#: How many refits are behind a ``fit_error`` of ``refits.csv``.
FITS = 10


def spread_of(row) -> tuple[float, float]:
    r"""The standard error of a difference over seeds and refits, and its degrees of freedom.

    Variances add up, and the degrees of freedom are those of Welch and Satterthwaite,
    :math:`(\sum_i s_i^2)^2 / \sum_i (s_i^4 / \nu_i)`. (0, inf) where there is neither.
    """
    parts = [(row.seed_error, row.seed_df), (getattr(row, "fit_error", math.nan), FITS - 1)]
    parts = [(error**2, df) for error, df in parts if error > 0]
    total = sum(variance for variance, _ in parts)
    return math.sqrt(total), total**2 / sum(variance**2 / df for variance, df in parts) if parts else math.inf


def interval_of(row) -> Estimate:
    """Value and interval of a difference, over test sets, seeds and validation samples."""
    return widened(Estimate(row.value, row.low, row.high), *spread_of(row))


def chance_of(row) -> float:
    """The p-value of a difference, over test sets, seeds and validation samples.

    It is the level at which the interval of :func:`interval_of` would end at 0. Of two losses that were trained once
    each it is 1: how far another seed would move them is not known.
    """
    if math.isnan(row.seed_error) and row.loss != row.base_loss:
        return 1.0
    return chance_with(Estimate(row.value, row.low, row.high), row.chance, *spread_of(row))


def images_of(datasets: pd.Series) -> pd.Series:
    """Which networks share their test images: a long-tailed data set is tested on the images of the whole one, a random
    split partly on those of the official one.

    Example:
        >>> images_of(pd.Series(["cifar10", "cifar10_lt", "20newsgroups_random"])).tolist()
        ['cifar10', 'cifar10', '20newsgroups']
    """
    bases = {name: spec.base for name, spec in DATASETS.items() if spec.base}
    return datasets.replace(bases)


def over_networks(rows: pd.DataFrame) -> Estimate:
    r"""The mean of the differences of N networks, with a 95% interval over test sets, seeds and validation samples.

    Networks of one test set share its images, and their errors are correlated, by :math:`\rho` = ``CORRELATION``, which
    no pair of calibrators exceeds. With :math:`a_n` a network's standard error over test sets, and :math:`s_n` that
    over seeds and refits, of :math:`\nu_n` degrees of freedom, the mean has

    .. math:: N^2 \sigma^2 = \sum_t \Bigl[ (1 - \rho) \sum_{n \in t} a_n^2 + \rho \Bigl( \sum_{n \in t} a_n
        \Bigr)^2 \Bigr] + \sum_n s_n^2 , \qquad
        \nu = \frac{N^4 \sigma^4}{\sum_n s_n^4 / \nu_n} .

    The interval speaks of these networks on other test images, other seeds where they were trained several times, and
    other validation samples. What other networks would give, it does not say.

    Args:
        rows: columns dataset, metric, value, low, high, seed_error, seed_df and, if there, fit_error; a row a network.

    Returns:
        Estimate: NaN where there is no row.

    Example:
        >>> rows = pd.DataFrame({"dataset": ["cifar10", "cifar10_lt", "svhn"], "value": [1.0, 2.0, 3.0]})
        >>> rows = rows.assign(metric="ece", low=rows.value - 1.5, high=rows.value + 1.5)
        >>> f"{over_networks(rows.assign(seed_error=np.nan, seed_df=np.nan)):.2f}"
        '2.00 [1.11, 2.89]'
    """
    if rows.empty:
        return Estimate(np.nan, np.nan, np.nan)
    spreads = [spread_of(row) for row in rows.itertuples()]
    over_fits = math.sqrt(sum(error**2 for error, _ in spreads))
    df = over_fits**4 / sum(error**4 / df for error, df in spreads) if over_fits else math.inf
    differences = [Estimate(row.value, row.low, row.high) for row in rows.itertuples()]
    correlation = rows["metric"].map(CORRELATION).fillna(1.0).max()
    return widened(pooled(differences, images_of(rows["dataset"]).tolist(), correlation), over_fits / len(rows), df)
