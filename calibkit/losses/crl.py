"""Correctness ranking loss (CRL): samples that were right more often in training should be more confident."""

from __future__ import annotations

from typing import get_args

import torch
from torch import Tensor

from calibkit._checks import check_choice, check_real
from calibkit.losses._base import Indicator, RankedLoss, confidence_ahead, mean


class CRL(RankedLoss):
    r"""Cross-entropy + ``weight`` * ranking loss; remembers how often each training sample was right.

    .. math:: \mathcal L = -\log p_y + \frac{\lambda}{N} \sum_i \max\big(0,\; |c_i - c_j|
       - \operatorname{sign}(c_i - c_j)\,(\kappa_i - \kappa_j)\big), \qquad j = i + 1

    with :math:`\kappa` the top confidence and c the share of past epochs in which a sample was right, over the batch's
    neighbours (the last sample's neighbour is the first). A pair counts if both its rows do.

    ``loss(logits, labels, index)`` and ``loss.penalty(logits, labels, index)`` take the samples' positions in the
    training set; after each step the training loop calls `update`, after each epoch `end_epoch`. The history is in
    buffers, so ``state_dict`` holds it and ``to`` moves it. In the first epoch the penalty is 0. Counts enter as
    :math:`c = (\text{count} - \min) / (\max - \min)`, with the minimum over the whole history and the number of
    finished epochs (at least 1) as maximum.

    Where the penalty of a pair is active, its gradient in :math:`z_j` of the sample that should be less confident is
    :math:`p_{\hat y} (\mathbb 1[j = \hat y] - p_j)` (ACLS supplement eq. 19), and minus that in the other sample.

    Args:
        n_samples: size of the training set.
        weight: :math:`\lambda`. 1.0 in the authors' code.
        indicator: ``"ranking"`` as above. ``"margin"`` is the control of ACLS Table 6: the gradient
            :math:`p_{\hat y} (\mathbb 1[j = \hat y] - p_j)` in every sample, where the logit is at least ``margin``
            below the top (at the top: above the smallest). It pushes confidence down and ranks nothing.
        margin: of that control, in logit units. 10, as in ACLS.

    Attributes:
        counts: (n_samples,) int64, how often each sample was right.
        epochs: int64, how many epochs have ended.

    Paper: Moon et al. 2020, "Confidence-Aware Learning for Deep Neural Networks".
    Differs from the paper: not at all, and as in the code confidence is the top probability (the paper also tries
    margin and entropy). Where every sample has been right in every epoch the code divides 0 by 0; here nothing is
    ranked then. ACLS supplement eq. 18 leaves out :math:`|c_i - c_j|` and 1/N.

    Example:
        >>> loss = CRL(n_samples=3)
        >>> logits, labels = torch.tensor([[2.0, 0.0], [0.5, 0.0], [0.0, 1.0]]), torch.tensor([0, 1, 1])
        >>> index = torch.tensor([0, 1, 2])
        >>> loss.penalty(logits, labels, index)
        tensor(0.)
        >>> loss.update(index, logits.argmax(1) == labels)
        >>> loss.end_epoch()
        >>> loss.counts, loss.penalty(logits, labels, index)
        (tensor([1, 0, 1]), tensor(0.5444))
    """

    uses_index = True

    def __init__(
        self,
        *,
        n_samples: int,
        weight: float = 1.0,
        indicator: Indicator = "ranking",
        margin: float = 10.0,
        ignore_index: int = -100,
    ) -> None:
        super().__init__(weight=weight, ignore_index=ignore_index)
        self.indicator = check_choice("indicator", indicator, get_args(Indicator))
        self.margin = check_real("margin", margin, 0.0)
        self._remember(n_samples)

    def _ranked(self, z: Tensor, keep: Tensor, index: Tensor) -> Tensor:
        if self.indicator == "margin":
            return mean(self._confidence_beyond_the_margin(z), keep)
        ahead = self._ahead(index, z.dtype)
        pairs = torch.relu(ahead.abs() - ahead.sign() * confidence_ahead(z))
        return mean(pairs, keep * keep.roll(-1))

    def _confidence_beyond_the_margin(self, z: Tensor) -> Tensor:
        """The top probability of each row, 0 where no distance reaches the margin; no gradient in logits within it."""
        low, top = z.detach().aminmax(dim=1, keepdim=True)
        reached = torch.where(z == top, top - low, top - z.detach()) >= self.margin
        confidence = torch.softmax(torch.where(reached, z, z.detach()), 1).max(1).values
        return confidence * reached.any(1)
