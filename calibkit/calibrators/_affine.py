r"""Affine maps of the logits, ``u = W z + b`` with W diagonal or full: their fit with a ridge penalty.

The parameters are one row a class: ``x[k] = (w_k, b_k)`` with a diagonal W, ``(w_k1, ..., w_kK, b_k)`` with a full one.
Float32 logits are passed over in float32 (sums in float64) until the decrease is small, and in float64 at the end.

``descend`` runs L-BFGS in coordinates in which the Hessian is close to the identity: the inverse Cholesky factors of
each class's own block of it (its diagonal only, from ``BLOCKS_UP_TO`` classes on), renewed every few steps. With a full
W one more direction is added: a row common to all classes changes no probability, so that the penalty alone, often
weak, fixes it, and no block knows.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from calibkit._checks import BLOCK_BYTES, blocks
from calibkit.objectives import Minimum, Objective, minimize
from calibkit.objectives._fit import _fixed_point
from calibkit.objectives._passes import cross_entropy, cross_entropy_grad

BLOCKS_UP_TO = 32  # classes
STEPS = 20  # of L-BFGS between two looks at the curvature
ROUNDS = 50  # looks at the curvature at most
#: Predicted decrease, relative, at which passes in float32 and in float64 end. From 10 classes on FINE grows with K^3,
#: to 1e-10 at K = 1,000: with few rows a class some parameters run to infinity, and the objective no longer tells.
ROUGH, FINE = 1e-7, 1e-16


@dataclass(frozen=True)
class Sample:
    """The rows of (N, K) logits that a fit sees: all, or those of ``index`` (n,); ``labels`` are theirs (n,)."""

    logits: Tensor
    labels: Tensor
    index: Tensor | None = None

    def passes(self, dtype: torch.dtype, block_bytes: int = BLOCK_BYTES) -> Iterator[tuple[slice, Tensor, Tensor]]:
        """Blocks of rows: their slice, logits in ``dtype``, not to be overwritten, and labels."""
        if self.logits.device.type != "cpu":
            block_bytes = 64 * BLOCK_BYTES
        for rows in blocks(len(self.labels), self.logits.shape[1], dtype.itemsize, block_bytes):
            z = self.logits[rows] if self.index is None else self.logits[self.index[rows]]
            yield rows, z.to(dtype), self.labels[rows]


@dataclass(frozen=True)
class Ridge:
    """The penalty ``sum strength * (x - centre)^2``, both in the shape of x."""

    strength: Tensor
    centre: Tensor


@dataclass(frozen=True)
class Metric:
    """Coordinates v in which a function of x is well conditioned: ``x = x0 + step(v)``; ``pull(g)`` is its adjoint."""

    size: int
    step: Callable[[Tensor], Tensor]
    pull: Callable[[Tensor], Tensor]


def is_diagonal(x: Tensor) -> bool:
    """Whether x holds (w_k, b_k) for each class; K >= 2, so that a full row has three entries at least."""
    return x.shape[1] == 2


def apply(x: Tensor, z: Tensor) -> Tensor:
    """Calibrated logits of a block, a new tensor."""
    return torch.addcmul(x[:, 1], z, x[:, 0]) if is_diagonal(x) else torch.addmm(x[:, -1], z, x[:, :-1].T)


def scaled_identity(scale: float, logits: Tensor, *, diagonal: bool) -> Tensor:
    """The parameters of ``u = scale * z``."""
    k = logits.shape[1]
    x = torch.zeros(k, 2 if diagonal else k + 1, dtype=torch.float64, device=logits.device)
    (x[:, 0] if diagonal else x.diagonal()).fill_(scale)
    return x


def losses(objective: Objective, sample: Sample, x: Tensor) -> Tensor:
    """(n,) cross-entropies of the calibrated logits."""
    ce = torch.empty(len(sample.labels), dtype=torch.float64, device=x.device)
    for rows, z, labels in sample.passes(torch.float64):
        ce[rows] = cross_entropy(apply(x, z), labels, objective.smoothing)
    return ce


def value_and_grad(
    objective: Objective, sample: Sample, weights: Tensor, x: Tensor, ridge: Ridge | None, dtype: torch.dtype
) -> tuple[float, Tensor, Tensor]:
    """Value, gradient by x, and the (n,) cross-entropies of ``sum weights * phi(ce) + ridge`` in one blocked pass."""
    value, grad, ce = weights.new_zeros(()), torch.zeros_like(x), torch.empty_like(weights)
    x_block = x.to(dtype)
    for rows, z, labels in sample.passes(dtype, BLOCK_BYTES if is_diagonal(x) else 8 * BLOCK_BYTES):
        ce[rows], g = cross_entropy_grad(apply(x_block, z), labels, objective.smoothing)
        phi, slope, _ = objective.transform(ce[rows])
        value += weights[rows] @ phi
        g *= (weights[rows] * slope).to(dtype)[:, None]
        grad[:, -1] += g.sum(0)
        if is_diagonal(x):
            grad[:, 0] += g.mul_(z).sum(0)
        else:
            grad[:, :-1] += g.T @ z
    if ridge is not None:
        move = x - ridge.centre
        value += (ridge.strength * move.square()).sum()
        grad += 2 * ridge.strength * move
    return float(value), grad, ce


def class_curvature(
    objective: Objective, sample: Sample, weights: Tensor, x: Tensor, ridge: Ridge | None, dtype: torch.dtype
) -> Tensor:
    """Each class's own block (K, m, m) of the Gauss-Newton Hessian, or with many classes its diagonal (K, m)."""
    k, m = x.shape
    blockwise = m <= BLOCKS_UP_TO + 1
    h = torch.zeros((k, m, m) if blockwise else (k, m), dtype=torch.float64, device=x.device)
    x_block = x.to(dtype)
    for rows, z, labels in sample.passes(dtype):
        u = apply(x_block, z)
        slope = objective.transform(cross_entropy(u, labels, objective.smoothing).double())[1]
        p = u.softmax(1)
        q = p.addcmul_(p, p, value=-1).mul_((weights[rows] * slope).to(dtype)[:, None])
        if is_diagonal(x):
            h[:, 1, 1] += q.sum(0)
            h[:, 0, 1] += q.mul_(z).sum(0)
            h[:, 0, 0] += q.mul_(z).sum(0)
            continue
        features = torch.cat([z, torch.ones_like(z[:, :1])], 1)
        h += (q.T[:, None] * features.T) @ features if blockwise else q.T @ features.square()
    if is_diagonal(x):
        h[:, 1, 0] = h[:, 0, 1]
    floor = 1e-12 + 1e-9 * (h.diagonal(dim1=1, dim2=2) if blockwise else h).amax(0)
    more = floor if ridge is None else floor + 2 * ridge.strength
    return h + (torch.diag_embed(more.expand(k, m)) if blockwise else more)


