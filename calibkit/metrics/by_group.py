"""The calibration of parts of a sample, such as ages or sites, with a correction for looking at many."""

from __future__ import annotations

import math

import torch

from calibkit._checks import Array, check_draws
from calibkit.metrics.calibrated import CalibrationTest, calibration_test
from calibkit.metrics.intervals import check_alpha, holm
from calibkit.metrics.sample import Sample, check_groups

#: Draws that many groups or a small alpha raise their number to.
MOST_DRAWS = 100_000


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
    """In which of several groups of samples is the network not calibrated? A :func:`calibration_test` of each.

    The p-values are adjusted by Holm's method: for a calibrated network, the chance that any of the G groups is called
    "not calibrated" is at most ``alpha``. ``detectable`` is what is seen in a group at ``alpha / G``, that of
    the strictest test. A network can be calibrated on the whole and on no group.

    The groups must be known before the labels are: among the samples of one label, no network is calibrated.

    Args:
        probs: (N, K) probabilities.
        labels: (N,) integers in [0, K).
        groups: (N,) integers or strings, as a list, an array or a column.
        classwise: as in :func:`calibration_test`, as are ``power`` and ``seed``.
        alpha: for all groups together, in (0, 0.5].
        power: see there.
        n_draws: at least so many; raised to ``10 * G / alpha``, at most to 100,000, so that p-values of many groups can
            be small enough.
        seed: see there.

    Returns:
        ``{group: CalibrationTest}``, sorted by group.

    Raises:
        ValueError: bad ``groups``; what :func:`calibration_test` refuses.

    Example:
        >>> import numpy as np
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
    found = {
        name: calibration_test(
            part, None, classwise=classwise, alpha=alpha / len(parts), power=power, n_draws=n_draws, seed=seed
        )
        for name, part in parts.items()
    }
    adjusted = holm({name: of.p for name, of in found.items()})
    return {name: of._replace(p=adjusted[name]).at(alpha) for name, of in found.items()}


def split_by_group(sample: Sample, groups: object) -> dict[int | str, Sample]:
    """The rows of each group, sorted by group."""
    distinct, number = check_groups(groups, len(sample))
    at = torch.from_numpy(number).to(sample.labels.device)
    fields = sample.probs, sample.labels, sample.confidence, sample.correct
    return {name: Sample(*(x[at == k] for x in fields)) for k, name in enumerate(distinct.tolist())}
