"""Cross-entropy (CE), the baseline of every table."""

from __future__ import annotations

from torch import Tensor

from calibkit.losses._base import Loss, cross_entropy


class CrossEntropy(Loss):
    r"""Cross-entropy :math:`-\log p_y`, in nats, mean over the batch.

    .. math:: \mathcal L = -\log p_y, \qquad p = \operatorname{softmax}(z), \qquad
       \partial\mathcal L / \partial z_j = p_j - \mathbb 1[j = y]

    Differs from the paper: ACLS eq. 1 writes :math:`\mathbb E_q[p]` for it, a slip of notation.
    From ``torch.nn.CrossEntropyLoss`` it differs in two corners: half-precision logits are computed in float32, and a
    batch whose labels are all ignored gives 0, not NaN.

    Example:
        >>> import torch
        >>> loss = CrossEntropy()
        >>> loss(torch.tensor([[8.0, 1, -3, 0], [2, 5, 4.5, -6], [0, 0.5, 0.2, 12]]), torch.tensor([0, 2, 3]))
        tensor(0.3353)
    """

    def _each(self, z: Tensor, y: Tensor) -> Tensor:
        return cross_entropy(z, y)
