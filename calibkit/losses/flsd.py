"""Focal loss with a sample-dependent exponent (FLSD-53)."""

from __future__ import annotations

import torch
from torch import Tensor

from calibkit.losses._base import Loss, cross_entropy


class FLSD(Loss):
    r"""Focal loss whose gamma is 5 for hard samples and 3 for the others, mean over the batch.

    .. math:: \mathcal L = -(1 - p_y)^{\gamma(p_y)} \log p_y, \qquad
       \gamma(p) = 5 \text{ if } p < 0.2, \text{ else } 3

    The exponent is constant in the gradient. The loss jumps at :math:`p_y = 0.2`, from 0.527 to 0.824.

    Paper: Mukhoti et al. 2020, "Calibrating Deep Neural Networks using Focal Loss" (FLSD-53); MbLS Sec. 5, Baselines.
    Differs from the paper: not at all. Their code has a third range from 0.5 on, whose gamma is an argument that their
    scripts set to 3. ACLS supplement eq. 1 chooses gamma by the top class's probability; paper and code use the true
    class's.

    Example:
        >>> loss = FLSD()
        >>> loss(torch.tensor([[8.0, 1, -3, 0], [2, 5, 4.5, -6], [0, 0.5, 0.2, 12]]), torch.tensor([0, 2, 3]))
        tensor(0.0853)
    """

    def _each(self, z: Tensor, y: Tensor) -> Tensor:
        log_p = -cross_entropy(z, y)
        wrong = -torch.expm1(log_p)  # 1 - p_y
        return -(wrong**3) * torch.where(log_p.exp() < 0.2, wrong**2, 1.0) * log_p
