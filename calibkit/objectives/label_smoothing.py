"""Cross-entropy against smoothed labels."""

from __future__ import annotations

from dataclasses import dataclass

from calibkit._checks import check_real
from calibkit.objectives.base import Objective


@dataclass(frozen=True)
class LabelSmoothing(Objective):
    r"""Mean cross-entropy against :math:`(1 - \alpha)\,\mathrm{onehot}(y) + \alpha / K`.

    Args:
        alpha: smoothing in [0, 1); 0.05 as in Jung et al. 2023 (SCTL), "Scaling of Class-wise Training Losses for
            Post-hoc Calibration", who fit calibrators with it. The convention is that of ``torch``: all K classes share
            alpha, the label included.

    A class that is masked by a very low logit has its share as well, and to give it that a calibrator flattens all
    others: leave such classes out.

    Differs from the paper: the paper's optimiser stops long before the optimum (CIFAR-10 DenseNet-40, temperature
    scaling: T = 3.23 there, T = 5.54 at the optimum). Here every fit reaches the optimum.

    Raises:
        ValueError: ``alpha`` outside [0, 1).

    Example:
        >>> round(LabelSmoothing(0.05).value([[2.0, 0.0]], [0]), 6)   # ce + alpha * (z_y - mean(z))
        0.176928
    """

    alpha: float = 0.05

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", check_real("alpha", self.alpha, 0.0, 1.0 - 1e-9))

    @property
    def smoothing(self) -> float:
        """Share of the target spread over all classes: alpha."""
        return self.alpha
