"""Maximum mean calibration error (MMCE): a kernel distance between confidence and correctness, over the batch."""

from __future__ import annotations

from typing import get_args

import torch
from torch import Tensor

from calibkit._checks import check_choice, check_flag
from calibkit.losses._base import PenalisedLoss, Variant

WIDTH = 0.4  #: of the Laplacian kernel, in the paper and in every public code.


def kernel_form(r: Tensor, u: Tensor) -> Tensor:
    r"""Q(u) = sum_ij u_i u_j exp(-abs(r_i - r_j) / 0.4) for ascending r (M,) in [0, 1] and u (M,).

    Pairs with equal r have no gradient in r (the kernel's kink), so the gradient does not depend on the rows' order.
    """
    below, up_to = torch.searchsorted(r.detach(), r.detach()), torch.searchsorted(r.detach(), r.detach(), right=True)
    smaller = torch.nn.functional.pad((u * torch.exp(r / WIDTH)).cumsum(0), (1, 0))
    total = torch.nn.functional.pad(u.cumsum(0), (1, 0))
    return (u * (2 * torch.exp(-r / WIDTH) * smaller[below] + total[up_to] - total[below])).sum()


class MMCE(PenalisedLoss):
    r"""Cross-entropy + ``weight`` * MMCE.

    With r the top confidence, c = 1 if the top class is right, and :math:`k(r, s) = e^{-|r - s| / 0.4}`, both penalties
    are (roots of) a quadratic form :math:`Q(u) = \sum_{ij} u_i u_j k(r_i, r_j)`:

    .. math::
       \begin{gathered}
       \mathrm{MMCE}^2 = Q\big((c - r) / N\big), \\
       \mathrm{MMCE}_w^2 = Q\big(c\,(1 - r) / m - (1 - c)\, r / n\big)
       \end{gathered}

    for m right and n wrong samples. Q is exact here in O(N log N): the kernel factors over sorted confidences.

    Args:
        weight: factor of the penalty. 2.0 goes with the weighted form in the code's scaling (Mukhoti et al. 2020, CIFAR
            and Tiny-ImageNet); the code of MbLS uses 1.0 with ``weighted=False``.
        weighted: balance right against wrong samples, the authors' recommendation; a batch without a right or without
            a wrong sample then has penalty 0.
        variant: ``"paper"`` as above. ``"code"`` as all public implementations: the unweighted form is not rooted; the
            weighted one divides twice, :math:`Q(c\,(1 - r) / m^2 - (1 - c)\,r / n^2)` but for 1e-5 in the denominators,
            about 20 times less at m = 100, n = 28. The default is ``"code"``, for the weights above were set with it.

    Paper: Kumar et al. 2018, "Trainable Calibration Measures for Neural Networks from Kernel Mean Embeddings".
    Differs from the paper: 1e-10 is added below the root, as in the code, so that its gradient is finite at 0.

    Example:
        >>> loss = MMCE(weight=2.0)
        >>> loss(torch.tensor([[8.0, 1, -3, 0], [2, 5, 4.5, -6], [0, 0.5, 0.2, 12]]), torch.tensor([0, 2, 3]))
        tensor(1.5425)
    """

    def __init__(
        self, *, weight: float = 2.0, weighted: bool = True, variant: Variant = "code", ignore_index: int = -100
    ) -> None:
        super().__init__(weight=weight, ignore_index=ignore_index)
        self.weighted = check_flag("weighted", weighted)
        self.variant = check_choice("variant", variant, get_args(Variant))

    def _penalty(self, z: Tensor, y: Tensor, keep: Tensor) -> Tensor:
        r, top = torch.softmax(z, 1).max(1)
        r, order = r.sort()
        right, keep = (top == y)[order] * keep[order], keep[order]
        wrong = keep - right
        m, n = right.sum(), wrong.sum()
        if not self.weighted:
            square = kernel_form(r, (right - keep * r) / (m + n).clamp(min=1)).clamp(min=0)
            return square if self.variant == "code" else torch.where(m + n > 0, torch.sqrt(square + 1e-10), 0.0)
        both = (m > 0) & (n > 0)
        m, n = m.clamp(min=1), n.clamp(min=1)
        u, v = right * (1 - r) / m, wrong * r / n
        if self.variant == "paper":
            square = kernel_form(r, u - v)
        else:
            uu, vv = kernel_form(r, u), kernel_form(r, v)
            twice_uv = kernel_form(r, u + v) - uu - vv
            square = uu / (m * m + 1e-5) + vv / (n * n + 1e-5) - twice_uv / (m * n + 1e-5)
        return torch.where(both, torch.sqrt(square.clamp(min=0) + 1e-10), 0.0)
