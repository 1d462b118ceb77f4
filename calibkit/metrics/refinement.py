"""Proper scores in two parts: what a recalibration takes away, and what it leaves."""

from __future__ import annotations

from typing import NamedTuple

from calibkit._checks import Array
from calibkit.metrics.comparison import Comparison, Estimate
from calibkit.metrics.sample import Sample
from calibkit.metrics.variational import Recalibrator, numbered, recalibrated


class ScoreParts(NamedTuple):
    """A proper score and its two parts; ``score = calibration + refinement``.

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
    r"""NLL and Brier score as calibration, which a recalibration can take away, plus refinement, which it cannot.

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
