"""The interval and the p-value of a difference, on one network or on several: test sets, seeds, validation samples."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from calibkit.data import DATASETS
from calibkit.metrics.comparison import CORRELATION, Estimate, pooled

#: How many refits are behind a ``fit_error`` of ``refits.csv``.
FITS = 10


def seed_arm(row) -> float:
    """Half of the 95% interval of a difference over seeds, by Student's quantile; 0 where there is a single seed."""
    return 0.0 if math.isnan(row.seed_error) else float(stdtrit(row.seed_df, 0.975) * row.seed_error)


def spread_of(row) -> tuple[float, float]:
    r"""The standard error of a difference over seeds and refits, and its degrees of freedom.

    Variances add up, and the degrees of freedom are those of Welch and Satterthwaite,
    :math:`(\sum_i s_i^2)^2 / \sum_i (s_i^4 / \nu_i)`. (0, inf) where there is neither.
    """
    parts = [(row.seed_error, row.seed_df), (getattr(row, "fit_error", math.nan), FITS - 1)]
    parts = [(error**2, df) for error, df in parts if error > 0]
    total = sum(variance for variance, _ in parts)
    return math.sqrt(total), total**2 / sum(variance**2 / df for variance, df in parts) if parts else math.inf


def arm(over_tests: float, over_fits: float, df: float) -> float:
    r"""Half of a 95% interval: that over test samples alone, and the standard error over seeds and refits with its
    degrees of freedom.

    With :math:`a` the first over 1.96 and :math:`s` the second it is :math:`t_\nu \sqrt{a^2 + s^2}`, where
    :math:`\nu = \nu_s (a^2 + s^2)^2 / s^4` (Welch and Satterthwaite).

    Example:
        >>> round(arm(1.0, 0.0, math.inf), 6), round(arm(0.0, 0.1, 1), 4), round(arm(1.0, 0.1, 1), 4)
        (1.0, 1.2706, 1.0207)
    """
    error, df = _total(over_tests, over_fits, df)
    return _quantile(df) * error


def _total(over_tests: float, over_fits: float, df: float) -> tuple[float, float]:
    variance = (over_tests / ndtri(0.975)) ** 2 + over_fits**2
    return math.sqrt(variance), df * variance**2 / over_fits**4 if over_fits else math.inf


def _quantile(df: float) -> float:
    return float(ndtri(0.975) if math.isinf(df) else stdtrit(df, 0.975))


def interval_of(row) -> tuple[float, float, float]:
    """Value and interval of a difference, over test sets, seeds and validation samples."""
    of = spread_of(row)
    return row.value, row.value - arm(row.value - row.low, *of), row.value + arm(row.high - row.value, *of)


def chance_of(row) -> float:
    """The p-value of a difference, over test sets, seeds and validation samples.

    It is the level at which the interval of :func:`interval_of` would end at 0. Of two losses that were trained once
    each it is 1: how far another seed would move them is not known.
    """
    if math.isnan(row.seed_error) and row.loss != row.base_loss:
        return 1.0
    over_fits, df = spread_of(row)
    if row.value == 0 or over_fits == 0:
        return row.chance
    error, df = _total(row.value - row.low if row.value > 0 else row.high - row.value, over_fits, df)
    return max(
        row.chance, 2 * float(ndtr(-abs(row.value) / error) if math.isinf(df) else stdtr(df, -abs(row.value) / error))
    )


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

    Networks of one test set share its images, and their errors are correlated, by :math:`\rho` = ``CORRELATION`` at
    most. With :math:`a_n` a network's standard error over test sets, and :math:`s_n` that over seeds and refits, of
    :math:`\nu_n` degrees of freedom, the mean has

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
    mean, low, high = pooled(differences, images_of(rows["dataset"]).tolist(), correlation)
    of = over_fits / len(rows), df
    return Estimate(mean, mean - arm(mean - low, *of), mean + arm(high - mean, *of))
