r"""How calibrators are fitted: searches and descents that find the optimum of an objective on held-out logits.

- ``base``: what every calibrator has; ``file_header``: which class wrote a file,
- ``temperature``: one number, exactly, and ``softmax_at`` any, also beside masked classes; ``grid`` and ``greedy``:
  temperatures of lowest ECE,
- ``smooth``: any parameters by L-BFGS (``lbfgs``), the fixed point of an adaptive objective, and no fit that ends worse
  than the network as it is,
- ``affine`` (the map and its penalty), ``affine_metric`` (well-conditioned coordinates for it), ``affine_fit`` (its
  minimum, and the choice of the penalty), ``affine_calibrator`` (all three in a calibrator),
- ``sctl_replay``: one paper's optimisers, step by step; ``interpolate``: probabilities and losses between nodes;
  ``network``: a network looked into, frozen, for Neural Clamping,
- ``own``: a class of one's own as a calibrator; ``sigmoid``: Platt's sigmoid of each class, for the estimators.

**Fitting any calibrator to any smooth objective.** Write how the calibrated logits come from the parameters, and how a
gradient flows back; ``fit_smooth`` (blocked float64 passes, L-BFGS, and the outer loop of the fixed point) does the
rest on float32 or float64 logits, a cache-sized block of rows at a time:

>>> import torch
>>> from calibkit.fitting import fit_smooth
>>> from calibkit.objectives import NLL
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

from calibkit.fitting.base import Calibrator, Fitted
from calibkit.fitting.lbfgs import Minimum, minimize
from calibkit.fitting.smooth import fit_smooth, fixed_point, value_and_grad
from calibkit.fitting.temperature import fit_temperature

__all__ = [
    "Calibrator", "Fitted", "Minimum", "fit_smooth", "fit_temperature", "fixed_point", "minimize", "value_and_grad",
]  # fmt: skip
