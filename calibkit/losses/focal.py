"""Focal loss (FL): cross-entropy that fades for samples already predicted well."""

from __future__ import annotations

import torch
from torch import Tensor

from calibkit._checks import check_real
from calibkit.losses._base import Loss, cross_entropy


class Focal(Loss):
    r"""Focal loss, mean over the batch.

    .. math:: \mathcal L = -(1 - p_y)^\gamma \log p_y

    The gradient runs through the modulating factor: it is :math:`g \cdot (p_j - \mathbb 1[j = y])` with
    :math:`g = (1 - p_y)^\gamma - \gamma\, p_y (1 - p_y)^{\gamma - 1} \log p_y`.

    Args:
        gamma: focusing exponent, at least 0; 0 is cross-entropy. 3 in MbLS (Sec. 5, Baselines) and ACLS.

    Paper: Lin et al. 2017, "Focal Loss for Dense Object Detection", eq. 4; for calibration Mukhoti et al. 2020.
    Differs from the paper: the public code of Mukhoti et al. sums over the batch by default, here it is the mean, as in
    the code of MbLS. The factor is computed without cancellation, and its gradient stays finite at :math:`p_y = 1` for
    every gamma.

    Raises:
        ValueError: ``gamma`` < 0.

    Example:
        >>> loss = Focal(gamma=3.0)
        >>> loss(torch.tensor([[8.0, 1, -3, 0], [2, 5, 4.5, -6], [0, 0.5, 0.2, 12]]), torch.tensor([0, 2, 3]))
        tensor(0.0853)
    """

    def __init__(self, *, gamma: float = 3.0, ignore_index: int = -100) -> None:
        super().__init__(ignore_index=ignore_index)
        self.gamma = check_real("gamma", gamma, 0.0)

    def _each(self, z: Tensor, y: Tensor) -> Tensor:
        log_p = -cross_entropy(z, y)
        wrong = -torch.expm1(log_p)  # 1 - p_y
        # x ** gamma has an infinite slope at x = 0 for gamma < 1; the clamp makes it 0 there, which is the limit.
        return -(wrong.clamp(min=torch.finfo(z.dtype).tiny) ** self.gamma) * log_p
