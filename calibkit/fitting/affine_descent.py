"""The minimum of an affine map's objective: L-BFGS in coordinates in which the Hessian is close to the identity.

Float32 logits are passed over in float32 (sums in float64) until the decrease is small, and in float64 at the end.
"""

from __future__ import annotations

import math
import warnings
from collections import deque
from dataclasses import replace

import torch
from torch import Tensor

from calibkit.fitting.affine import Ridge, Rows, own_weights, value_and_grad
from calibkit.fitting.affine_metric import Metric, coordinates, curvature_at, ray
from calibkit.fitting.lbfgs import Minimum, minimize
from calibkit.fitting.smooth import fixed_point
from calibkit.objectives import Objective

STEPS = 20  # of L-BFGS between two looks at the curvature
FEW = 10  # evaluations after which the next stage goes on with the same curvature
ROUNDS = 50  # looks at the curvature at most
#: Predicted decrease, relative, at which passes in float32 end, and in float64 with a penalty and without. From 10
#: classes on the latter two grow with K^3, to 1e-14 and 1e-10 at K = 1,000: with few rows a class and no penalty some
#: parameters run to infinity, and the objective no longer tells.
ROUGH, FINE, FINE_WITHOUT = 1e-5, 1e-20, 1e-16


def descend(
    objective: Objective,
    sample: Rows,
    weights: Tensor,
    x: Tensor,
    ridge: Ridge | None,
    stages: list[tuple[torch.dtype, float]],
    metric: Metric | None = None,
    pairs: deque | None = None,
    rounds: int = ROUNDS,
) -> Minimum:
    """The minimum under frozen weights, from x, with passes in the dtype of each stage down to its tolerance.

    ``metric`` are coordinates for the first steps, in place of those from the curvature at x, which is taken anew up to
    ``rounds`` times a stage; ``pairs`` are what L-BFGS learned in them of a similar objective, to go on from. A
    RuntimeWarning tells where the labels are separated, so that there is no minimum.
    """
    n_evaluations, converged = 0, False
    for dtype, tolerance in stages:
        value, flat = math.inf, 0
        for _ in range(rounds):
            if metric is None:
                metric = coordinates(curvature_at(objective, sample, weights, x), ridge, x)
            best, worst = _within(metric, objective, sample, weights, x, ridge, dtype, tolerance, pairs)
            pairs = None
            x, old_value, value = best.x, value, best.value
            n_evaluations += best.n_evaluations
            if ridge is None and objective.smoothing == 0 and worst < math.log(2):
                text = (
                    "every label has a probability above 1/2: they are separated, the objective has no minimum, and "
                    "the fit stops here; a penalty `lam` > 0 makes it well posed"
                )
                warnings.warn(text, RuntimeWarning, stacklevel=5)
                return Minimum(x, value, n_evaluations, True)
            flat = flat + 1 if old_value - value <= torch.finfo(dtype).eps * abs(value) else 0
            converged = best.converged or flat == 2
            if not converged or best.n_evaluations > FEW:
                metric = None
            if converged:
                break
    return Minimum(x, value, n_evaluations, converged)


def rescale(objective: Objective, sample: Rows, weights: Tensor, x: Tensor, tolerance: float) -> Minimum:
    """The minimum among the multiples of x: temperature scaling when x is a scaled identity."""
    return _within(ray(x), objective, sample, weights, x, None, sample.logits.dtype, tolerance)[0]


def _within(
    metric: Metric,
    objective: Objective,
    sample: Rows,
    weights: Tensor,
    x: Tensor,
    ridge: Ridge | None,
    dtype: torch.dtype,
    tolerance: float,
    pairs: deque | None = None,
) -> tuple[Minimum, float]:
    """Up to ``STEPS`` steps in given coordinates, and the largest cross-entropy at the last point looked at."""
    worst = 0.0

    def function(v: Tensor) -> tuple[float, Tensor]:
        nonlocal worst
        value, grad, ce = value_and_grad(objective, sample, weights, x + metric.step(v), ridge, dtype)
        worst = float(ce.max())
        return value, metric.pull(grad)

    origin = torch.zeros(metric.size, dtype=torch.float64, device=x.device)
    options = {"curvature": torch.ones_like(origin), "pairs": pairs, "tolerance": tolerance, "max_iter": STEPS}
    best = minimize(function, origin, **options)
    return replace(best, x=x + metric.step(best.x)), worst


def fit_affine(objective: Objective, logits: Tensor, labels: Tensor, x: Tensor, ridge: Ridge | None) -> Tensor:
    """Parameters at the minimum over all rows, or at the fixed point of an adaptive objective, from x.

    Roughly in float32 if the logits are, then in float64. A RuntimeWarning tells where it was not reached.
    """
    sample = Rows(logits, labels)
    fine = (FINE_WITHOUT if ridge is None else FINE) * max(1.0, len(x) / 10) ** 3

    def solve(x: Tensor, weights: Tensor, tolerance: float = fine) -> Minimum:
        rough = [(torch.float32, max(ROUGH, tolerance))] if logits.dtype == torch.float32 else []
        return descend(objective, sample, weights, x, ridge, [*rough, (torch.float64, tolerance)])

    def own(x: Tensor) -> Tensor:
        return own_weights(objective, sample, x)

    best = fixed_point(solve, own, x, fine) if objective.adaptive else solve(x, own(x))
    if not best.converged:
        text = f"{objective} is not converged after {best.n_evaluations} evaluations"
        warnings.warn(text, RuntimeWarning, stacklevel=4)
    return best.x
