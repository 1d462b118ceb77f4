"""Is a network calibrated, on the whole and in its parts? A test with a p-value, and what it would have seen."""

from __future__ import annotations

import math
from typing import NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from calibkit._arrays import blocks
from calibkit._checks import Array, check_draws, check_flag, check_int, expected
from calibkit.metrics.calibration import ece
from calibkit.metrics.classwise import classwise_ece
from calibkit.metrics.intervals import check_alpha, check_level, holm
from calibkit.metrics.power import least, sharpened
from calibkit.metrics.registry import draw_labels
from calibkit.metrics.sample import Sample, check_groups

SEEN, NOT_SEEN = "not calibrated", "no miscalibration seen"
#: Numbers of bins of equal variance, the finest first: neighbours are joined.
SCALES = (16, 8, 4, 2, 1)
#: Statistics that differ by less are the same but for rounding.
SAME = 1e-12
#: Simulated test sets behind ``detectable``, and draws that many groups or a small alpha raise their number to.
N_SETS, MOST_DRAWS = 200, 100_000


class CalibrationTest(NamedTuple):
    """What :func:`calibration_test` found; as text it is one sentence.

    Attributes:
        verdict: "not calibrated" if ``p`` is at most ``alpha``, else "no miscalibration seen".
        p: p-value, the share of calibrated networks with these probabilities that look as bad.
        error: the ECE of the sample, or its class-wise ECE.
        gap: mean confidence less accuracy, positive where the network is over-confident.
        detectable: the true gap of an over-confident network that is called "not calibrated" with a probability of
            ``power``; infinite where none is, NaN where nothing was asked.
    """

    verdict: str
    p: float
    error: float
    gap: float
    detectable: float

    def at(self, alpha: float) -> Self:
        """The same, judged at another ``alpha``."""
        return self._replace(verdict=SEEN if self.p <= alpha else NOT_SEEN)

    def __str__(self) -> str:
        text = f"{self.verdict.capitalize()} (p = {self.p:.2g}): the error is {100 * self.error:.1f}%, confidence less "
        text += f"accuracy {100 * self.gap:+.1f} points"
        if self.verdict == NOT_SEEN and not math.isnan(self.detectable):
            least = "no over-confidence" if math.isinf(self.detectable) else f"{100 * self.detectable:.1f} points"
            text += f"; {least} would be seen reliably"
        return f"{text}."


