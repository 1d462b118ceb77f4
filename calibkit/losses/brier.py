"""Brier score as a training loss."""

from __future__ import annotations

from torch import Tensor

from calibkit.losses._base import Loss, residuals


class Brier(Loss):
    r"""Squared distance of the probabilities to the one-hot label, summed over classes, mean over the batch; in [0, 2].

    .. math:: \mathcal L = \sum_k (p_k - \mathbb 1[k = y])^2

    Its gradient is :math:`2 p_j (d_j - \sum_k p_k d_k)` with :math:`d_k = p_k - \mathbb 1[k = y]`: it vanishes on
    samples that are wrong with full confidence.

    Paper: Brier 1950, "Verification of Forecasts Expressed in Terms of Probability"; as a baseline Mukhoti et al. 2020.
    Differs from the paper: not at all; some codes also divide by K when they report it as a metric.

    Example:
        >>> import torch
        >>> loss = Brier()
        >>> loss(torch.tensor([[8.0, 1, -3, 0], [2, 5, 4.5, -6], [0, 0.5, 0.2, 12]]), torch.tensor([0, 2, 3]))
        tensor(0.2557)
    """

    def _each(self, z: Tensor, y: Tensor) -> Tensor:
        return residuals(z, y).square().sum(1)