def class_metric(curvature: Tensor, ridge: Ridge | None, *, diagonal: bool) -> Metric:
    """Coordinates from the curvature of each class, and with a penalty those of a change common to all classes."""
    k, m = curvature.shape[:2]
    if curvature.ndim == 3:
        lower = torch.linalg.cholesky(curvature)
        upper = lower.mT.contiguous()

        def step(v: Tensor) -> Tensor:
            return torch.linalg.solve_triangular(upper, v.view(k, m, 1), upper=True)[:, :, 0]

        def pull(g: Tensor) -> Tensor:
            return torch.linalg.solve_triangular(lower, g[:, :, None], upper=False).view(-1)

    else:
        scale = curvature.rsqrt()

        def step(v: Tensor) -> Tensor:
            return v.view(k, m) * scale

        def pull(g: Tensor) -> Tensor:
            return (g * scale).view(-1)

    if ridge is None:
        return Metric(k * m, step, pull)
    common = (2 * ridge.strength.sum(0)).rsqrt().nan_to_num(posinf=0.0)
    if diagonal:
        common[0] = 0.0
    return Metric(
        (k + 1) * m,
        lambda v: step(v[: k * m]) + v[k * m :] * common,
        lambda g: torch.cat([pull(g), g.sum(0) * common]),
    )