def calibration_test(
    probs: Array,
    labels: Array,
    *,
    classwise: bool = False,
    alpha: float = 0.05,
    power: float | None = 0.8,
    n_draws: int = 999,
    seed: int = 0,
) -> CalibrationTest:
    r"""Is the network calibrated, as far as these samples can tell? A test, and what it would have seen.

    The hypothesis is that label k comes with probability :math:`p_{ik}`, or, of the top label, that the prediction is
    right with probability :math:`c_i`, its confidence: two columns, c and 1 - c, in the place of K. The values of a
    column are cut into m bins of equal variance :math:`\sum p (1 - p)`, so that each tells equally much; those of a
    sure network are narrow near 1. With :math:`S_{kb}` the sum of :math:`p_{ik} - 1[y_i = k]` over bin b, and
    :math:`V_{kb}` its variance, six statistics look for as many kinds of error:

    .. math:: X_m = \sum_k \sum_b \frac{S_{kb}^2}{\max(V_{kb}, 1)} \quad (m = 1, 2, 4, 8, 16), \qquad
              U = \Bigl( \sum_i \sum_k p_{ik} (p_{ik} - 1[y_i = k]) \Bigr)^2 ,

    gaps that keep their sign over 1 / m of the variance, and probabilities that are all too far from 1 / K, or too near
    to it. Each becomes the tail of a gamma distribution with the mean and the variance that it has over ``n_draws``
    sets of labels drawn from the hypothesis. The p-value is the rank of the smallest of the six among those of the
    draws. So it is right for few samples and for very sure networks too: a calibrated one is called "not calibrated"
    with a probability of at most ``alpha``.

    "No miscalibration seen" is no proof that there is none. ``detectable`` says what would have been seen: labels are
    drawn from :math:`\mathrm{softmax}(t \log p)`, so that the network is over-confident as one with too low a
    temperature is, and t < 1 is the nearest to 1 with which a share ``power`` of 200 such test sets is called "not
    calibrated". Errors of another shape, as gaps of both signs, can be harder to see. Where all probabilities are 0
    and 1, or all but that, it is about the gap at which so many of the sets have an error at all.

    Rows count as independent. Of those that go together, as the pixels of an image, take one.

    Args:
        probs: (N, K) probabilities.
        labels: (N,) integers in [0, K).
        classwise: False for the top label: is a confidence of 80% right in 80%? True for every class: does a class that
            gets 20% come in 20%? That sees more kinds of error, and takes more samples to see one of the top label.
        alpha: the chance of "not calibrated" for a calibrated network, in (0, 0.5].
        power: of ``detectable``, in (0, 1). Default: 0.8, the usual one (Cohen 1988). None to leave it out, which takes
            half the time.
        n_draws: p is no smaller than 1 / (``n_draws`` + 1), which must not be above ``alpha``.
        seed: of everything random.

    Raises:
        ValueError: bad ``probs`` or ``labels``, ``alpha`` outside (0, 0.5], ``power`` outside (0, 1), ``n_draws`` < 1
            or so few that no p-value is as small as ``alpha``.

    Example:
        >>> probs = np.tile([0.9, 0.1], (1000, 1))
        >>> print(calibration_test(probs, np.repeat([0, 1], [840, 160])))
        Not calibrated (p = 0.001): the error is 6.0%, confidence less accuracy +6.0 points.
        >>> found = calibration_test(probs, np.repeat([0, 1], [895, 105]))
        >>> found.verdict, 0.02 < found.detectable < 0.04
        ('no miscalibration seen', True)

    Papers: Spiegelhalter 1986 for U; Broecker & Smith 2007 and Vaicenavicius et al. 2019 for labels drawn from the
    hypothesis; Lee et al. 2023, T-Cal, for many numbers of bins at once.
    Differs from T-Cal: bins of equal variance in place of equal width, numbers of bins joined by their smallest tail in
    place of Bonferroni, U beside them, and all critical values by simulation.
    """
    alpha, power = check_alpha(alpha), None if power is None else check_level(power, "power")
    n_draws, seed = check_draws("n_draws", n_draws), check_int("seed", seed, 0)
    if 1.0 / (n_draws + 1.0) > alpha:
        raise expected("n_draws", f"{math.ceil(1.0 / alpha) - 1:,} or more for an alpha of {alpha:g}", n_draws)
    sample, classwise = Sample.of(probs, labels), check_flag("classwise", classwise)
    given, view = sample.probs.double().cpu(), torch.clone if classwise else right_and_wrong
    columns = Columns(view(given))
    own = columns.look((sample.labels if classwise else (~sample.correct).long()).cpu()[:, None])
    pool = torch.cat([own, columns.drawn(columns.probs, n_draws, [3, seed])])  # under the hypothesis one of the draws
    own_tail, tails = smallest_tails(pool, pool).split([1, n_draws])

    def calmer(size: float) -> Tensor:
        return sharpened(given.clamp(min=torch.finfo(torch.float64).tiny).log(), 1.0 / (1.0 + size)).exp()

    def seen(size: float) -> bool:
        found = smallest_tails(columns.drawn(view(calmer(size)), N_SETS, [4, seed]), pool)
        return (p_values(found, tails) <= alpha).double().mean().item() >= power

    detectable = math.nan
    if power is not None and math.isfinite(detectable := least(seen, 1e-3, 1e7, 0.05)):
        detectable = (given.amax(1) - calmer(detectable).amax(1)).mean().item()
    error = (classwise_ece if classwise else ece)(sample, None)
    return CalibrationTest("", p_values(own_tail, tails).item(), error, sample.gap.mean().item(), detectable).at(alpha)


def calibration_by_group(
    probs: Array,
    labels: Array,
    groups: object,
    *,
    classwise: bool = False,
    alpha: float = 0.05,
    power: float | None = 0.8,
    n_draws: int = 999,
    seed: int = 0,
) -> dict[int | str, CalibrationTest]:
    """In which of several groups of samples, such as ages or sites, is the network not calibrated?

    A :func:`calibration_test` of each, by group in sorted order. The p-values are adjusted by Holm's method: for a
    calibrated network, the chance that any of the G groups is called "not calibrated" is at most ``alpha``.
    ``detectable`` is what is seen in a group at ``alpha / G``, that of the strictest test. A network can be calibrated
    on the whole and on no group.

    The groups must be known before the labels are: among the samples of one label, no network is calibrated.

    ``groups`` are (N,) integers or strings, as a list, an array or a column; ``alpha`` is for all of them together.
    ``n_draws`` are raised to ``10 * G / alpha``, at most to 100,000, so that p-values of many groups can be small
    enough. The other arguments are those of the test.

    Raises:
        ValueError: bad ``groups``; what :func:`calibration_test` refuses.

    Example:
        >>> probs, labels = np.tile([0.8, 0.2], (2000, 1)), np.tile([0, 0, 0, 0, 1], 400)
        >>> labels[::10] = 1  # of the young, of whom every other one is labelled
        >>> for group, found in calibration_by_group(probs, labels, ["young", "old"] * 1000).items():
        ...     print(group, found.verdict, round(found.error, 2))
        old no miscalibration seen 0.0
        young not calibrated 0.2
    """
    check_alpha(alpha)
    parts = split_by_group(Sample.of(probs, labels), groups)
    n_draws = max(check_draws("n_draws", n_draws), math.ceil(min(10 * len(parts) / alpha, MOST_DRAWS)))
    options = {"classwise": classwise, "alpha": alpha / len(parts), "power": power, "n_draws": n_draws, "seed": seed}
    found = {name: calibration_test(part, None, **options) for name, part in parts.items()}
    adjusted = holm({name: of.p for name, of in found.items()})
    return {name: of._replace(p=adjusted[name]).at(alpha) for name, of in found.items()}


