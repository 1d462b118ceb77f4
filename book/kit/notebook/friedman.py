"""Methods ranked on several networks: the test of Friedman, and Nemenyi's critical difference."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import friedmanchisquare, studentized_range

from calibkit._checks import check_int, check_real, expected


class Ranking(NamedTuple):
    """Mean ranks with what chance makes of them.

    Attributes:
        mean: rank of each method, the mean over blocks, best first; 1 is the best.
        n_blocks: N.
        chance: the p-value of Friedman's test: that all methods are alike.
        critical: two mean ranks further apart than this differ, by Nemenyi's test.
    """

    mean: pd.Series
    n_blocks: int
    chance: float
    critical: float

    def apart(self) -> int:
        """How many pairs of methods are told apart."""
        ranks = self.mean.to_numpy()
        return int((np.abs(ranks[:, None] - ranks) > self.critical).sum() // 2)


def ranking(errors: pd.DataFrame, level: float = 0.05) -> Ranking:
    r"""Friedman's test and Nemenyi's critical difference (Demšar 2006).

    .. math:: \mathrm{CD} = q_\alpha \sqrt{\frac{k (k + 1)}{6 N}}

    :math:`q_\alpha` is the quantile of the studentised range of k methods, divided by :math:`\sqrt 2`. Ties share the
    mean of their ranks. Both take the N blocks as independent.

    Args:
        errors: (N, k), one row a block (a network), one column a method; lower is better, infinite is worst.
        level: alpha, of all pairs together.

    Raises:
        ValueError: fewer than three methods or two blocks, or a missing value.

    Paper: Demšar 2006, "Statistical Comparisons of Classifiers over Multiple Data Sets", JMLR, section 3.2.

    Example:
        >>> found = ranking(pd.DataFrame({"a": [1, 1, 1, 1], "b": [2, 2, 2, 3], "c": [3, 3, 3, 2]}))
        >>> found.mean.to_dict(), found.n_blocks, round(found.chance, 3), round(found.critical, 3), found.apart()
        ({'a': 1.0, 'b': 2.25, 'c': 2.75}, 4, 0.039, 1.657, 1)
    """
    if errors.shape[1] < 3 or len(errors) < 2:
        raise expected("errors", "of at least two blocks and three methods", f"shape {errors.shape}")
    if errors.isna().any(axis=None):
        raise expected("errors", "without missing values", f"one in {errors.index[errors.isna().any(axis=1)][0]!r}")
    ranks = errors.rank(axis=1)
    chance = friedmanchisquare(*(ranks[name] for name in ranks)).pvalue
    critical = critical_difference(ranks.shape[1], len(ranks), level)
    return Ranking(ranks.mean().sort_values(), len(ranks), float(chance), critical)


def critical_difference(n_methods: int, n_blocks: int, level: float = 0.05) -> float:
    """Nemenyi's critical difference of mean ranks: see :func:`ranking`.

    Example:
        >>> round(critical_difference(4, 14), 2)   # Demšar's example, section 3.2.2: q 2.569, CD 1.25
        1.25
    """
    k, n = check_int("n_methods", n_methods, 2), check_int("n_blocks", n_blocks, 1)
    quantile = studentized_range.ppf(1 - check_real("level", level, 0.0, 1.0, open_low=True), k, np.inf)
    return float(quantile / np.sqrt(2) * np.sqrt(k * (k + 1) / (6 * n)))
