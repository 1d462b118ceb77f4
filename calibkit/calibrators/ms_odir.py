"""Matrix scaling with off-diagonal and intercept regularisation (MS-ODIR)."""

from __future__ import annotations

import torch
from torch import Tensor

from calibkit._checks import check_real
from calibkit.fitting.affine import Ridge
from calibkit.fitting.affine_calibrator import AffineCalibrator
from calibkit.fitting.affine_fit import Strengths
from calibkit.objectives import Objective, SmoothName


class MSODIR(AffineCalibrator):
    r"""MS-ODIR, :math:`p = \softmax(W z + b)`, with a penalty on what is off the diagonal of W and on b.

    .. math:: \min_{W, b}\; L(W, b) + \frac{\lambda}{K (K - 1)} \sum_{i \neq j} w_{ij}^2
              + \frac{\mu}{K} \sum_j b_j^2

    The diagonal is free, so strong penalties lead to K scales without biases, not to temperature scaling. The argmax
    may change: recompute the accuracy.

    Args:
        objective: what is L: as in ``VectorScaling``, as are the attributes not named here.
        lam: lambda >= 0; None (default) chooses it by cross-validation, from 100 K down by powers of ten.
        mu: mu >= 0; None (default) chooses it by cross-validation, from 10 down by powers of ten.
        n_folds: folds of the cross-validation, in which temperature scaling takes part; 5 as in the authors' code.

    Attributes:
        weights: (K, K) float64 W; row k gives the calibrated logit of class k. I / T where the fit is temperature
            scaling.
        bias: (K,) float64 b.
        chosen_lam: lambda used; infinite where the fit is temperature scaling.
        chosen_mu: mu used; likewise.

    Paper: Kull, Perello Nieto, Kaengsepp, Silva Filho, Song and Flach 2019, "Beyond temperature scaling: Obtaining
    well-calibrated multi-class probabilities with Dirichlet calibration", NeurIPS, section 3.
    Differs from the paper: none in the penalty. Their code for networks leaves out the divisors K (K - 1) and K, so its
    coefficients are not on the scale of the paper's; fits by Adam on batches until the training loss stalls; searches
    the full grid of lambda and mu, here walked along its descent; predicts with the mean of the five fold models, here
    one fit on all rows. Falling back to temperature scaling is an addition.

    Raises:
        ValueError: bad input, an unknown objective or ``"ece"``, ``lam`` or ``mu`` < 0, ``n_folds`` < 2, fewer rows
            than folds.
        RuntimeError: called before ``fit``.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> true = rng.normal(size=(400, 3)) * 2
        >>> y = (true + rng.gumbel(size=true.shape)).argmax(1)
        >>> ms = MSODIR(lam=0.1, mu=0.1).fit(3 * true, y)            # three times too sure of itself
        >>> ms.weights.diagonal().round(1).tolist()                  # a third would be right
        [0.4, 0.4, 0.3]
    """

    state = ("weights", "bias", "chosen_lam", "chosen_mu", "fell_back", "cv_loss", "cv_loss_temperature")
    reported = state[2:]
    penalties = ("lam", "mu")

    def __init__(
        self,
        objective: SmoothName | Objective = "nll",
        *,
        lam: float | None = None,
        mu: float | None = None,
        n_folds: int = 5,
    ) -> None:
        super().__init__(objective, lam=lam, n_folds=n_folds)
        self.mu = None if mu is None else check_real("mu", mu, 0.0)

    def _strongest(self, n_classes: int) -> Strengths:
        return (100.0 * n_classes, 10.0)

    def _ridge(self, strengths: Strengths, start: Tensor) -> Ridge | None:
        lam, mu = strengths
        if lam == mu == 0.0:
            return None
        k = len(start)
        strength = torch.full_like(start, lam / (k * (k - 1)))
        strength.fill_diagonal_(0.0)
        strength[:, -1] = mu / k
        return Ridge(strength, torch.zeros_like(start))
