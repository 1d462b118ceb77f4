"""Class-balanced negative log-likelihood."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from calibkit.objectives.base import Objective


@dataclass(frozen=True)
class ClassBalanced(Objective):
    r"""Mean over the classes of the mean NLL within each class: every class counts the same, however rare it is.

    .. math:: \frac{1}{|C|} \sum_{c \in C} \frac{1}{n_c} \sum_{i: y_i = c} -\log p_{i c}

    C are the classes with at least one label. It is what class-wise loss scaling with class means comes to when all
    its scales are zero (times :math:`|C|`), hence the control to put beside it: on long-tailed held-out data it alone
    moves the fit towards a balanced test set.

    Example:
        >>> z = [[2.0, 0.0], [2.0, 0.0], [0.0, 1.0]]
        >>> round(ClassBalanced().value(z, [0, 0, 1]), 6) == round((0.126928 + 0.313262) / 2, 6)
        True
    """

    def weights(self, ce: Tensor, labels: Tensor, n_classes: int) -> Tensor:
        """1 / (number of classes present * size of the sample's class)."""
        counts = torch.bincount(labels, minlength=n_classes).double()
        return 1.0 / (counts[labels] * (counts > 0).sum())
