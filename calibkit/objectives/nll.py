"""Negative log-likelihood."""

from __future__ import annotations

from dataclasses import dataclass

from calibkit.objectives.base import Objective


@dataclass(frozen=True)
class NLL(Objective):
    r"""Mean negative log-likelihood in nats, :math:`-\frac1N \sum_i \log p_{i, y_i}`; the default of every calibrator.

    Guo et al. 2017, "On Calibration of Modern Neural Networks", section 4.2. Convex in every calibrator that is linear
    in its parameters (with inverse temperatures for temperature scaling).

    Example:
        >>> round(NLL().value([[2.0, 0.0], [0.0, 1.0]], [0, 0]), 6)
        0.720095
    """
