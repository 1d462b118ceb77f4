r"""Has the calibration of a network changed? The test of :meth:`calibkit.metrics.Monitor.drift`, from sums over bins.

**One bin.** Let a bin hold :math:`n` samples of confidences :math:`c_i`, of which the fraction :math:`q_i` is right in
truth, and let :math:`S = \sum_i (c_i - 1[\hat y_i = y_i])` be its sum of gaps. Given the confidences
:math:`\mathrm{E} S = \sum (c_i - q_i)` and :math:`\mathrm{Var} S = \sum q_i (1 - q_i)`.

*Calibrated* means :math:`q_i = c_i`. So :math:`S` has mean 0 and the known variance :math:`\sum c_i (1 - c_i)`.

*As in the reference* means that the mean gap is the same number :math:`g` in both, unknown and not 0. It cancels in

.. math:: T = \frac{n'}{n + n'} S - \frac{n}{n + n'} S' ,

with a prime for the reference: the difference of the two mean gaps times :math:`m = n n' / (n + n')`, the weight that
Mantel and Haenszel give to a stratum. Its variance is the sum of the two, each times its factor squared. They are taken
at the accuracies that the pooled estimate of g gives, as in the test of two proportions; see :meth:`Bins.spread`. With
a reference without end :math:`T = S - n g`, so the first test is the second one with a known :math:`g = 0`.

As bins are compared one by one, a day of other confidences, which easier or harder inputs bring, is no drift by itself:
only another accuracy at the same confidence is. A calibrated network stays calibrated on both; the gap of an
over-confident one is often larger on harder inputs, and that is a change.

**Bins together.** Neighbours are joined, from the lowest, until the variance under calibration, of which the labels
know nothing, is at least ``ENOUGH`` in each group. For a group the T and their variances W add up, and each is about
normal. Two numbers see two kinds of change:

.. math:: z = \frac{\sum T}{\sqrt{\sum W}} , \qquad X^2 = \sum_{\text{groups}} \frac{T^2}{W} ,

the first a change of one sign over all confidences, as over-confidence, the second, chi-square with as many degrees of
freedom as there are groups, a change of any shape. The smaller of the two p-values counts, twice (Bonferroni).

**Where no group has enough**, as of a network that is sure of all it says, however many samples there are, the rarer
outcome is counted over the bins that hold samples of both: errors, as a rule. Their number :math:`E` has an answer if
it, or the number expected, is at least ``ENOUGH``. Expected are :math:`E - \sum T`: given the errors of both together,
those of ours at the pooled gap; or :math:`\sum (1 - c)` if calibrated. The number is a sum of independent events, and
of these the binomial distribution of that mean has the widest tails (Hoeffding 1956), so twice its tail is a p-value
that errs on the side of no drift.

Papers: Hosmer & Lemeshow 1980 and Spiegelhalter 1986 for the calibrated case with fixed probabilities; Cochran 1954 and
Mantel & Haenszel 1959 for strata; Hoeffding 1956 for counts of unequal chances.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Self

import numpy as np
import torch

from calibkit.metrics.binning import bin_sums, width_bins
from calibkit.metrics.calibration import top_label_sums
from calibkit.metrics.comparison import Estimate
from calibkit.metrics.sample import Sample

DRIFTED, NOT_SEEN, TOO_FEW = "drifted", "no drift seen", "too few samples"
#: Least variance of the sum of gaps in a group of bins: no fewer are right, and no fewer wrong, if all is calibrated.
#: Where no group has it, the least number of errors, found or expected.
ENOUGH = 10.0
Z95 = 1.959964


class Drift(NamedTuple):
    """What the test of a change in calibration found.

    Attributes:
        verdict: "drifted" if ``p`` is at most ``alpha``, "no drift seen", or "too few samples" for any answer.
        p: p-value of the whole test; 1.0 where there are too few samples.
        change: mean gap, confidence - accuracy, less that of the reference, with its 95% interval: positive where the
            network is more over-confident now. Bins are weighted as in the test; NaN if no bin holds samples of both.
        z: the change in standard errors; infinite where confidences of 1 leave no room for any.
        statistic: chi-square over the groups of bins.
        dof: its degrees of freedom.
    """

    verdict: str
    p: float
    change: Estimate
    z: float
    statistic: float
    dof: int

    def at(self, alpha: float) -> Self:
        """The same, judged at another ``alpha``."""
        return self if self.verdict == TOO_FEW else self._replace(verdict=DRIFTED if self.p <= alpha else NOT_SEEN)


class Bins(NamedTuple):
    """Sums over equal-width bins of confidence, all (n_bins,) float64."""

    counts: np.ndarray  #: samples
    confidence: np.ndarray  #: sum of the confidences c
    correct: np.ndarray  #: right predictions
    variance: np.ndarray  #: sum of c (1 - c)

    @classmethod
    def of(cls, sample: Sample, n_bins: int) -> Self:
        """The sums of checked samples."""
        c = sample.confidence.double()
        variance = bin_sums(width_bins(sample.confidence, n_bins), (c * (1.0 - c)).clamp(min=0.0), n_bins)
        return cls(*(x.cpu().numpy() for x in (*top_label_sums(sample, n_bins), variance)))

    @property
    def gaps(self) -> np.ndarray:
        """(n_bins,) sum of confidence - correct."""
        return self.confidence - self.correct

    def spread(self, gap: np.ndarray) -> np.ndarray:
        """Variance of ``gaps`` if the mean gap of each bin were ``gap`` (n_bins,).

        It is that of the binomial distribution at the accuracy which the gap leaves, times the share that calibration
        leaves of it, as confidences differ within a bin; but no less than the spread of these, for where nothing is
        wrong the gap varies as they do.
        """
        mean = self.confidence / np.maximum(self.counts, 1.0)
        binomial = self.counts * mean * (1.0 - mean)
        share = np.divide(self.variance, binomial, out=np.ones_like(mean), where=binomial > 0)
        accuracy = np.clip(mean - gap, 0.0, 1.0)
        return np.maximum(share * self.counts * accuracy * (1.0 - accuracy), binomial - self.variance)


def drift_of(current: Bins, reference: Bins | None, alpha: float) -> Drift:
    """The test of the module's text; without a reference, of perfect calibration."""
    if reference is None:
        other, share = Bins(*np.zeros_like(current)), np.ones_like(current.counts)
    else:
        other, share = reference, reference.counts / np.maximum(current.counts + reference.counts, 1.0)

    def variance_of(ours: np.ndarray, others: np.ndarray) -> np.ndarray:
        return share**2 * ours + (1.0 - share) ** 2 * others

    calibrated = variance_of(current.variance, other.variance)
    group, enough = joined(calibrated)

    def of_groups(*sums: np.ndarray) -> np.ndarray:
        return sum(np.bincount(group, x) for x in sums)

    def mean_gap(*samples: Bins) -> np.ndarray:
        counts = of_groups(*(x.counts for x in samples))
        return (of_groups(*(x.gaps for x in samples)) / np.maximum(counts, 1.0))[group]

    pooled, ours, others = mean_gap(current, other), mean_gap(current), mean_gap(other)
    same = calibrated if reference is None else variance_of(current.spread(pooled), other.spread(pooled))
    moved = share * current.gaps - (1.0 - share) * other.gaps
    total, variance = of_groups(moved), of_groups(same)
    unforeseen = np.where(np.abs(total) > 0.5, np.inf, 0.0)  # without a variance gaps are whole, but for rounding
    statistic = float(np.divide(total**2, variance, out=unforeseen, where=variance > 0).sum())
    z = float(total.sum() / math.sqrt(variance.sum())) if variance.any() else math.copysign(statistic, total.sum())
    if enough:
        p = min(math.erfc(abs(z) / math.sqrt(2.0)), chi_square_tail(statistic, len(total)))
        p = min(1.0, 2.0 * p if len(total) > 1 else p)
    else:
        p = counted(current, reference, moved)
    weight = (share * current.counts).sum() or math.nan
    error = float(math.sqrt(variance_of(current.spread(ours), other.spread(others)).sum()) / weight)
    change = float(total.sum() / weight)
    return Drift(
        verdict=TOO_FEW if p is None else NOT_SEEN,
        p=1.0 if p is None else p,
        change=Estimate(change, change - Z95 * error, change + Z95 * error),
        z=z,
        statistic=statistic,
        dof=len(total),
    ).at(alpha)


