"""Smooth objectives, fitted: a descent for fixed weights, and the outer loop to the fixed point of adaptive ones.

No fit ends worse than the network as it is: :func:`is_no_worse`.
"""

from __future__ import annotations

import math
import warnings
from collections import deque
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from calibkit._arrays import row_blocks
from calibkit.fitting.lbfgs import MEMORY, Minimum, minimize
from calibkit.objectives.base import Forward, Objective, cross_entropy_grad, losses

#: ``backward(x, z, g, grad)`` adds the block's gradient to ``grad`` (shape of x) in place, where g (n, K) is dL/du.
Backward = Callable[[Tensor, Tensor, Tensor, Tensor], None]

DEPTH = 6  # points mixed on the way to a fixed point
CHANGE = 1e-9  # of the weights (their sum is 1), below which a point is fixed
PATIENCE, AVERAGED = 25, 40  # rounds in which the change must halve, and rounds of averaging if it does not


def value_and_grad(
    objective: Objective,
    logits: Tensor,
    labels: Tensor,
    weights: Tensor,
    x: Tensor,
    forward: Forward,
    backward: Backward,
) -> tuple[float, Tensor, Tensor]:
    """``sum_i weights_i * phi(ce_i)`` at ``x``, its gradient by ``x``, and the (N,) losses, in one blocked pass.

    The weights (N,) are held fixed; the other arguments are those of :func:`fit_smooth`.
    """
    value, grad, ce = weights.new_zeros(()), torch.zeros_like(x), torch.empty_like(weights)
    for rows in row_blocks(logits):
        z = logits[rows].double()
        ce[rows], g = cross_entropy_grad(forward(x, z), labels[rows], objective.smoothing)
        phi, slope, _ = objective.transform(ce[rows])
        value += weights[rows] @ phi
        g *= (weights[rows] * slope)[:, None]
        backward(x, z, g, grad)
    return float(value), grad, ce


def fit_smooth(
    objective: Objective,
    logits: Tensor,
    labels: Tensor,
    x: Tensor,
    forward: Forward,
    backward: Backward,
    **options: Any,
) -> Tensor:
    """Parameters at the minimum of a smooth objective, or at its fixed point where its weights depend on the losses.

    Weights are normalised to sum to 1, so that values, tolerances and penalties mean the same for every objective.

    A calibrator so flexible that it can make all class losses equal may have no fixed point, for there the weights of
    class-wise loss scaling jump: :func:`fixed_point`. A RuntimeWarning tells so, and when nothing is converged.

    The objective is any with ``smooth``, logits are (N, K) float32 or float64, labels (N,) int64, x float64 of any
    shape, where to start. ``forward(x, z) -> u`` gives the calibrated logits of a float64 block of rows, a new tensor,
    ``backward(x, z, g, grad)`` adds the block's gradient to ``grad`` in place, given ``g = dL/du``. Options are
    ``penalty``, ``x -> (value, gradient)``, which is added; and ``curvature``, ``tolerance`` and ``max_iter``, as in
    :func:`minimize`.
    """

    def ce(x: Tensor) -> Tensor:
        return losses(logits, labels, x, forward, objective.smoothing)

    def gradient(x: Tensor, weights: Tensor) -> tuple[float, Tensor]:
        return value_and_grad(objective, logits, labels, weights, x, forward, backward)[:2]

    return fit_losses(objective, labels, logits.shape[1], x, ce, gradient, **options)


def fit_losses(
    objective: Objective,
    labels: Tensor,
    n_classes: int,
    x: Tensor,
    losses: Callable[[Tensor], Tensor],
    gradient: Callable[[Tensor, Tensor], tuple[float, Tensor]],
    *,
    curvature: Tensor | None = None,
    penalty: Callable[[Tensor], tuple[float, Tensor]] | None = None,
    tolerance: float = 1e-15,
    max_iter: int = 500,
) -> Tensor:
    """``fit_smooth`` for a calibrator that has a shorter way to its losses than a pass over the logits.

    ``losses(x)`` are the (N,) cross-entropies at x, and ``gradient(x, weights)`` is the value and the gradient of
    ``sum_i weights_i * phi(ce_i)`` for (N,) weights held fixed. ``penalty``, ``x -> (value, gradient)``, is added; the
    other options are those of :func:`minimize`.
    """
    pairs: deque = deque(maxlen=MEMORY)  # frozen weights move little, so what L-BFGS learned stays of use

    def own_weights(x: Tensor) -> Tensor:
        return objective.shares(losses(x), labels, n_classes)

    def solve(x: Tensor, weights: Tensor, tolerance: float = tolerance) -> Minimum:
        def function(x: Tensor) -> tuple[float, Tensor]:
            value, grad = gradient(x, weights)
            added, added_grad = (0.0, 0.0) if penalty is None else penalty(x)
            return value + added, grad + added_grad

        return minimize(function, x, curvature=curvature, pairs=pairs, tolerance=tolerance, max_iter=max_iter)

    best = fixed_point(solve, own_weights, x, tolerance) if objective.adaptive else solve(x, own_weights(x))
    if not best.converged:
        text = f"{objective} is not converged after {best.n_evaluations} evaluations"
        warnings.warn(text, RuntimeWarning, stacklevel=3)
    return best.x