def ray_metric(x: Tensor) -> Metric:
    """The one coordinate along x itself: temperature scaling when x is a scaled identity."""
    return Metric(1, lambda v: v * x, lambda g: (g * x).sum().view(1))


def own_weights(objective: Objective, sample: Sample, x: Tensor) -> Tensor:
    """(n,) weights of the objective at x, that sum to 1."""
    ce = losses(objective, sample, x) if objective.adaptive else sample.labels.double()
    weights = objective.weights(ce, sample.labels, sample.logits.shape[1])
    return weights / weights.sum()


def descend(
    objective: Objective,
    sample: Sample,
    weights: Tensor,
    x: Tensor,
    ridge: Ridge | None,
    dtype: torch.dtype,
    tolerance: float,
    *,
    ray: bool = False,
) -> Minimum:
    """The minimum under frozen weights, from x, with passes in ``dtype``; with ``ray`` among the multiples of x.

    A RuntimeWarning tells where the labels are separated, so that there is no minimum.
    """
    value, n_evaluations = math.inf, 0
    for _ in range(ROUNDS):
        if ray:
            metric = ray_metric(x)
        else:
            curvature = class_curvature(objective, sample, weights, x, ridge, dtype)
            metric = class_metric(curvature, ridge, diagonal=is_diagonal(x))
        worst = 0.0

        def function(v: Tensor, x: Tensor = x, metric: Metric = metric) -> tuple[float, Tensor]:
            nonlocal worst
            value, grad, ce = value_and_grad(objective, sample, weights, x + metric.step(v), ridge, dtype)
            worst = float(ce.max())
            return value, metric.pull(grad)

        origin = torch.zeros(metric.size, dtype=torch.float64, device=x.device)
        best = minimize(function, origin, curvature=torch.ones_like(origin), tolerance=tolerance, max_iter=STEPS)
        x, old_value, value = x + metric.step(best.x), value, best.value
        n_evaluations += best.n_evaluations
        if ridge is None and objective.smoothing == 0 and worst < math.log(2):
            text = (
                "every label has a probability above 1/2: they are separated, the objective has no minimum, and the fit"
            )
            warnings.warn(f"{text} stops here; a penalty `lam` > 0 makes it well posed", RuntimeWarning, stacklevel=5)
            return Minimum(x, value, n_evaluations, True)
        if best.converged or old_value - value <= torch.finfo(dtype).eps * abs(value):
            return Minimum(x, value, n_evaluations, True)
    return Minimum(x, value, n_evaluations, False)


def fit_affine(objective: Objective, logits: Tensor, labels: Tensor, x: Tensor, ridge: Ridge | None) -> Tensor:
    """Parameters at the minimum over all rows, or at the fixed point of an adaptive objective, from x.

    Roughly in float32 if the logits are, then in float64. A RuntimeWarning tells where it was not reached.
    """
    sample, fine = Sample(logits, labels), FINE * max(1.0, len(x) / 10) ** 3

    def solve(x: Tensor, weights: Tensor, tolerance: float = fine) -> Minimum:
        if logits.dtype == torch.float32:
            x = descend(objective, sample, weights, x, ridge, torch.float32, max(ROUGH, tolerance)).x
        return descend(objective, sample, weights, x, ridge, torch.float64, tolerance)

    def own(x: Tensor) -> Tensor:
        return own_weights(objective, sample, x)

    best = _fixed_point(solve, own, x, fine) if objective.adaptive else solve(x, own(x))
    if not best.converged:
        text = f"{objective} is not converged after {best.n_evaluations} evaluations"
        warnings.warn(text, RuntimeWarning, stacklevel=4)
    return best.x
