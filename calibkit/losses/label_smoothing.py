"""Label smoothing (LS): cross-entropy against a target that gives a little mass to every class."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from calibkit._checks import check_choice, check_real
from calibkit.losses._base import Loss

Convention = Literal["K", "K-1"]


class LabelSmoothing(Loss):
    r"""Label smoothing, mean over the batch.

    .. math::
       \begin{gathered}
       \mathcal L = -\sum_k q'_k \log p_k, \\
       q'_k = (1 - \alpha)\,\mathbb 1[k = y] + \alpha / K
       \end{gathered}

    Two conventions are in use. ``"K"`` spreads :math:`\alpha` over all classes, the true one included: Szegedy et al.
    2016, MbLS eq. 3, ACLS eq. 4, torch. ``"K-1"`` spreads it over the wrong ones only, so that the true class keeps
    :math:`1 - \alpha`: Mukhoti et al. 2020, the CTS paper's text, the code of MDCA. ``"K-1"`` with :math:`\alpha` is
    ``"K"`` with :math:`\alpha K / (K - 1)`.

    Convention ``"K"`` is :math:`\mathrm{CE} + \alpha (z_y - \frac1K \sum_k z_k)`, and its gradient is
    :math:`p_j - q'_j` (ACLS eq. 5).

    Args:
        alpha: smoothing in [0, 1]; 0 is cross-entropy. 0.05 in MbLS (Sec. 5, Baselines), ACLS and Mukhoti et al. 2020.
        convention: ``"K"`` or ``"K-1"``. ``"K"`` because the papers reproduced here and torch use it.

    Paper: Szegedy et al. 2016, "Rethinking the Inception Architecture for Computer Vision", Sec. 7; here MbLS eq. 3.
    Differs from the paper: not at all; the authors' codes of MbLS and ACLS are convention ``"K"``.

    Raises:
        ValueError: ``alpha`` outside [0, 1].

    Example:
        >>> loss = LabelSmoothing(alpha=0.05)
        >>> loss(torch.tensor([[8.0, 1, -3, 0], [2, 5, 4.5, -6], [0, 0.5, 0.2, 12]]), torch.tensor([0, 2, 3]))
        tensor(0.6428)
    """

    def __init__(self, *, alpha: float = 0.05, convention: Convention = "K", ignore_index: int = -100) -> None:
        super().__init__(ignore_index=ignore_index)
        self.alpha = check_real("alpha", alpha, 0.0, 1.0)
        self.convention = check_choice("convention", convention, get_args(Convention))

    def _each(self, z: Tensor, y: Tensor) -> Tensor:
        log_p = torch.log_softmax(z, 1)
        n_classes = z.shape[1]
        uniform = self.alpha if self.convention == "K" else self.alpha * n_classes / (n_classes - 1)
        return -(1 - uniform) * log_p.gather(1, y[:, None])[:, 0] - uniform * log_p.mean(1)
