"""Dirichlet calibration with off-diagonal and intercept regularisation (Dir-ODIR)."""

from __future__ import annotations

from torch import Tensor

from calibkit.calibrators.ms_odir import MSODIR


class DirODIR(MSODIR):
    r"""Dirichlet calibration, :math:`p = \softmax(W \ln q + b)` with :math:`q = \softmax(z)`, under the ODIR penalty.

    .. math:: \min_{W, b}\; L(W, b) + \frac{\lambda}{K (K - 1)} \sum_{i \neq j} w_{ij}^2
              + \frac{\mu}{K} \sum_j b_j^2

    It is ``MSODIR`` on log-probabilities in place of logits; arguments and attributes are the same. A constant
    added to a row of logits changes nothing here, while it does in MS-ODIR.

    Of two classes ``DirODIR(lam=0, mu=0)`` is beta calibration of Kull, Silva Filho and Flach 2017,
    :math:`\sigma(a \ln q_1 - b \ln q_0 + c)`, but for their constraint a, b >= 0: where the best map does not rise, the
    fit here does not.

    Log-probabilities are below zero. So the scale of a class that has no rows runs to infinity, and with it the loss of
    its first row elsewhere. Cross-validation sees that where the class is missing in a fold, and temperature scaling is
    the fit.

    Paper: Kull, Perello Nieto, Kaengsepp, Silva Filho, Song and Flach 2019, "Beyond temperature scaling: Obtaining
    well-calibrated multi-class probabilities with Dirichlet calibration", NeurIPS, section 3.
    Differs from the paper: ln q is the exact log-softmax, where the authors' code for networks clips q at 2.2e-16; the
    rest as in ``MSODIR``. The package ``dirichletcal`` subtracts the last row of W before it penalises, unless told
    ``ref_row=False``, and drops the divisors unless told ``reg_norm=True``.

    Example:
        >>> import numpy as np
        >>> z = np.array([[2.0, 0.0]] * 4 + [[0.0, 1.0]] * 5)
        >>> y = np.array([0, 0, 0, 1, 1, 1, 1, 1, 0])
        >>> fitted = DirODIR(lam=1e-3, mu=1e-3).fit(z, y)
        >>> bool(np.allclose(fitted(z), fitted(z + 100.0)))
        True
    """

    def _features(self, logits: Tensor) -> Tensor:
        return super()._features(logits.log_softmax(1))
