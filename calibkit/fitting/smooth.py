"""Minimisation in float64: L-BFGS for fixed weights, and the outer loop that finds the fixed point of adaptive ones."""

from __future__ import annotations

import math
import warnings
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from calibkit._blocks import row_blocks
from calibkit.objectives.contract import Objective
from calibkit.objectives.passes import Forward, cross_entropy_grad, losses

#: ``backward(x, z, g, grad)`` adds the block's gradient to ``grad`` (shape of x) in place, where g (n, K) is dL/du.
Backward = Callable[[Tensor, Tensor, Tensor, Tensor], None]

ARMIJO, WOLFE = 1e-4, 0.9
MEMORY = 20  # pairs kept by L-BFGS
DEPTH = 6  # points mixed on the way to a fixed point
CHANGE = 1e-9  # of the weights (their sum is 1), below which a point is fixed
PATIENCE, AVERAGED = 25, 40  # rounds in which the change must halve, and rounds of averaging if it does not


@dataclass(frozen=True)
class Minimum:
    """Where ``minimize`` ended.

    Attributes:
        x: the parameters.
        value: the function there.
        n_evaluations: calls of the function.
        converged: whether the predicted decrease fell below the tolerance.
    """

    x: Tensor
    value: float
    n_evaluations: int
    converged: bool


def minimize(
    function: Callable[[Tensor], tuple[float, Tensor]],
    x: Tensor,
    *,
    curvature: Tensor | None = None,
    pairs: deque | None = None,
    tolerance: float = 1e-15,
    max_iter: int = 500,
) -> Minimum:
    """L-BFGS with a weak-Wolfe line search (Lewis & Overton 2013) on float64 parameters of any shape.

    Args:
        function: ``x -> (value, gradient)``.
        x: where to start.
        curvature: positive estimate of the diagonal of the Hessian, of the shape of ``x``; it makes the first step a
            Newton step and keeps parameters of unequal scale apart. None: ones, and a first step of length <= 1.
        pairs: steps and gradient changes of an earlier, similar minimisation to go on from; updated.
        tolerance: stop when the predicted decrease is below ``tolerance * (|value| + 1e-3)``.
        max_iter: steps at most.

    Example:
        >>> best = minimize(lambda x: (float(((x - 3) ** 2).sum()), 2 * (x - 3)), torch.zeros(2, dtype=torch.float64))
        >>> best.x.numpy().round(6).tolist(), best.converged
        ([3.0, 3.0], True)
    """
    value, grad = function(x)
    n_evaluations = 1
    scale = torch.ones_like(x) if curvature is None else curvature.reciprocal()
    first = min(1.0, 1.0 / float(grad.norm().clamp(min=1e-300))) if curvature is None else 1.0
    pairs = deque(maxlen=MEMORY) if pairs is None else pairs
    for _ in range(max_iter):
        direction = -_inverse_hessian(grad, pairs, scale)
        slope = float((grad * direction).sum())
        threshold = tolerance * (abs(value) + 1e-3)
        if -slope <= threshold:
            return Minimum(x, value, n_evaluations, True)
        step = 1.0 if pairs else first
        low, high = (0.0, value, slope), None  # step, value and slope at the ends of the bracket
        for _ in range(30):
            trial = x + step * direction
            trial_value, trial_grad = function(trial)
            n_evaluations += 1
            trial_slope = float((trial_grad * direction).sum())
            # Where the decrease drowns in rounding, the slope alone tells (Hager & Zhang's approximate condition).
            flat = abs(trial_value - value) <= 1e-14 * abs(value) and abs(trial_slope) <= -slope
            if not flat and not trial_value <= value + ARMIJO * step * slope:
                high = (step, trial_value, trial_slope)
            elif trial_slope < WOLFE * slope:
                low = (step, trial_value, trial_slope)
            else:
                break
            step = 2 * step if high is None else _between(low, high)
        else:
            return Minimum(x, value, n_evaluations, False)
        s, y = trial - x, trial_grad - grad
        x, value, grad = trial, trial_value, trial_grad
        if (sy := float((s * y).sum())) > 1e-300:
            pairs.append((s, y, sy))
    return Minimum(x, value, n_evaluations, False)


def _between(low: tuple[float, float, float], high: tuple[float, float, float]) -> float:
    """The next step of a line search: the minimum of the cubic through both ends, kept off them by a tenth."""
    (a, value_a, slope_a), (b, value_b, slope_b) = low, high
    width = b - a
    mean = 3 * (value_b - value_a) / width
    z = slope_a + slope_b - mean
    root = math.sqrt(max(z * z - slope_a * slope_b, 0.0))
    below = slope_b - slope_a + 2 * root
    share = 1 - (slope_b + root - z) / below if 0 < below < math.inf else math.nan
    return a + width * (min(max(share, 0.1), 0.9) if math.isfinite(share) else 0.5)


