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

How they are minimised is in ``calibkit.fitting``. ValueError tells of an option out of the range that its text states.
"""

from __future__ import annotations

from typing import Literal

from torch import nn

from calibkit._checks import expected
from calibkit.objectives.base import Objective, cross_entropy, cross_entropy_grad, losses
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
    "class_loss_scaling": ClassLossScaling,
}

#: Keys of ``OBJECTIVES``, for signatures: those that have a gradient, and all.
SmoothName = Literal["nll", "focal", "label_smoothing", "class_balanced", "class_loss_scaling"]
ObjectiveName = Literal["ece", SmoothName]


def get(objective: str | Objective, *, smooth: bool = False, n_bins: int = 15) -> Objective:
    """The objective of that name with its defaults, ``n_bins`` those of ``"ece"``, or the object itself.

    Raises:
        ValueError: an unknown name, another type, or ``ece`` where a ``smooth`` one is needed, for its gradient.
    """
    known = [name for name, cls in OBJECTIVES.items() if cls.smooth or not smooth]
    if isinstance(objective, str) and objective in known:
        return ECE(n_bins) if objective == "ece" else OBJECTIVES[objective]()
    if isinstance(objective, Objective) and (objective.smooth or not smooth):
        return objective
    got = f"{objective!r}{'; a training loss is none' * isinstance(objective, nn.Module)}"
    raise expected("objective", f"one of {', '.join(known)}, or an object of calibkit.objectives", got)


__all__ = [
    "OBJECTIVES", "ECE", "NLL", "ClassBalanced", "ClassLossScaling", "Focal", "LabelSmoothing", "Objective",
    "ObjectiveName", "SmoothName", "cross_entropy", "cross_entropy_grad", "get", "losses",
]  # fmt: skip