def fixed_point(
    solve: Callable[[Tensor, Tensor, float], Minimum],
    own_weights: Callable[[Tensor], Tensor],
    x: Tensor,
    tolerance: float,
) -> Minimum:
    """The minimum of an objective under weights that are its own at that minimum.

    With ``m(w)`` the minimum under fixed weights w, and ``w(x)`` the weights at x: the x for which ``x = m(w(x))``.
    Rounds of one ``solve`` each, from a point that Anderson's mixing makes of the last ones, until the weights at both
    ends of a round agree to ``CHANGE``. Where their difference does not halve in ``PATIENCE`` rounds there is no such
    point, for the weights jump: then they are averaged over ``AVERAGED`` rounds, with a RuntimeWarning.

    ``solve(x, weights, tolerance)`` gives the minimum under fixed weights, from x, and ``own_weights(x)`` the (N,) at
    x, that sum to 1. ``tolerance`` is that of the last ``solve``; the earlier ones are no more exact than the weights.
    """
    starts, ends = deque(maxlen=DEPTH), deque(maxlen=DEPTH)
    weights, change, least, n_stalled = own_weights(x), 1.0, math.inf, 0
    while n_stalled < PATIENCE:
        wanted = max(tolerance, 1e-6 * change * change)  # no need to be far ahead of the weights
        best = solve(x, weights, wanted)
        own = own_weights(best.x)
        change = float((own - weights).abs().sum())
        if change <= CHANGE and wanted == tolerance:
            return best
        least, n_stalled = (change, 0) if change < least / 2 else (least, n_stalled + 1)
        starts.append(x)
        ends.append(best.x)
        x = _anderson(starts, ends)
        weights = own_weights(x)
    warnings.warn("no fixed point was found: the weights jump, and are averaged", RuntimeWarning, stacklevel=3)
    for n in range(1, AVERAGED + 1):
        best = solve(best.x, weights, max(tolerance, 1e-6 / n**2))
        weights = weights + (own_weights(best.x) - weights) / (n + 1)
    return best


def _anderson(starts: deque, ends: deque) -> Tensor:
    """Where to start next, given points and their images under a map whose fixed point is sought (Anderson 1965)."""
    residuals = [end - start for start, end in zip(starts, ends, strict=True)]
    if len(residuals) == 1:
        return ends[-1]
    changes = torch.stack([(r - residuals[-1]).flatten() for r in residuals[:-1]], 1)
    # The shares sum to 1 with the last one and minimise the mixed residual: |r + sum_j share_j (r_j - r)|.
    solution = torch.linalg.lstsq(changes.cpu(), -residuals[-1].flatten()[:, None].cpu(), driver="gelsd").solution
    mixed = ends[-1].clone()
    for share, end in zip(solution[:, 0].tolist(), ends, strict=False):
        mixed += share * (end - ends[-1])
    return mixed


def is_no_worse(
    objective: Objective, logits: Tensor, labels: Tensor, x: Tensor, start: Tensor, forward: Forward
) -> bool:
    r"""Whether neither the start nor the network as it is has a lower objective than fitted parameters x.

    .. math:: \sum_i w_i\,\varphi(\mathrm{ce}_i) \le \sum_i w_i\,\varphi(\mathrm{ce}^0_i), \qquad w = w(\mathrm{ce})

    with the losses of the fit on the left, and those compared with it on the right. The weights are those of the fit on
    both sides: an adaptive objective, whose fit is a fixed point, need be no function that a fit could lower, but a
    fixed point is the minimum of the sum whose weights are held fixed there. The start is temperature scaling, which is
    itself no worse than the logits as they are; ``forward`` is that of ``fit_smooth``.
    """

    def ce(x: Tensor | None) -> Tensor:
        return losses(logits, labels, x, None if x is None else forward, objective.smoothing)

    return is_lowest(objective, labels, logits.shape[1], x, start, ce)


def is_lowest(
    objective: Objective,
    labels: Tensor,
    n_classes: int,
    x: Tensor,
    start: Tensor,
    ce: Callable[[Tensor | None], Tensor],
) -> bool:
    """``is_no_worse`` from the (N,) losses ``ce(x)`` under parameters x, or of the logits as they are for None."""
    fitted = ce(x)
    weights = objective.weights(fitted, labels, n_classes)
    value = weights @ objective.transform(fitted)[0]
    others = (start, None) if objective.adaptive else (start,)
    return all(bool(value <= weights @ objective.transform(ce(other))[0]) for other in others)