def _inverse_hessian(grad: Tensor, pairs: deque, scale: Tensor) -> Tensor:
    """The two-loop recursion: L-BFGS's estimate of the inverse Hessian times ``grad``."""
    q, coefficients = grad.clone(), []
    for s, y, sy in reversed(pairs):
        coefficients.append(float((s * q).sum()) / sy)
        q -= coefficients[-1] * y
    q *= scale
    if pairs:
        _, y, sy = pairs[-1]
        q *= sy / float((y * scale * y).sum())
    for (s, y, sy), coefficient in zip(pairs, reversed(coefficients), strict=True):
        q += (coefficient - float((y * q).sum()) / sy) * s
    return q


def value_and_grad(
    objective: Objective,
    logits: Tensor,
    labels: Tensor,
    weights: Tensor,
    x: Tensor,
    forward: Forward,
    backward: Backward,
) -> tuple[float, Tensor, Tensor]:
    """Value, gradient by ``x`` and losses of ``sum_i weights_i * phi(ce_i)`` at ``x``, in one blocked pass.

    Args:
        objective: a smooth objective.
        logits: (N, K) float32 or float64.
        labels: (N,) int64.
        weights: (N,) float64, held fixed.
        x: float64 parameters, of any shape.
        forward: gives the calibrated logits of a block, a new tensor.
        backward: adds the gradient of a block.

    Returns:
        The value, its gradient in the shape of ``x``, and the (N,) cross-entropies.
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
    *,
    curvature: Tensor | None = None,
    penalty: Callable[[Tensor], tuple[float, Tensor]] | None = None,
    tolerance: float = 1e-15,
    max_iter: int = 500,
) -> Tensor:
    """Parameters at the minimum of a smooth objective, or at its fixed point where its weights depend on the losses.

    Weights are normalised to sum to 1, so that values, tolerances and penalties mean the same for every objective.

    The fixed point is found by solving for frozen weights again and again, with Anderson's mixing. A calibrator so
    flexible that it can make all class losses equal may have none, for there the weights of class-wise loss scaling
    jump. Then the weights are averaged over a number of rounds, which ends near the point where the class losses meet.

    Args:
        objective: any objective with ``smooth``.
        logits: (N, K) float32 or float64.
        labels: (N,) int64.
        x: where to start, float64, of any shape.
        forward: ``forward(x, z) -> u``: calibrated logits of a float64 block of rows, a new tensor.
        backward: ``backward(x, z, g, grad)`` adds the block's gradient to ``grad`` in place, given ``g = dL/du``.
        curvature: see ``minimize``.
        penalty: ``x -> (value, gradient)`` to be added.
        tolerance: see ``minimize``.
        max_iter: see ``minimize``.

    Returns:
        The parameters. A RuntimeWarning tells when they are not converged, or no fixed point was found.
    """
    pairs: deque = deque(maxlen=MEMORY)  # frozen weights move little, so what L-BFGS learned stays of use

    def own_weights(x: Tensor) -> Tensor:
        ce = losses(logits, labels, x, forward, objective.smoothing)
        weights = objective.weights(ce, labels, logits.shape[1])
        return weights / weights.sum()

    def solve(x: Tensor, weights: Tensor, tolerance: float = tolerance) -> Minimum:
        def function(x: Tensor) -> tuple[float, Tensor]:
            value, grad, _ = value_and_grad(objective, logits, labels, weights, x, forward, backward)
            added, added_grad = (0.0, 0.0) if penalty is None else penalty(x)
            return value + added, grad + added_grad

        return minimize(function, x, curvature=curvature, pairs=pairs, tolerance=tolerance, max_iter=max_iter)

    best = fixed_point(solve, own_weights, x, tolerance) if objective.adaptive else solve(x, own_weights(x))
    if not best.converged:
        text = f"{objective} is not converged after {best.n_evaluations} evaluations"
        warnings.warn(text, RuntimeWarning, stacklevel=2)
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

    Args:
        solve: ``solve(x, weights, tolerance)``: the minimum under fixed weights, from x.
        own_weights: (N,) weights at x, that sum to 1.
        x: where to start, float64, of any shape.
        tolerance: of the last ``solve``; the earlier ones are no more exact than the weights.

    Returns:
        The last minimum; ``x`` in it is the fixed point.
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
