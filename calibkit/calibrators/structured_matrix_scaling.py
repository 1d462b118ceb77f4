"""Structured matrix scaling (SMS): matrix scaling on top of temperature scaling, with a ridge set by N and K."""

from __future__ import annotations

from calibkit.fitting.affine_calibrator import StructuredCalibrator


class StructuredMatrixScaling(StructuredCalibrator):
    r"""Structured matrix scaling, :math:`p = \softmax(W f + b)` with f the log of smoothed probabilities.

    .. math:: f = \ln\left[ (1 - s)\, \softmax(z / T) + \frac{s}{K} \right], \quad s = \frac{1}{N + 1};

    .. math:: \min_{W, b}\; L(W, b) + \lambda \frac{K}{N} \Big[ \sum_k (w_{kk} - 1)^2 + \sum_k b_k^2
              + (K - 1) \sum_{i \neq j} w_{ij}^2 \Big]

    ``StructuredVectorScaling`` with a full matrix: T is fitted alone, then W and b are, from W = I and b = 0. The ridge
    is K - 1 times stronger off the diagonal, where there are K - 1 times as many parameters. With few samples a class
    it is close to structured vector scaling, with many to matrix scaling of log-probabilities. A hundred classes with
    fifty samples each are few: where much can be gained off the diagonal, ``MSODIR``, which chooses its penalty by
    cross-validation, then gains more. The argmax may change: recompute the accuracy.

    Arguments, source and what differs are those of ``StructuredVectorScaling``, and the attributes but for
    ``weights``: (K, K) float64 W, whose row k gives the calibrated logit of class k. It is ``"logistic"`` of the
    authors' package ``probmetrics`` 1.3 from three classes on.

    Raises:
        ValueError: bad input, an unknown objective or ``"ece"``, ``lam`` < 0.
        RuntimeError: called before ``fit``.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> true = 2 * rng.normal(size=(400, 3))
        >>> y = (true + rng.gumbel(size=true.shape)).argmax(1)
        >>> z = 3 * true @ [[1, 0, 0], [0.5, 1, 0], [0, 0, 1]]       # class 0 takes half of the logit of class 1
        >>> StructuredMatrixScaling().fit(z, y).weights.round(1)     # gives some of it back
        array([[ 1.1, -0.3,  0.1],
               [-0.1,  1.3, -0.1],
               [ 0. ,  0.1,  0.9]])
    """
