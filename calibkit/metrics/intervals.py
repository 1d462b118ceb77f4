"""From resamples to intervals and p-values: the rules that :func:`calibkit.metrics.bootstrap` explains."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from statistics import NormalDist
from typing import NamedTuple, TypeVar

import numpy as np

from calibkit._checks import check_real, expected

Name = TypeVar("Name", bound=Hashable)

#: Differences nearer to 0 are those of sums in another order.
NOISE = 1e-12


class Resampled(NamedTuple):
    """A metric on a sample, on its resamples, and, of a calibration error, on outcomes of a calibrated network."""

    value: float
    draws: np.ndarray  #: (R,)
    mean: bool  #: whether it is a mean over rows, which noise makes neither larger nor smaller
    #: Of a calibration error the values (R,) that a calibrated network would show, none where these are not known; None
    #: of what is no calibration error.
    null: np.ndarray | None
    range: tuple[float, float] = (-math.inf, math.inf)  #: of the values that it can have; an interval ends there

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """See :func:`bootstrap`."""
        low, high = interval(self.value, self.draws, level)
        if self.null is not None and np.isfinite([low, high]).all():
            limit = np.quantile(self.null, (1.0 + level) / 2.0, method="higher") if len(self.null) else -np.inf
            low, high = 0.0 if self.value <= limit else low, max(high, self.value + (high - low) / 2.0)
        low, high = (self.value if abs(end - self.value) < NOISE else end for end in (low, high))
        least, most = self.range
        return min(max(least, low), most), max(least, min(most, high))

    def difference(self, base: Resampled, level: float = 0.95) -> tuple[float, float, float]:
        """Value, low and high of this less ``base``: see :func:`bootstrap_difference`."""
        value, draws = less(self.value, base.value), less(self.draws, base.draws)
        if not math.isfinite(self.value):  # where both are infinite, their 0 is no centre to reflect at
            return value, *map(_quiet, percentiles(draws, level))
        if self.mean:
            return value, *map(_quiet, interval(value, draws, level))
        (low, high), ends = hull(value, draws, level), percentiles(draws, level)
        zero, base_zero = self.may_be_zero(level), base.may_be_zero(level)
        if zero and base_zero:
            low, high = min(low, 0.0), max(high, 0.0)
        if low <= 0 and zero:
            low = min(low, value - (ends[1] - ends[0]))
        if high >= 0 and base_zero:
            high = max(high, value + (ends[1] - ends[0]))
        return value, _quiet(low), _quiet(high)

    def may_be_zero(self, level: float = 0.95) -> bool:
        """Whether it is a calibration error whose interval begins at 0."""
        return self.null is not None and self.interval(level)[0] == 0

    def chance(self, base: Resampled) -> float:
        """The p-value of the difference to ``base``: about the 1 - level at which its interval ends at 0.

        Two-sided, from the normal distribution with the standard deviation of the draws, so that it can be far below
        1 / R: around the value for a mean over rows, else around the mean of the draws and around its reflection, of
        which the larger p-value counts. 1 for equal methods, where both may be calibrated, and where one of the two is
        infinite in some resample.

        Example:
            >>> draws = np.array([-1.0, 1.0])
            >>> better, base = Resampled(-1.96, draws - 1.96, True, None), Resampled(0.0, np.zeros(2), True, None)
            >>> round(better.chance(base), 3)
            0.05
        """
        if not all(np.isfinite(of.value) and np.isfinite(of.draws).all() for of in (self, base)):
            return 1.0
        if self.may_be_zero() and base.may_be_zero():
            return 1.0
        value, draws = less(self.value, base.value), less(self.draws, base.draws)
        spread, middle = draws.std(), draws.mean()
        if spread == 0:
            return float(value == 0)
        centres = [value] if self.mean else [middle, 2 * value - middle]
        same_side = self.mean or min(centres) * max(centres) > 0
        return math.erfc(min(map(abs, centres)) / (spread * math.sqrt(2))) if same_side else 1.0


def less(a: np.ndarray | float, b: np.ndarray | float) -> np.ndarray | float:
    """``a - b``, and 0 where the two are equal, infinities among them, or nearer to each other than ``NOISE``.

    Example:
        >>> less(math.inf, math.inf), less(math.inf, 1.0)
        (0.0, inf)
    """
    same = np.equal(a, b)
    return _quiet(np.subtract(a, b, out=np.zeros(same.shape), where=~same))


def _quiet(numbers: np.ndarray | float) -> np.ndarray | float:
    """What is nearer to 0 than ``NOISE`` made 0."""
    quiet = np.where(np.abs(numbers) < NOISE, 0.0, numbers)
    return quiet if quiet.ndim else float(quiet)


def interval(value: float, draws: np.ndarray, level: float = 0.95) -> tuple[float, float]:
    """The ends of the reflected interval of a value from its resamples; the percentile one where that is infinite."""
    low, high = percentiles(draws, level)
    if np.isfinite([value, low, high]).all():
        low, high = 2 * value - high, 2 * value - low
    return low, high


def hull(value: float, draws: np.ndarray, level: float = 0.95) -> tuple[float, float]:
    """The ends of the smallest interval that holds both the reflected and the percentile one."""
    (a, b), (c, d) = interval(value, draws, level), percentiles(draws, level)
    return min(a, c), max(b, d)


def percentiles(draws: np.ndarray, level: float) -> tuple[float, float]:
    """The quantiles that leave (1 - level) / 2 on either side, taken outwards to the next draw."""
    tail = (1.0 - level) / 2.0
    low, high = np.quantile(draws, tail, method="lower"), np.quantile(draws, 1.0 - tail, method="higher")
    return float(low), float(high)


def holm(chances: Mapping[Name, float]) -> dict[Name, float]:
    """P-values adjusted by Holm's step-down method: the m-th smallest is multiplied by how many are not smaller."""
    adjusted: dict[Name, float] = {}
    worst = 0.0
    for rank, key in enumerate(sorted(chances, key=chances.__getitem__)):
        worst = max(worst, min(1.0, (len(chances) - rank) * chances[key]))
        adjusted[key] = worst
    return adjusted


def bonferroni(n_tests: int, alpha: float) -> float:
    """How many times as wide a normal interval is that is one of several, so that any is a false alarm with a chance
    of at most ``alpha``.

    Example:
        >>> bonferroni(1, 0.05), round(bonferroni(3, 0.05), 3)
        (1.0, 1.221)
    """
    return NormalDist().inv_cdf(alpha / 2 / n_tests) / NormalDist().inv_cdf(alpha / 2)


def check_level(level: object, name: str = "level") -> float:
    """A coverage, or a power of a test, in (0, 1)."""
    number = check_real(name, level, 0.0, 1.0)
    if not 0.0 < number < 1.0:
        raise expected(name, "between 0 and 1", level)
    return number


def check_alpha(alpha: object) -> float:
    """The chance of a false alarm, in (0, 0.5]: a coverage of 0.95 in its place would turn the verdict round."""
    number = check_level(alpha, "alpha")
    if number > 0.5:
        raise expected("alpha", "the chance of a false alarm, such as 0.05, and at most 0.5", alpha)
    return number
