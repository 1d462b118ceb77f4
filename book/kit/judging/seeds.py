"""Differences of what was trained or fitted several times: over test samples, and over seeds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from calibkit._extras import needs
from calibkit.metrics.comparison import Estimate
from calibkit.metrics.intervals import Resampled

with needs("train"):
    from scipy.special import ndtr, ndtri, stdtr, stdtrit


#: Standard deviation of a single training, and its degrees of freedom; None where it is not known.
Spread = tuple[float, int] | None


def mean_of(runs: Sequence[Resampled]) -> Resampled:
    """A metric's mean over trainings, on the same resamples of the test set."""
    draws = np.mean([run.draws for run in runs], axis=0)
    nulls = [run.null for run in runs if run.null is not None]
    null = np.mean(nulls, axis=0) if nulls else None
    return runs[0]._replace(value=float(np.mean([run.value for run in runs])), draws=draws, null=null)


def pooled_spread(groups: Iterable[Sequence[float]]) -> Spread:
    """Standard deviation within groups and its degrees of freedom; None where no group has two values.

    Example:
        >>> pooled_spread([[1.0, 3.0], [5.0], [2.0, 2.0, 2.0]])
        (0.816496580927726, 3)
    """
    squares, df = 0.0, 0
    for values in groups:
        if len(values) > 1:
            squares += float(np.var(values) * len(values))
            df += len(values) - 1
    return (math.sqrt(squares / df), df) if df else None


def error_of_two(n: int, n_base: int, spread: Spread, spread_base: Spread) -> tuple[float, float]:
    r"""The standard error over seeds of the difference of two losses, :math:`\sqrt{\sigma^2/n + \sigma_b^2/n_b}` of n
    and n_b trainings, and its degrees of freedom; NaN where a spread is not known.
    """
    if spread is None or spread_base is None:
        return math.nan, math.nan
    (sigma, df), (sigma_base, df_base) = spread, spread_base
    return math.sqrt(sigma**2 / n + sigma_base**2 / n_base), min(df, df_base)


def arm(over_tests: float, over_fits: float, df: float, level: float = 0.95) -> float:
    r"""Half of an interval, of 95% or another ``level``: that of 95% over test samples alone, and the standard error
    over seeds and refits with its degrees of freedom.

    With :math:`a` the first over 1.96 and :math:`s` the second it is :math:`t_\nu \sqrt{a^2 + s^2}`, where
    :math:`\nu = \nu_s (a^2 + s^2)^2 / s^4` (Welch and Satterthwaite).

    Example:
        >>> round(arm(1.0, 0.0, math.inf), 6), round(arm(0.0, 0.1, 1), 4), round(arm(1.0, 0.1, 1), 4)
        (1.0, 1.2706, 1.0207)
    """
    error, df = total(over_tests, over_fits, df)
    return quantile(df, 0.5 + level / 2) * error


def total(over_tests: float, over_fits: float, df: float) -> tuple[float, float]:
    """The standard error over test samples and over fits together, and its degrees of freedom."""
    variance = (over_tests / ndtri(0.975)) ** 2 + over_fits**2
    return math.sqrt(variance), df * variance**2 / over_fits**4 if over_fits else math.inf


def quantile(df: float, share: float = 0.975) -> float:
    """Student's, with ``df`` degrees of freedom; of infinitely many the normal one."""
    return float(ndtri(share) if math.isinf(df) else stdtrit(df, share))


def widened(over_tests: Estimate, error: float, df: float, level: float = 0.95) -> Estimate:
    """A difference with its interval over test samples, and over seeds or refits with that standard error, too."""
    value, low, high = over_tests
    return Estimate(value, value - arm(value - low, error, df, level), value + arm(high - value, error, df, level))


def chance_with(over_tests: Estimate, chance: float, error: float, df: float) -> float:
    """The p-value of a difference whose p-value over test samples is ``chance``, over seeds or refits, too: about the
    level at which the interval of :func:`widened` ends at 0.
    """
    value, low, high = over_tests
    if value == 0 or error == 0:
        return chance
    error, df = total(value - low if value > 0 else high - value, error, df)
    return max(chance, 2 * float(ndtr(-abs(value) / error) if math.isinf(df) else stdtr(df, -abs(value) / error)))
