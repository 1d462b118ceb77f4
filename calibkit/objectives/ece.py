"""Expected calibration error: piecewise constant, searched on a grid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from calibkit._checks import Array, check_bins, check_held_out
from calibkit.metrics.binning import width_bins
from calibkit.objectives.base import Objective


def bin_gaps(confidence: Tensor, correct: Tensor, n_bins: int) -> Tensor:
    """(G, n_bins) sums of ``confidence - correct`` in each equal-width bin, for G candidates and n samples.

    The top probabilities are (G, n), contiguous and float64; ``correct``, (G, n) or (n,) float64, is 1 where the top
    class is the label. The ECE of candidate g is ``bin_gaps(...)[g].abs().sum() / N``: the counts of the bins cancel.
    """
    gaps = torch.zeros(len(confidence), n_bins, dtype=torch.float64, device=confidence.device)
    return gaps.scatter_add_(1, width_bins(confidence, n_bins), confidence - correct)


@dataclass(frozen=True)
class ECE(Objective):
    r"""Expected calibration error of the top label, :math:`\sum_b \frac{|B_b|}{N} |acc(B_b) - conf(B_b)|`.

    Equal-width bins, right-closed (``calibkit.metrics.binning``). It has no useful gradient: temperature scaling and
    class-based temperature scaling search it on a grid; calibrators with gradients refuse it.

    Args:
        n_bins: number of bins, 1 or more; 15 as in Guo et al. 2017 and in Tables I-II of Frenkel & Goldberger 2021.

    Raises:
        ValueError: ``n_bins`` < 1.

    Example:
        >>> round(ECE().value([[2.0, 0.0], [0.0, 1.0]], [0, 0]), 6)   # |0.880797 - 1| / 2 + |0.731059 - 0| / 2
        0.425131
    """

    n_bins: int = 15
    smooth: ClassVar[bool] = False
    convex: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_bins", check_bins(self.n_bins))

    def value(self, logits: Array, labels: Array) -> float:
        """ECE of these logits as they are, a fraction."""
        z, y = check_held_out(logits, labels)
        top, index = z.double().softmax(1).amax(1), z.argmax(1)  # rounding may make probabilities equal
        gaps = bin_gaps(top[None], (index == y).double(), self.n_bins)
        return float(gaps.abs().sum()) / len(z)
