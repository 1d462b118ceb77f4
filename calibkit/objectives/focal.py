"""Focal loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from calibkit._checks import check_flag, check_real
from calibkit.objectives.base import Objective

SMALLEST = 2.0**-52  # of 1 - p: a cross-entropy is rounded by as much, and its negative powers would be noise


@dataclass(frozen=True)
class Focal(Objective):
    r"""Mean focal loss :math:`-\frac1N \sum_i (1 - p_{i, y_i})^\gamma \log p_{i, y_i}`, by Lin and others 2017.

    Args:
        gamma: focusing exponent >= 0; 3 as in Mukhoti et al. 2020 (FL-3) and Jung et al. 2023 (SCTL). 0 is the NLL.
        detach: hold the factor :math:`(1 - p)^\gamma` fixed where the gradient is taken, as the public code of SCTL
            does. The fixed point is then the minimum of the mean of :math:`\int_0^{-\log p_y} (1 - e^{-t})^\gamma\,dt`.

    Raises:
        ValueError: ``gamma`` < 0.

    Example:
        >>> round(Focal(gamma=3.0).value([[2.0, 0.0]], [0]), 8)
        0.00021499
    """

    gamma: float = 3.0
    detach: bool = False
    convex: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "gamma", check_real("gamma", self.gamma, 0.0))
        object.__setattr__(self, "detach", check_flag("detach", self.detach))

    @property
    def adaptive(self) -> bool:
        """Detached, the factor is a weight that depends on the loss."""
        return self.detach

    def transform(self, ce: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The map q^gamma * ce with q = 1 - exp(-ce), and its two derivatives; the identity when detached."""
        if self.detach:
            return super().transform(ce)
        p, q, gamma = torch.exp(-ce), -torch.expm1(-ce), self.gamma
        q = q.clamp(min=SMALLEST)
        slope = q**gamma + gamma * q ** (gamma - 1) * p * ce
        curvature = gamma * p * (q ** (gamma - 1) * (2 - ce) + (gamma - 1) * q ** (gamma - 2) * p * ce)
        return q**gamma * ce, slope, curvature

    def weights(self, ce: Tensor, labels: Tensor, n_classes: int) -> Tensor:
        """1/N, or q^gamma / N when detached."""
        weights = super().weights(ce, labels, n_classes)
        return (-torch.expm1(-ce)) ** self.gamma * weights if self.detach else weights
