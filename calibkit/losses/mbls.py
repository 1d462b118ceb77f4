"""Margin-based label smoothing (MbLS): logits may be apart, up to a margin."""

from __future__ import annotations

from typing import get_args

import torch
from torch import Tensor

from calibkit._checks import check_choice, check_real
from calibkit.losses._base import PenalisedLoss, Variant, mean


class MbLS(PenalisedLoss):
    r"""Cross-entropy + ``weight`` * margin penalty, mean over the batch.

    .. math:: \mathcal L = -\log p_y + \lambda \sum_k \max(0,\; \max_j z_j - z_k - m)

    With v classes more than m below the top, the gradient of the penalty (``"code"``) is v / K in the top logit and
    -1 / K in each of theirs; it sums to 0. ACLS eq. 9 and supplement eq. 15 say the top logit gets none, which would
    need it to be detached.

    Args:
        margin: m, in logit units, at least 0; 0 penalises all distances, as label smoothing does up to bounds
            (Proposition 1). 10 for Tiny-ImageNet, CUB and VOC; 6 for CIFAR-10 and 20 Newsgroups (MbLS Sec. 5, Our
            method). 10 is the code's default.
        weight: :math:`\lambda`. 0.1 in all of MbLS (Sec. 4.3), except 0.05 for "Ours (m=0)".
        variant: ``"paper"`` sums over classes (eq. 7); ``"code"`` takes the mean over them, so that 0.1 acts as 0.1 / K
            a class. The default is ``"code"``, for 0.1 belongs to it and only the mean keeps Proposition 1's bounds:
            :math:`\mathrm{KL}(u \| p)` is at most :math:`\frac1K \sum_k d_k`, and at least that less :math:`\log K`.

    Paper: Liu et al. 2022, "The Devil is in the Margin: Margin-based Label Smoothing for Network Calibration", eq. 7.

    Example:
        >>> loss = MbLS(margin=6.0)
        >>> loss.penalty(torch.tensor([[8.0, 1, -3, 0], [2, 5, 4.5, -6], [0, 0.5, 0.2, 12]]), torch.tensor([0, 2, 3]))
        tensor(2.5250)
    """

    def __init__(
        self, *, margin: float = 10.0, weight: float = 0.1, variant: Variant = "code", ignore_index: int = -100
    ) -> None:
        super().__init__(weight=weight, ignore_index=ignore_index)
        self.margin = check_real("margin", margin, 0.0)
        self.variant = check_choice("variant", variant, get_args(Variant))

    def _penalty(self, z: Tensor, y: Tensor, keep: Tensor) -> Tensor:
        excess = torch.relu(z.max(1, keepdim=True).values - z - self.margin)
        return mean(excess.sum(1) if self.variant == "paper" else excess.mean(1), keep)
