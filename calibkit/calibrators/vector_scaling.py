"""Vector scaling (VS): one scale and one bias a class."""

from __future__ import annotations

from calibkit.fitting.affine_calibrator import AffineCalibrator


class VectorScaling(AffineCalibrator):
    r"""Vector scaling, :math:`p = \softmax(w \circ z + b)`, with K scales and K biases.

    .. math:: \min_{w, b}\; L(w, b) + \frac{\lambda}{K} \sum_k \left[ (T w_k - 1)^2 + b_k^2 \right]

    L is the objective and T the temperature that minimises it, so the penalty pulls towards temperature scaling, in
    relative changes of the scales and biases in nats, whatever the unit of the logits. The argmax may change: recompute
    the accuracy.

    On one column of scores of two classes, which stands for the columns 0 and z, it is Platt scaling,
    :math:`\sigma(a z + c)` at the maximum of the likelihood. Platt's own fit, and scikit-learn's ``"sigmoid"``, moves
    the N labels of a class inwards by 1 / (N + 2) first.

    Args:
        objective: a name of ``calibkit.objectives.OBJECTIVES`` or such an object; ``"ece"`` is refused.
        lam: lambda >= 0; 0 (default) is plain vector scaling, as in the paper. None chooses lambda by cross-validation
            among 10, 1, ..., 1e-7 and temperature scaling, which is what to use with many classes: at 25 samples a
            class the plain optimum is worse on new data than temperature scaling.
        n_folds: folds of the cross-validation, from 2 to the number of rows; 5 as in Kull et al. 2019. Rows are dealt
            out at random, always in the same way, and the criterion is the objective at the out-of-fold losses.

    Attributes:
        weights: (K,) float64 scales w.
        bias: (K,) float64 biases b.
        chosen_lam: lambda used; infinite where it is temperature scaling.
        fell_back: whether the fit is temperature scaling, which was at least as good in cross-validation or by the
            objective itself.
        cv_loss: lowest criterion over lambda; NaN without cross-validation.
        cv_loss_temperature: the criterion of temperature scaling on the same folds.

    Paper: Guo, Pleiss, Sun and Weinberger 2017, "On Calibration of Modern Neural Networks", section 4.2.
    Differs from the paper: the fit is at the optimum (to 1e-10 of the NLL or better), starting from temperature
    scaling; a RuntimeWarning tells where the labels are separated and there is none. The penalty is an addition. A
    class without a label, or one that is never confused, has its optimum at infinity: its parameters are then large,
    and end where they no longer matter.

    Raises:
        ValueError: bad input, an unknown objective or ``"ece"``, ``lam`` < 0, ``n_folds`` < 2, fewer rows than
            folds.
        RuntimeError: called before ``fit``.

    Example:
        >>> import numpy as np
        >>> z = np.array([[2.0, 0.0]] * 4 + [[0.0, 1.0]] * 4)        # right 3 times of 4 in either case
        >>> y = np.array([0, 0, 0, 1, 1, 1, 1, 0])
        >>> VectorScaling().fit(z, y)(z)[[0, -1]].round(6).tolist()  # one temperature cannot say so twice
        [[0.75, 0.25], [0.25, 0.75]]
    """

    diagonal, strongest = True, (10.0,)