def split_by_group(sample: Sample, groups: object) -> dict[int | str, Sample]:
    """The rows of each group, sorted by group."""
    distinct, number = check_groups(groups, len(sample))
    at = torch.from_numpy(number).to(sample.labels.device)
    fields = sample.probs, sample.labels, sample.confidence, sample.correct
    return {name: Sample(*(x[at == k] for x in fields)) for k, name in enumerate(distinct.tolist())}


def right_and_wrong(probs: Tensor) -> Tensor:
    """(N, 2) chances that the top label is right and wrong."""
    confidence = probs.amax(1)
    return torch.stack([confidence, 1.0 - confidence], 1)


def smallest_tails(found: Tensor, null: Tensor) -> Tensor:
    """(M,) smallest of the tails of statistics (M, S), each of the gamma distribution with the moments of null (R, S).

    Example:
        >>> null = -torch.rand(4000, 1, generator=torch.Generator().manual_seed(0)).double().log()  # exponential
        >>> smallest_tails(torch.tensor([[1.0], [3.0]]), null).log().round().tolist()
        [-1.0, -3.0]
    """
    mean, rate = null.mean(0), null.mean(0) / null.var(0)
    tails = torch.special.gammaincc(mean * rate, found * rate)
    varies = null.amax(0) - null.amin(0) > SAME
    return tails.where(varies, (found <= null.amax(0) + SAME).double()).amin(1)  # the same in every draw: more is error


def p_values(tails: Tensor, null: Tensor) -> Tensor:
    """(M,) rank of each of the tails (M,) among (R,) draws and itself, as a share: of equals the last."""
    return (1.0 + torch.searchsorted(null.sort().values, tails, right=True).double()) / (len(null) + 1.0)


def variance_bins(values: Tensor) -> Tensor:
    """Index of the bin of equal variance of each of (N,) probabilities; equal ones stay together.

    Example:
        >>> variance_bins(torch.tensor([0.5] * 8 + [0.9] * 8 + [1.0] * 99)).unique(return_counts=True)[1].tolist()
        [8, 8, 99]
    """
    ordered = values.sort().values
    total = (ordered * (1.0 - ordered)).cumsum(0)
    ends = torch.searchsorted(total, total[-1] * torch.arange(1, SCALES[0], device=total.device) / SCALES[0])
    return torch.bucketize(values.contiguous(), ordered[ends])


class Columns:
    """Columns of probabilities (N, C) in bins, and what outcomes (N, R), one column a row, look like in them."""

    def __init__(self, probs: Tensor) -> None:
        self.probs, self.size = probs, (probs.shape[1], SCALES[0])
        self.cell = torch.stack([variance_bins(column) for column in probs.T], 1)
        self.cell += SCALES[0] * torch.arange(probs.shape[1], device=probs.device)
        self.expected, self.variance = (
            torch.bincount(self.cell.flatten(), x.flatten(), math.prod(self.size)).view(self.size)
            for x in (probs, probs * (1.0 - probs))
        )

    def drawn(self, truth: Tensor, n_sets: int, seed: list[int]) -> Tensor:
        """:meth:`look` at outcomes that have the probabilities ``truth``, from the same uniform numbers for a seed."""
        parts = blocks(n_sets, max(len(truth), math.prod(self.size)), 8)
        return torch.cat([self.look(y.t()) for y in draw_labels(truth, parts, np.random.default_rng(seed))])

    def look(self, outcomes: Tensor) -> Tensor:
        """(R, 6) statistics."""
        n_sets, n_cells = outcomes.shape[1], math.prod(self.size)
        index = self.cell.gather(1, outcomes) + n_cells * torch.arange(n_sets, device=outcomes.device)
        gaps = self.expected - torch.bincount(index.flatten(), minlength=n_sets * n_cells).view(n_sets, *self.size)
        found = [(self.probs.square().sum() - self.probs.gather(1, outcomes).sum(0)).square()]
        for m in SCALES:
            joined, variance = (x.unflatten(-1, (m, -1)).sum(-1) for x in (gaps, self.variance))
            found.append((joined.square() / variance.clamp(min=1.0)).sum((1, 2)))
        return torch.stack(found, 1)
