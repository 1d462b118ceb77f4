"""Calibration from below, by cross-fitting: no noise in the test set makes an error larger than it is, on average.

An error is ``E |c - P(correct | c)|``, a supremum over functions: of all s with values in [-1, 1] the sign of
``c - P(correct | c)`` makes ``E s(c) (c - correct)`` largest. A binned error takes s from the rows that it averages and
so counts their noise. Here s comes from other rows, by cross-fitting: whatever s is, the mean cannot exceed the error.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from numbers import Real
from typing import NamedTuple, Protocol, Self

import torch
from torch import Tensor

from calibkit._checks import Array, check_bins, check_real, expected
from calibkit.metrics.binning import bin_sums, mass_edges
from calibkit.metrics.comparison import Comparison, Estimate
from calibkit.metrics.sample import Sample, check_groups

FOLDS = 5
#: Standard errors to either end of an interval: 1.96, and half as much again because folds lend each other their signs,
#: which makes the standard deviation of the mean up to 1.5 times that of independent rows.
WIDTH = 3.0


class Recalibrator(Protocol):
    """What every calibrator is: fitted on logits and labels, it gives probabilities for logits."""

    def fit(self, logits: Array, labels: Array) -> Self:
        """Fit on logits (N, K) and labels (N,); returns self."""

    def __call__(self, logits: Array) -> Array:
        """Probabilities (N, K)."""


class TopLabelError(NamedTuple):
    """Lower bounds of the calibration error of the top label and of its two parts; ``total = over + under``.

    Attributes:
        total: of E abs(c - P(correct | c)).
        over: of the part where c is above P(correct | c), over-confidence.
        under: of the part where it is below.
    """

    total: Estimate
    over: Estimate
    under: Estimate


def variational_ece(probs: Array, labels: Array, *, n_bins: int = 15, groups: Array | None = None) -> TopLabelError:
    r"""Lower bound of the calibration error of the top label, split into over- and under-confidence.

    .. math:: \frac{1}{N} \sum_i s_{-i}(\kappa_i)\, (\kappa_i - 1[\hat y_i = y_i])
              \;\lesssim\; \mathrm{E}\, \big|\kappa - P(\hat y = y \mid \kappa)\big|

    where kappa is the confidence and s, -1 or 1, the sign of the mean of ``confidence - correct`` over the equal-mass
    bin that holds kappa, of the rows in the other four of five folds. It is ``adaptive_ece`` with each bin's sign taken
    from other rows. On average it is no more than the true error: 0 for a calibrated network, for which it is negative
    as often as not, and the true error where the signs are plain. Where errors are small, or change their sign within a
    bin, it is too low. An ECE errs to the other side: of a calibrated network with ten classes, 1,000
    rows show one of 1 to 3 points on average, the more the less accurate it is.

    It takes 5 rows, or groups, at least. The interval says how far other test sets would have moved the value. The true
    error lies below its lower end in at most 2.5% of test sets; the upper end is no limit of the true error.

    Args:
        probs: (N, K) probabilities.
        labels: (N,) integers in [0, K).
        n_bins: number of bins.
        groups: (N,) integers or strings: rows of one group, as the pixels of an image, are in one fold and count as
            one draw.

    Raises:
        ValueError: bad ``probs``, ``labels`` or ``groups``, ``n_bins`` < 1, fewer than 5 rows or groups.

    Example:
        >>> import numpy as np
        >>> probs = np.tile([[0.9, 0.1], [0.6, 0.4]], (500, 1))
        >>> labels = np.tile([0, 0, 0, 1, 1, 0, 0, 0, 0, 0], 100)    # right: 0.8 of 0.9, 0.8 of 0.6
        >>> error = variational_ece(probs, labels)
        >>> f"{error.total:.3f}, over {error.over:.3f}, under {error.under:.3f}"
        '0.150 [0.111, 0.189], over 0.050 [0.023, 0.077], under 0.100 [0.067, 0.133]'

    Paper: Berta, Braun, Holzmueller, Bach and Jordan 2026, "A Variational Estimator for L_p Calibration Errors"
    (arXiv:2602.24230): the bound, cross-fitting, and the split.
    Differs from it and from the authors' package ``probmetrics``: s is from bins, where they fit a classifier (boosted
    trees, isotonic regression); over-confident is a confidence that is too large, where theirs, below 1/2, is one that
    is too small; the interval is an addition.
    """
    n_bins, sample = check_bins(n_bins), Sample.of(probs, labels)
    group, confidence, gap = numbered(groups, sample), sample.confidence, sample.gap
    sign = torch.empty_like(gap)
    for out in _folds(group):
        edges = mass_edges(confidence[~out], n_bins)[:-1]
        known = bin_sums(torch.bucketize(confidence[~out], edges), gap[~out], n_bins).sign()
        sign[out] = known[torch.bucketize(confidence[out], edges)]
    variance = confidence.double() * (1.0 - confidence.double())
    parts = (sign, sign.clamp(min=0.0), sign.clamp(max=0.0))
    return TopLabelError(*(_estimate(s * gap, s.square() * variance, group) for s in parts))


def variational_calibration_error(
    probs: Array, labels: Array, recalibrator: Recalibrator, *, p: float = 1.0, groups: Array | None = None
) -> Estimate:
    r"""Lower bound of the calibration error of the whole vector of probabilities, in an L_p norm.

    .. math:: \frac{1}{N} \sum_i \big\langle \partial \lVert g_{-i}(f_i) - f_i \rVert_p,\; e_{y_i} - f_i \big\rangle
              \;\lesssim\; \mathrm{E}\, \big\lVert P(y \mid f) - f \big\rVert_p

    where f are the probabilities, e the one-hot labels, :math:`\partial` is the gradient of the norm, and g a
    recalibration fitted on the other four of five folds: any calibrator. On average the value is no more than the true
    error, which no binning of K-dimensional vectors tells, and the closer g comes to P(y | f), the closer it is; it is
    negative where g leads away. Choose g beforehand: the largest of several values on the same rows is no such bound.
    What :func:`variational_ece` says of the interval holds here too.

    Args:
        probs: (N, K) probabilities.
        labels: (N,) integers in [0, K).
        recalibrator: what g is, such as ``StructuredMatrixScaling()``; a copy is fitted on log-probabilities.
        p: of the norm, from 1 to infinity.
        groups: (N,) integers or strings: rows of one group are in one fold and count as one draw.

    Raises:
        ValueError: bad ``probs``, ``labels`` or ``groups``, ``p`` < 1, fewer than 5 rows or groups, and whatever the
            recalibrator raises.

    Example:
        >>> import numpy as np
        >>> from calibkit import TemperatureScaling
        >>> rng = np.random.default_rng(0)
        >>> true = rng.normal(size=(4000, 3))
        >>> labels = (true + rng.gumbel(size=true.shape)).argmax(1)
        >>> honest, sure = (np.exp(b * true) / np.exp(b * true).sum(1, keepdims=True) for b in (1, 2))
        >>> known = np.abs(sure - honest).sum(1).mean()
        >>> f"{known:.2f}: {variational_calibration_error(sure, labels, TemperatureScaling()):.2f}"
        '0.30: 0.32 [0.27, 0.36]'
        >>> f"{variational_calibration_error(honest, labels, TemperatureScaling()):.2f}"
        '-0.02 [-0.06, 0.03]'

    Paper: as :func:`variational_ece`.
    Differs from the authors' package: g is a calibrator of the caller's choice, there boosted trees that start at f;
    the interval is an addition.
    """
    p = math.inf if isinstance(p, Real) and p == math.inf else check_real("p", p, 1.0)
    sample = Sample.of(probs, labels)
    f, group = sample.probs.double(), numbered(groups, sample)
    slope = _slope(recalibrated(sample, recalibrator, group) - f, p)
    mean = (slope * f).sum(1)
    variance = (slope.square() * f).sum(1) - mean.square()
    return _estimate(slope.gather(1, sample.labels[:, None])[:, 0] - mean, variance, group)


class ScoreParts(NamedTuple):
    """A proper score of the network, and its two parts; ``score = calibration + refinement``.

    Attributes:
        score: of the network as it is.
        calibration: what a recalibration takes away.
        refinement: what it leaves.
    """

    score: Estimate
    calibration: Estimate
    refinement: Estimate


def score_parts(
    probs: Array,
    labels: Array,
    recalibrator: Recalibrator,
    *,
    groups: Array | None = None,
    n_resamples: int = 1000,
    seed: int = 0,
) -> dict[str, ScoreParts]:
    r"""NLL, in nats, and Brier score as calibration, which a recalibration can take away, plus refinement.

    .. math:: \frac{1}{N} \sum_i \ell(f_i, y_i) = \frac{1}{N} \sum_i \big( \ell(f_i, y_i) - \ell(g_{-i}(f_i), y_i) \big)
              + \frac{1}{N} \sum_i \ell(g_{-i}(f_i), y_i)

    with g a recalibration, any calibrator, fitted on the other four of five folds. With the best g, which gives
    P(y | f), the first mean estimates how far f is from it, a Kullback-Leibler divergence or a squared distance,
    and the second the score of P(y | f). With any other the calibration is too small on average, and the refinement as
    much too large: what g cannot mend counts as refinement. Of a calibrated network the calibration is a little below 0
    on average.

    Args:
        probs: (N, K) probabilities.
        labels: (N,) integers in [0, K).
        recalibrator: what g is; a copy is fitted on log-probabilities. One temperature is what the paper takes.
        groups: (N,) integers or strings: rows of one group are in one fold and are drawn together.
        n_resamples: behind the 95% intervals, those of :func:`~calibkit.metrics.bootstrap` and
            :func:`~calibkit.metrics.bootstrap_difference`; that of the calibration ends at 0 or above. The fits stay as
            they are.
        seed: of the resamples.

    Returns:
        ``{"nll": ScoreParts, "brier": ScoreParts}``, the first in nats.

    Raises:
        ValueError: bad ``probs``, ``labels`` or ``groups``, ``n_resamples`` < 1, fewer than 5 rows or groups, and
            whatever the recalibrator raises.

    Example:
        >>> import numpy as np
        >>> from calibkit import TemperatureScaling
        >>> rng = np.random.default_rng(0)
        >>> true = rng.normal(size=(4000, 3))
        >>> labels = (true + rng.gumbel(size=true.shape)).argmax(1)
        >>> honest, sure = (np.exp(b * true) / np.exp(b * true).sum(1, keepdims=True) for b in (1, 3))
        >>> known = (honest * np.log(honest / sure)).sum(1).mean()
        >>> parts = score_parts(sure, labels, TemperatureScaling())["nll"]
        >>> f"{known:.2f}: {parts.calibration:.2f} of {parts.score:.2f}"
        '0.35: 0.34 [0.31, 0.38] of 1.21 [1.16, 1.27]'

    Papers: Broecker 2009 and Kull & Flach 2015 for the two parts; Berta, Holzmueller, Jordan and Bach 2025, "Rethinking
    Early Stopping: Refine, Then Calibrate" (arXiv:2501.19195), for one temperature as g.
    Differs from the last: g never sees the rows that it is judged on, by cross-fitting.
    """
    sample = Sample.of(probs, labels)
    both = Comparison(sample.labels, ("nll", "brier"), groups=groups, n_resamples=n_resamples, seed=seed)
    both.add("refined", recalibrated(sample, recalibrator, numbered(groups, sample)))
    both.add("given", sample.probs)
    found = {}
    for name in both.metrics:
        calibration = both.difference("given", "refined", name)
        calibration = calibration._replace(high=max(calibration.high, 0.0))  # as the true part is
        found[name] = ScoreParts(both.of("given", name), calibration, both.of("refined", name))
    return found


def _slope(d: Tensor, p: float) -> Tensor:
    """The gradient of the L_p norm at each row of d (n, K), 0 at 0; a subgradient where there is no gradient.

    Example:
        >>> d = torch.tensor([[3.0, -4.0], [0.0, 0.0]])
        >>> _slope(d, 2.0).tolist(), _slope(d, math.inf).abs().tolist()
        ([[0.6000000238418579, -0.800000011920929], [0.0, 0.0]], [[0.0, 1.0], [0.0, 0.0]])
    """
    if math.isinf(p):
        largest = d.abs().argmax(1, keepdim=True)
        return torch.zeros_like(d).scatter_(1, largest, d.gather(1, largest).sign())
    u = d.abs() / d.abs().amax(1, keepdim=True).clamp(min=torch.finfo(d.dtype).tiny)
    norm = u.pow(p).sum(1, keepdim=True).pow(1 / p).clamp(min=1.0)
    return d.sign() * (u / norm).pow(p - 1)


def numbered(groups: Array | None, sample: Sample) -> Tensor:
    """(N,) number of the group of each row, from 0; each row by itself if None."""
    name, unit, group = "probs", "rows", torch.arange(len(sample), device=sample.labels.device)
    if groups is not None:
        name, unit = "groups", "distinct numbers"
        group = torch.from_numpy(check_groups(groups, len(sample))[1]).to(group.device)
    if (n := int(group.max()) + 1) < FOLDS:
        raise expected(name, f"at least {FOLDS} {unit}", n)
    return group


def recalibrated(sample: Sample, recalibrator: Recalibrator, group: Tensor) -> Tensor:
    """(N, K) what copies of the recalibrator, each fitted on the other folds, make of the rows; float64."""
    if isinstance(recalibrator, type) or not hasattr(recalibrator, "fit"):
        raise expected("recalibrator", "a calibrator, as `calibrator(KEY)` makes one", repr(recalibrator))
    logits = sample.probs.double().clamp(min=torch.finfo(sample.probs.dtype).tiny).log_()
    after = torch.empty_like(logits)
    for out in _folds(group):
        after[out] = copy.deepcopy(recalibrator).fit(logits[~out], sample.labels[~out])(logits[out])
    return after


def _folds(group: Tensor) -> Iterator[Tensor]:
    """(N,) bool, for each fold whether a row is held out; whole groups, dealt at random and always alike."""
    generator = torch.Generator().manual_seed(0)
    dealt = torch.randperm(int(group.max()) + 1, generator=generator, device="cpu") % FOLDS
    fold = dealt.to(group.device)[group]
    return (fold == k for k in range(FOLDS))


def _estimate(terms: Tensor, variance: Tensor, group: Tensor) -> Estimate:
    """The mean of the terms (N,), with the interval that the sums over groups give.

    ``variance`` (N,) is theirs if the network is calibrated. Where their own is less, rare errors have not shown yet.
    """
    mean = terms.mean()
    squares = torch.bincount(group, terms - mean).square().sum()
    width = WIDTH * float(torch.maximum(squares, variance.sum()).sqrt()) / len(terms)
    return Estimate(float(mean), float(mean) - width, float(mean) + width)
