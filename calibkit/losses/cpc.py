"""Calibration by pairwise constraints (CPC): each pair of classes is a two-class problem."""

from __future__ import annotations

import math
from typing import Any, get_args

import torch
from torch import Tensor

from calibkit._arrays import BLOCK_BYTES, blocks
from calibkit._checks import check_choice, check_real
from calibkit.losses._base import PenalisedLoss, Variant, mean

GPU_BLOCK_BYTES = 1 << 26


class PairSum(torch.autograd.Function):
    r"""Sum over class pairs k < l of softplus(z_k - z_l) + softplus(z_l - z_k): (M, K) -> (M,).

    Value and gradient, sum_k tanh((z_j - z_k) / 2), are made in one pass over blocks of pairs: O(M K) memory, where the
    plain expression needs several (M, K, K) tensors.
    """

    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        """Sum the pairs of classes [start, stop) with all from start on, block by block."""
        n_rows, n_classes = z.shape
        value, slope = z.new_zeros(n_rows), torch.zeros_like(z)
        block_bytes = BLOCK_BYTES if z.device.type == "cpu" else GPU_BLOCK_BYTES
        for block in blocks(n_classes, n_rows * n_classes, z.element_size(), block_bytes):
            width = block.stop - block.start
            gap = z[:, block, None] - z[:, None, block.start :]
            distance = gap.abs()
            decay = torch.exp(-distance)
            pair = torch.log1p(decay).mul_(2).add_(distance)
            # The first `width` columns are the block against itself, each pair twice: half of them is taken off. That
            # leaves log 2 for each class with itself.
            value += pair.sum((1, 2)) - pair[:, :, :width].sum((1, 2)) / 2
            tanh = ((1 - decay) / (1 + decay)).copysign_(gap)
            slope[:, block] += tanh.sum(2)
            slope[:, block.stop :] -= tanh[:, :, width:].sum(1)
        ctx.save_for_backward(slope)
        return value - n_classes * math.log(2)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Tensor:
        """The stored gradient times what comes from above, which has no derivative."""
        if torch.is_grad_enabled():
            raise RuntimeError("Expected `create_graph` to be False, but got True: CPC has no second derivative")
        (slope,) = ctx.saved_tensors
        return upstream[:, None] * slope


class CPC(PenalisedLoss):
    r"""Cross-entropy + ``weight_1v1`` * 1v1 + ``weight_be`` * binary exclusion, mean over the batch.

    .. math::
       \begin{gathered}
       \mathcal L = -\log p_y + \lambda_1 \mathcal L_{1v1} + \lambda_2 \mathcal L_{BE}, \\
       \mathcal L_{1v1} = -\sum_{k \ne y} \log\sigma(z_y - z_k), \\
       \mathcal L_{BE} = -\sum_{\{k, l\} \not\ni y} \big[\log\sigma(z_k - z_l) + \log\sigma(z_l - z_k)\big]
       \end{gathered}

    The first term wants the true class above every other, the second (binary exclusion) the others to be level.

    The gradient of the 1v1 term is :math:`p_j / (p_y + p_j)` for :math:`j \ne y` and minus their sum for y; that of the
    exclusion term is :math:`\sum_{k \ne y} (p_j - p_k) / (p_j + p_k)` for :math:`j \ne y` and 0 for y. ACLS Table 2
    and supplement eqs. 7 and 8 have the sign of the former wrong, eq. 8 also that of the latter.
    `penalty` includes the two weights. Memory is O(N K), time O(N K^2).

    Args:
        weight_1v1: :math:`\lambda_1`. 0.1 in the configuration of the public re-implementation (CALS).
        weight_be: :math:`\lambda_2`. 1.0 there. The papers print neither.
        variant: ``"paper"`` as above, sums over pairs. ``"code"`` (CALS) divides the 1v1 term by K - 1, and the
            exclusion term, after adding log 2 for each class but y (its pair with itself), by 2 (K - 1)(K - 2). The
            default is ``"code"``, for the weights belong to it.

    Paper: Cheng and Vasconcelos 2022, "Calibrating Deep Neural Networks by Pairwise Constraints"; ACLS supplement
    eqs. 2-4.
    Differs from the code: 1e-10 is not added to each difference, which changes the loss by less than 1e-10; with two
    classes, where the code divides by 0, there is no pair to exclude.

    Example:
        >>> loss = CPC(weight_1v1=0.1, weight_be=1.0)
        >>> loss(torch.tensor([[8.0, 1, -3, 0], [2, 5, 4.5, -6], [0, 0.5, 0.2, 12]]), torch.tensor([0, 2, 3]))
        tensor(1.4956)
    """

    def __init__(
        self, *, weight_1v1: float = 0.1, weight_be: float = 1.0, variant: Variant = "code", ignore_index: int = -100
    ) -> None:
        super().__init__(ignore_index=ignore_index)
        self.weight_1v1 = check_real("weight_1v1", weight_1v1, 0.0)
        self.weight_be = check_real("weight_be", weight_be, 0.0)
        self.variant = check_choice("variant", variant, get_args(Variant))

    def _penalty(self, z: Tensor, y: Tensor, keep: Tensor) -> Tensor:
        n_others = z.shape[1] - 1
        others = torch.arange(n_others, device=z.device)
        others = z.gather(1, others + (others >= y[:, None]))  # (M, K - 1), without the true class
        one_v_one = -torch.nn.functional.logsigmoid(z.gather(1, y[:, None]) - others).sum(1)
        exclusion = PairSum.apply(others)
        if self.variant == "code":
            one_v_one = one_v_one / n_others
            exclusion = (exclusion + n_others * math.log(2)) / (2 * n_others * (n_others - 1) or math.inf)
        return mean(self.weight_1v1 * one_v_one + self.weight_be * exclusion, keep)