def counted(current: Bins, reference: Bins | None, moved: np.ndarray) -> float | None:
    """The p-value of how often the rarer outcome came, None for too few; ``moved`` (n_bins,) are the T of the text."""
    both = [current] if reference is None else [current, reference]
    outcomes = [bins.counts - bins.correct for bins in both]
    if sum(bins.confidence.sum() for bins in both) < sum(bins.counts.sum() for bins in both) / 2:
        outcomes, moved = [bins.correct for bins in both], -moved
    found, trials = outcomes[0], current.counts if reference is None else sum(outcomes)
    mean = np.clip(found - moved, 0.0, trials)
    shared = np.all([bins.counts > 0 for bins in both], axis=0)
    found, trials, mean = (float(x[shared].sum()) for x in (found, trials, mean))
    return None if max(found, mean) < ENOUGH else min(1.0, 2.0 * binomial_tail(found, trials, mean))


def binomial_tail(found: float, trials: float, mean: float) -> float:
    """The chance that as many as ``found``, or more, of some trials come; or so few, where that is below the mean."""
    share = mean / trials
    reach = 100.0 + 40.0 * math.sqrt(mean * (1.0 - share))  # what lies beyond no longer counts
    first, last = (found, min(trials, found + reach)) if found >= mean else (max(0.0, found - reach), found)
    k = torch.arange(round(first), math.floor(last) + 1, dtype=torch.float64)
    n, p = torch.tensor([trials, share], dtype=torch.float64)
    ways = torch.lgamma(n + 1) - torch.lgamma(k + 1) - torch.lgamma(n - k + 1)
    return (ways + torch.xlogy(k, p) + torch.special.xlog1py(n - k, -p)).logsumexp(0).exp().item()


def joined(variance: np.ndarray) -> tuple[np.ndarray, bool]:
    """The group (n_bins,) of each bin, and whether there is one with enough; what is left over joins the last."""
    group, total, done = [], 0.0, 0
    for value in variance:
        group.append(done)
        total += value
        if total >= ENOUGH:
            done, total = done + 1, 0.0
    return np.minimum(group, max(done - 1, 0)), done > 0


def chi_square_tail(statistic: float, dof: int) -> float:
    """The chance of a larger chi-square."""
    half = torch.tensor([dof, statistic], dtype=torch.float64) / 2.0
    return torch.special.gammaincc(half[0], half[1]).item()
