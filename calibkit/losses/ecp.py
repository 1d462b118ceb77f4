"""Explicit confidence penalty (ECP): cross-entropy minus entropy."""

from __future__ import annotations

from typing import get_args

import torch
from torch import Tensor

from calibkit._checks import check_choice
from calibkit.losses._base import PenalisedLoss, Variant, mean


class ECP(PenalisedLoss):
    r"""Cross-entropy + ``weight`` * penalty, where the penalty is the negative entropy (nats), mean over the batch.

    .. math:: \mathcal L = -\log p_y - \beta H(p), \qquad H(p) = -\sum_k p_k \log p_k

    The gradient of the penalty is :math:`p_j (\log p_j + H)`.

    Args:
        weight: :math:`\beta`. 0.1 in MbLS (Sec. 5, Baselines), whose numbers ACLS copies.
        variant: ``"paper"`` is the entropy H. ``"code"`` (MbLS) is H / K, with p clamped to [1e-10, 1 - 1e-10], so that
            0.1 acts as 0.01 for 10 classes and as 0.0005 for 200. The default is ``"code"``, for 0.1 belongs to it.

    Paper: Pereyra et al. 2017, "Regularizing Neural Networks by Penalizing Confident Output Distributions", Sec. 3.

    Example:
        >>> loss = ECP(weight=0.1, variant="paper")
        >>> loss(torch.tensor([[8.0, 1, -3, 0], [2, 5, 4.5, -6], [0, 0.5, 0.2, 12]]), torch.tensor([0, 2, 3]))
        tensor(0.3090)
    """

    def __init__(self, *, weight: float = 0.1, variant: Variant = "code", ignore_index: int = -100) -> None:
        super().__init__(weight=weight, ignore_index=ignore_index)
        self.variant = check_choice("variant", variant, get_args(Variant))

    def _penalty(self, z: Tensor, y: Tensor, keep: Tensor) -> Tensor:
        if self.variant == "paper":
            log_p = torch.log_softmax(z, 1)
            return mean((log_p.exp() * log_p.clamp(min=torch.finfo(z.dtype).min)).sum(1), keep)
        p = torch.softmax(z, 1).clamp(1e-10, 1 - 1e-10)
        return mean((p * p.log()).mean(1), keep)
