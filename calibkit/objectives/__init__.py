r"""Objectives: what a calibrator minimises on held-out logits. ``objective=`` takes a name of OBJECTIVES or an object.

Every smooth objective is built from one quantity a sample, the cross-entropy ``ce`` of the calibrated logits, and two
small maps on the N numbers ``ce``, so that a new one works with every calibrator and every calibrator with it:

.. math:: L(\theta) = \sum_i w_i\,\varphi(\mathrm{ce}_i), \qquad
          \mathrm{ce}_i = \log \sum_k e^{u_{ik}} - \sum_k t_{ik} u_{ik}, \qquad
          t_i = (1 - \alpha)\,\mathrm{onehot}(y_i) + \alpha / K

- ``objective.smoothing``: the number alpha (0 but for label smoothing),
- ``objective.transform(ce)``: phi, its slope and its curvature, elementwise,
- ``objective.weights(ce, labels, n_classes)``: the w_i, **held fixed** where a gradient is taken. Where they depend on
  ``ce`` (``objective.adaptive``) the fit is the fixed point: the gradient of the sum vanishes at its own weights.

``ece`` alone is not smooth (``objective.smooth`` is False): it is piecewise constant and searched on a grid.

**Fitting any calibrator to any smooth objective.** Write how the calibrated logits come from the parameters, and how a
gradient flows back; ``fit_smooth`` (blocked float64 passes, L-BFGS, and the outer loop of the fixed point) does the
rest on float32 or float64 logits, a cache-sized block of rows at a time:

>>> import torch
>>> from calibkit.objectives import NLL, fit_smooth
>>> logits, labels = torch.tensor([[2.0, 0.0], [1.0, 0.5], [3.0, 1.0]]), torch.tensor([0, 1, 1])
>>> def forward(x, z):                      # bias-only scaling: u = z + x
...     return z + x
>>> def backward(x, z, g, grad):            # add this block's dL/dx, given g = dL/du
...     grad += g.sum(0)
>>> bias = fit_smooth(NLL(), logits, labels, torch.zeros(2, dtype=torch.float64), forward, backward)
>>> probs = (logits + bias).softmax(1)
>>> bool(abs(probs[:, 1].mean() - 2 / 3) < 1e-6)   # at the optimum the mean probability is the share of the label
True
"""

from __future__ import annotations

from calibkit._checks import expected
from calibkit.objectives._base import Objective
from calibkit.objectives._fit import Minimum, fit_smooth, minimize
from calibkit.objectives._passes import cross_entropy, cross_entropy_grad, losses, value_and_grad
from calibkit.objectives.class_balanced import ClassBalanced
from calibkit.objectives.class_loss_scaling import ClassLossScaling
from calibkit.objectives.ece import ECE
from calibkit.objectives.focal import Focal
from calibkit.objectives.label_smoothing import LabelSmoothing
from calibkit.objectives.nll import NLL

OBJECTIVES = {
    "nll": NLL,
    "ece": ECE,
    "focal": Focal,
    "label_smoothing": LabelSmoothing,
    "class_balanced": ClassBalanced,
    "cls": ClassLossScaling,
}


def get(objective: str | Objective, *, smooth: bool = False, n_bins: int = 15) -> Objective:
    """The objective of that name with its defaults, or the object itself.

    Args:
        objective: a key of ``OBJECTIVES`` or an ``Objective``.
        smooth: True where the caller needs gradients, so that ``ece`` is refused.
        n_bins: bins of ``"ece"`` given by name.

    Raises:
        ValueError: an unknown name, another type, or ``ece`` where a smooth one is needed.
    """
    known = [name for name, cls in OBJECTIVES.items() if cls.smooth or not smooth]
    if isinstance(objective, str) and objective in known:
        return ECE(n_bins) if objective == "ece" else OBJECTIVES[objective]()
    if isinstance(objective, Objective) and (objective.smooth or not smooth):
        return objective
    raise expected("objective", f"one of {', '.join(known)}, or such an object", repr(objective))


__all__ = [
    "OBJECTIVES", "ECE", "NLL", "ClassBalanced", "ClassLossScaling", "Focal", "LabelSmoothing", "Minimum", "Objective",
    "cross_entropy", "cross_entropy_grad", "fit_smooth", "get", "losses", "minimize", "value_and_grad",
]  # fmt: skip
