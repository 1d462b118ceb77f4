"""Adaptive and conditional label smoothing (ACLS): squared hinges on the top logit and on the others."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from calibkit._checks import check_choice, check_int, check_real, expected
from calibkit.losses._base import Indicator, RankedLoss, Variant, confidence_ahead, mean

Part = Literal["both", "adaptive", "conditional"]


class ACLS(RankedLoss):
    r"""Cross-entropy + the two ACLS terms, mean over the batch.

    .. math:: \mathcal L = -\log p_y + \lambda_1 \operatorname{ReLU}(z_{\hat y} - \min_k z_k - M)^2
       + \frac{\lambda_2}{K - 1} \sum_{j \ne \hat y} \operatorname{ReLU}(z_{\hat y} - z_j - M)^2

    where the gradient runs through :math:`z_{\hat y}` in the first term, through :math:`z_j` in the second, and nowhere
    else.

    The gradient of the penalty is :math:`2 \lambda_1 \operatorname{ReLU}(z_{\hat y} - \min_k z_k - M)` in the top logit
    and :math:`-\frac{2 \lambda_2}{K - 1} \operatorname{ReLU}(z_{\hat y} - z_j - M)` in the others: eq. 12, but for the
    factor 2, which integrating eq. 12 into eq. 13 has lost, and the mean. `penalty` includes the two weights.

    Args:
        margin: M, in logit units, at least 0; 10, and 6 for CIFAR-10 (Sec. 4.1; supplement S2.2).
        weight_pos: :math:`\lambda_1`, of the top class. 0.1 (supplement Table A).
        weight_neg: :math:`\lambda_2`, of the mean over the others. 0.01 (supplement Table A).
        variant: ``"paper"`` as above. ``"code"`` does not subtract the minimum in the first term: it is then
            :math:`\operatorname{ReLU}(z_{\hat y} - M)^2`, which adding a constant to all logits changes. The default is
            ``"code"``, the form of the public code.
        part: what Table 5 leaves of it. ``"both"``; ``"adaptive"``: the smoothing function of eq. 10 without the
            indicator, in the variant ``"code"`` where the top logit is positive; ``"conditional"``: the indicator of
            eq. 11 with constant smoothing, hinges and not their squares.
        indicator: ``"margin"``, eq. 11. ``"ranking"`` is the control of Table 6: a sample is smoothed if its confidence
            and its history of right predictions order it and the next of the batch differently (supplement eq. 21). The
            loss is then called with the samples' positions, ``loss(logits, labels, index)``, as `CRL` is.
        n_samples: size of the training set, for ``"ranking"``.

    Paper: Park et al. 2023, "ACLS: Adaptive and Conditional Label Smoothing for Network Calibration", eqs. 10-14.
    Differs from the paper: it states no reduction over the classes; the code's mean over the K - 1 others is taken in
    both variants (the sum is ``weight_neg * (K - 1)``). Eq. 13 read literally would also push the minimum in the first
    term and the top logit in the second; eq. 12 and the code do not. The code names its arguments pos_lambda = 1.0,
    neg_lambda = 0.1, alpha = 0.1, whose products are the weights here. All classes that tie for the top are top.
    Neither paper nor code says what M is where the indicator is absent or another one. It is 0 here: with M > 0 eq. 10
    is negative within the margin, and would sharpen the label.

    Example:
        >>> loss = ACLS(margin=6.0)
        >>> loss.penalty(torch.tensor([[8.0, 1, -3, 0], [2, 5, 4.5, -6], [0, 0.5, 0.2, 12]]), torch.tensor([0, 2, 3]))
        tensor(1.5054)
    """

    def __init__(
        self,
        *,
        margin: float = 10.0,
        weight_pos: float = 0.1,
        weight_neg: float = 0.01,
        variant: Variant = "code",
        part: Part = "both",
        indicator: Indicator = "margin",
        n_samples: int | None = None,
        ignore_index: int = -100,
    ) -> None:
        super().__init__(ignore_index=ignore_index)
        self.margin = check_real("margin", margin, 0.0)
        self.weight_pos = check_real("weight_pos", weight_pos, 0.0)
        self.weight_neg = check_real("weight_neg", weight_neg, 0.0)
        self.variant = check_choice("variant", variant, get_args(Variant))
        self.part = check_choice("part", part, get_args(Part))
        self.indicator = check_choice("indicator", indicator, get_args(Indicator))
        self.n_samples = None if n_samples is None else check_int("n_samples", n_samples, 1)
        self.uses_index = indicator == "ranking"
        if self.uses_index:
            if part == "adaptive":
                raise expected("indicator", '"margin" where `part` is "adaptive"', repr(indicator))
            self._remember(n_samples)

    def _ranked(self, z: Tensor, keep: Tensor, index: Tensor | None) -> Tensor:
        low, top = z.detach().aminmax(dim=1, keepdim=True)
        margin = self.margin if index is None and self.part != "adaptive" else 0.0
        height = torch.relu(z - low - margin if self.variant == "paper" else z - margin)
        depth = torch.relu(top - z - margin)  # the top class itself gives 0
        if self.part != "conditional":
            height, depth = height.square(), depth.square()
        each = self.weight_pos * (height * (z == top)).sum(1) + self.weight_neg * depth.sum(1) / (z.shape[1] - 1)
        if index is not None:  # a sample is smoothed where it is out of order with the next one
            out_of_order = self._ahead(index, z.dtype) * confidence_ahead(z.detach()) < 0
            each = each * (out_of_order & (keep.roll(-1) > 0)).to(z.dtype)
        return mean(each, keep)
