"""Minimisation in float64 by L-BFGS, of a function that gives its value and gradient."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from calibkit._progress import show

ARMIJO, WOLFE = 1e-4, 0.9
MEMORY = 20  # pairs kept


@dataclass(frozen=True)
class Minimum:
    """Where ``minimize`` ended."""

    x: Tensor
    value: float  #: of the function there
    n_evaluations: int
    converged: bool  #: whether the predicted decrease fell below the tolerance


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
    for n_steps in range(max_iter):
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
            show(f"step {n_steps}, objective {value:.6g}")
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
