"""Matrix scaling (MS): a full matrix and a bias."""

from __future__ import annotations

from calibkit.fitting.affine_calibrator import AffineCalibrator


class MatrixScaling(AffineCalibrator):
    r"""Matrix scaling, :math:`p = \softmax(W z + b)`, with K x K weights and K biases.

    .. math:: \min_{W, b}\; L(W, b) + \frac{\lambda}{K} \left[ \lVert T W - I \rVert_F^2 + \lVert b \rVert^2 \right]

    L is the objective and T the temperature that minimises it, so the penalty pulls towards temperature scaling. Kull
    et al.'s penalty, which leaves the diagonal free, is ``MSODIR``. The argmax may change: recompute the accuracy.

    Args:
        objective: as in ``VectorScaling``, as are ``n_folds`` and the attributes not named here.
        lam: lambda >= 0; 0 (default) is plain matrix scaling, as in the paper: K^2 + K parameters, which overfit unless
            N is many times that, and where N is less the labels are separated and there is no minimum. None chooses
            lambda by cross-validation among 100, 10, ..., 1e-6 and temperature scaling.
        n_folds: folds of the cross-validation; 5.

    Attributes:
        weights: (K, K) float64 W; row k gives the calibrated logit of class k.
        bias: (K,) float64 b.

    Paper: Guo, Pleiss, Sun and Weinberger 2017, "On Calibration of Modern Neural Networks", section 4.2.
    Differs from the paper: the fit starts from temperature scaling and is at the optimum, where there is one. On
    separated labels it stops, with a RuntimeWarning, as soon as every row has its label at a probability above 1/2.
    The penalty is an addition. Without one, a row added to all rows of W changes nothing and is left at the start's.

    Raises:
        ValueError: bad input, an unknown objective or ``"ece"``, ``lam`` < 0, ``n_folds`` < 2, fewer rows than
            folds.
        RuntimeError: called before ``fit``.

    Example:
        >>> import numpy as np
        >>> z = np.array([[2.0, 0.0]] * 4 + [[0.0, 1.0]] * 5)
        >>> y = np.array([0, 0, 0, 1, 1, 1, 1, 1, 0])
        >>> MatrixScaling().fit(z, y)(z)[[0, -1]].round(6).tolist()  # the shares: 3 of 4, 4 of 5
        [[0.75, 0.25], [0.2, 0.8]]
    """

    strongest = (100.0,)
