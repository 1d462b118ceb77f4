"""The mean of differences over networks, with the interval that networks of common test samples allow."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import numpy as np

from calibkit._checks import check_real, expected
from calibkit.metrics.comparison import Estimate

#: How far the sampling errors of differences of two networks on the same test samples go together, by metric: the
#: largest mean over pairs of networks that ``benchmarks/correlation.py`` finds for any pair of calibrators.
#: Of two training losses it can be larger (protocol, "Several networks").
CORRELATION = {"accuracy": 0.1, "ece": 0.1, "adaptive_ece": 0.1, "classwise_ece": 0.2, "brier": 0.4, "nll": 0.5}


def pooled(differences: Sequence[Estimate], test_sets: Sequence[Hashable], correlation: float = 1.0) -> Estimate:
    r"""The mean of the differences of N networks, with a 95% interval over test sets.

    The errors of networks of one test set t go together, by :math:`\rho` = ``correlation``; test sets are independent.
    With the arms of the single intervals, from the value to either end, that of the mean is

    .. math:: \mathrm{arm} = \frac1N \sqrt{(1 - \rho) \sum_n \mathrm{arm}_n^2
        + \rho \sum_t \Bigl( \sum_{n \in t} \mathrm{arm}_n \Bigr)^2} .

    The interval speaks of these networks and fits on other test samples.

    ``differences`` has that of each network, ``test_sets`` what its test set is called. The correlation is such as that
    of ``CORRELATION``; 1 never makes an interval too short. Where there is no difference, or one is not finite, the
    mean is NaN. ValueError tells of other numbers of test sets, and of a correlation outside [0, 1].

    Example:
        >>> two = [Estimate(1, -2, 4), Estimate(3, -1, 7)]
        >>> for test_sets, correlation in (("aa", 1.0), ("aa", 0.0), ("ab", 1.0)):
        ...     f"{pooled(two, test_sets, correlation):.1f}"
        '2.0 [-1.5, 5.5]'
        '2.0 [-0.5, 4.5]'
        '2.0 [-0.5, 4.5]'
    """
    check_real("correlation", correlation, 0.0, 1.0)
    if len(test_sets) != len(differences):
        raise expected("test_sets", f"one for each of {len(differences)} differences", len(test_sets))
    if not differences or not np.isfinite(differences).all():
        return Estimate(math.nan, math.nan, math.nan)
    value, low, high = np.asarray(differences, dtype=float).T
    _, test_set = np.unique([str(name) for name in test_sets], return_inverse=True)
    mean, ends = float(value.mean()), []
    for arms in (value - low, high - value):
        together = (np.bincount(test_set, arms) ** 2).sum()
        ends.append(math.sqrt((1 - correlation) * (arms**2).sum() + correlation * together) / len(value))
    return Estimate(mean, mean - ends[0], mean + ends[1])
