"""Structured vector scaling (SVS): vector scaling on top of temperature scaling, with a ridge set by N and K."""

from __future__ import annotations

from calibkit.fitting.affine_calibrator import StructuredCalibrator


class StructuredVectorScaling(StructuredCalibrator):
    r"""Structured vector scaling, :math:`p = \softmax(w \circ f + b)` with f the log of smoothed probabilities.

    .. math::
       \begin{gathered}
       f = \ln\left[ (1 - s)\, \softmax(z / T) + \frac{s}{K} \right], \quad s = \frac{1}{N + 1}; \\
       \min_{w, b}\; L(w, b) + \lambda \frac{K}{N} \sum_k \left[ (w_k - 1)^2 + b_k^2 \right]
       \end{gathered}

    First T is fitted alone, which is temperature scaling; then w and b are, from w = 1 and b = 0, to which the ridge
    pulls them back, the more the fewer samples there are a class. Nothing is tuned or cross-validated. So it does not
    go back to one temperature where that is best: on ten samples for each of twenty classes it then loses a ninth of
    what ``VectorScaling`` loses. As f is at least :math:`\ln(s / K)` no logit is too large, a constant added to a row
    of logits changes nothing, and a class without a label keeps a probability. The argmax may change: recompute the
    accuracy.

    Args:
        objective: what is L: a name of ``calibkit.objectives.OBJECTIVES`` or such an object; ``"ece"`` is refused.
        lam: lambda >= 0; 1 (default) is the authors'. A factor of their penalty, seldom worth changing: with 0 there is
            none, and what ``MatrixScaling`` says of separated labels holds.

    Attributes:
        temperature: T of temperature scaling.
        smoothing: s, the share of the uniform distribution.
        weights: (K,) float64 scales w.
        bias: (K,) float64 biases b.
        fell_back: whether the fit is temperature scaling, without smoothing, which was as good by the objective itself.

    Paper: Berta, Holzmueller, Jordan and Bach 2026, "Structured Matrix Scaling for Multi-Class Calibration", AISTATS;
    the defaults are those of their package ``probmetrics`` 1.3.
    Differs from the package: the same convex objective, but at its optimum, where the package's BFGS, in float32, stops
    short by up to 1e-5 nats and some thousandths in single probabilities. T comes from the logits, where the package
    has probabilities and clips their logarithms at -87. An objective other than the NLL and the return to temperature
    scaling are additions; left out are the other penalties (lasso, MCP) and other powers of K and N.

    Raises:
        ValueError: bad input, an unknown objective or ``"ece"``, ``lam`` < 0.
        RuntimeError: called before ``fit``.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> true = 2 * rng.normal(size=(400, 3))
        >>> y = (true + rng.gumbel(size=true.shape)).argmax(1)
        >>> z = 3 * true + [0, 0, 6]                                 # three times too sure, and for class 2
        >>> svs = StructuredVectorScaling().fit(z, y)
        >>> round(svs.temperature, 1), svs.weights.round(1).tolist(), svs.bias.round(1).tolist()
        (5.6, [1.5, 1.6, 1.7], [0.5, 0.5, -1.0])
    """

    diagonal = True
