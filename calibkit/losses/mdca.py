"""Multi-class difference in confidence and accuracy (MDCA): a differentiable class-wise error of a batch."""

from __future__ import annotations

from torch import Tensor

from calibkit.losses._base import PenalisedLoss, residuals


class MDCA(PenalisedLoss):
    r"""Cross-entropy + ``weight`` * MDCA.

    .. math:: \mathcal L = -\log p_y + \frac{\beta}{K} \sum_k \Big| \frac1N \sum_n p_k^{(n)} - \frac1N \sum_n
       \mathbb 1[y^{(n)} = k] \Big|

    The gradient of the penalty is :math:`\frac1{NK} p_j (a_j - \sum_k a_k p_k)`, with :math:`a_k` the sign of the mean
    probability minus the share of class k. The penalty says little when the batch is small beside K, for the shares are
    then 0 or at least 1/N. The authors' best results use it with the focal loss:
    ``Focal(gamma=1)(logits, labels) + MDCA().penalty(logits, labels)``.

    Args:
        weight: :math:`\beta`. 1.0 in the authors' scripts (their command line's own default, 10, is not used by them).

    Paper: Hebbalaguppe et al. 2022, "A Stitch in Time Saves Nine: A Train-Time Regularizing Loss for Improved Neural
    Network Calibration".
    Differs from the paper: not at all. ACLS supplement eq. 9 leaves out 1/K, and the sign in its eq. 10 has a stray
    absolute value.

    Example:
        >>> import torch
        >>> loss = MDCA()
        >>> loss.penalty(torch.tensor([[8.0, 1, -3, 0], [2, 5, 4.5, -6], [0, 0.5, 0.2, 12]]), torch.tensor([0, 2, 3]))
        tensor(0.1056)
    """

    def _penalty(self, z: Tensor, y: Tensor, keep: Tensor) -> Tensor:
        return ((residuals(z, y) * keep[:, None]).sum(0) / keep.sum().clamp(min=1)).abs().mean()
