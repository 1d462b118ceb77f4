r"""Coordinates in which the objective of an affine map is well conditioned, from parts of its Gauss-Newton Hessian.

With p the probabilities, f the features and omega the weights (times the slope of phi) the Hessian by the rows of two
classes is ``sum_i omega_i (p_k [k = l] - p_k p_l) f_i f_i^T``. ``curvature_at`` takes those parts of it that can be
afforded, ``coordinates`` adds the penalty, factorises each part and puts their coordinates side by side:

- all of it, up to ``JOINT`` parameters. Otherwise:
- the part of the diagonal of W and b, which no penalty may hold, up to ``JOINT_PAIR`` parameters,
- each class's own block, up to ``BLOCKS_UP_TO`` classes, with a full W or where there is no other. Beyond, that in the
  ``STRONGEST`` directions of the features, as their mean or a level that log-probabilities share, and the diagonal of
  the rest,
- a row common to all classes, which changes no probability, so that the penalty alone, often weak, fixes it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from calibkit._arrays import BLOCK_BYTES
from calibkit._checks import expected
from calibkit.fitting.affine import Ridge, Rows, apply, is_diagonal
from calibkit.objectives import Objective
from calibkit.objectives.base import cross_entropy, cross_entropy_grad

JOINT, JOINT_PAIR, BLOCKS_UP_TO, STRONGEST = 512, 2048, 160, 8
#: Added to a diagonal of ones where no penalty fixes what changes no probability, so that rounding is not blown up.
FREE = 1e-6
ROWS_EACH, FEW_ROWS = 6, 4096
LEAST = 1e-14  # curvature, by features of 1 or more: of a class that hardly occurs, nearly none is left


@dataclass(frozen=True)
class Metric:
    """Coordinates v in which a function of x is well conditioned: ``x = x0 + step(v)``; ``pull(g)`` is its adjoint."""

    size: int
    step: Callable[[Tensor], Tensor]
    pull: Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Curvature:
    """Parts of the Gauss-Newton Hessian by x (K, m) without the penalty; None where left out."""

    joint: Tensor | None = None  #: (K m, K m), all of it, with a full W
    pair: Tensor | None = None  #: (2 K, 2 K), of the diagonal of W and of b; only the upper triangle counts
    own: Tensor | None = None  #: (K, m, m), each class's block; or (K, m), its diagonal but for the ``directions``
    directions: Tensor | None = None  #: (m, R) orthonormal, if ``own`` is a diagonal
    strong: Tensor | None = None  #: (K, R, R), each class's own block in these directions


def curvature_at(objective: Objective, sample: Rows, weights: Tensor, x: Tensor) -> Curvature:
    """The parts of the Hessian at x, in one blocked pass, in float64 where few parameters allow it.

    That of a diagonal W is taken on a part of the rows, ``ROWS_EACH`` a parameter: coordinates need no more.
    """
    (k, m), diagonal, all_of_it = x.shape, is_diagonal(x), x.numel() <= JOINT
    if diagonal:
        sample, weights = _thinned(sample, weights, max(FEW_ROWS, ROWS_EACH * x.numel()))
    with_pair = 2 * k <= JOINT_PAIR and (diagonal or not all_of_it)
    with_own = not all_of_it and not (diagonal and with_pair)
    dtype = torch.float64 if all_of_it else torch.float32
    joint = x.new_zeros(k * m, k * m) if all_of_it and not diagonal else None
    pair = x.new_zeros(2 * k, 2 * k, dtype=dtype) if with_pair else None
    blockwise = diagonal or k <= BLOCKS_UP_TO
    own = x.new_zeros((k, m, m) if blockwise else (k, m), dtype=dtype) if with_own else None
    directions = _strongest(sample, m) if with_own and not blockwise else None
    strong = x.new_zeros(k, STRONGEST, STRONGEST, dtype=dtype) if directions is not None else None
    x_block = x.to(dtype)
    for rows, z, labels in sample.passes(dtype, BLOCK_BYTES if joint is None else 4 * BLOCK_BYTES // m):
        ce, p = cross_entropy_grad(apply(x_block, z), labels)
        p.scatter_add_(1, labels[:, None], torch.ones_like(p[:, :1]))  # back from p - onehot
        if objective.smoothing:
            ce = cross_entropy(apply(x_block, z), labels, objective.smoothing)
        omega = (weights[rows] * objective.transform(ce.double())[1]).to(dtype)[:, None]
        f = z if diagonal else torch.cat([z, torch.ones_like(z[:, :1])], 1)
        if joint is not None:
            _add_joint(joint, p, omega.sqrt(), f)
        if pair is not None:
            _add_pair(pair, p, omega.sqrt(), z)
        if own is not None:
            q = p.addcmul_(p, p, value=-1).mul_(omega)
            if directions is not None:
                f = _add_strong(strong, directions, q, f)
            _add_own(own, q, f)
    return Curvature(joint, pair, own, directions, strong)


def _thinned(sample: Rows, weights: Tensor, n_rows: int) -> tuple[Rows, Tensor]:
    """Every n-th row, ``n_rows`` of them or more, and weights of the same sum."""
    step = max(1, len(weights) // n_rows)
    index = torch.arange(len(weights), device=weights.device) if sample.index is None else sample.index
    some = weights[::step]
    some = some * (weights.sum() / some.sum().clamp(min=1e-300))
    return (Rows(sample.logits, sample.labels[::step], index[::step]), some) if step > 1 else (sample, weights)


def _add_joint(h: Tensor, p: Tensor, root: Tensor, f: Tensor) -> None:
    """Adds a block of rows to the Hessian (K m, K m) of a full W: p (n, K), features f (n, m), root (n, 1) weights."""
    (n, k), m = p.shape, f.shape[1]
    f = root * f
    flat = (p[:, :, None] * f[:, None]).view(n, k * m)
    h.view(k, m, k, m).diagonal(dim1=0, dim2=2).permute(2, 0, 1).add_(torch.mm(flat.T, f).view(k, m, m))
    h.addmm_(flat.T, flat, alpha=-1)


def _add_pair(h: Tensor, p: Tensor, root: Tensor, z: Tensor) -> None:
    """Adds a block of rows to the Hessian (2 K, 2 K) by w_1, ..., w_K, b_1, ..., b_K: to its upper triangle."""
    k = p.shape[1]
    b = root * p
    both = torch.cat([b * z, b], 1)
    for i in range(0, 2 * k, strip := max(64, k // 4)):
        h[i : i + strip, i:].addmm_(both[:, i : i + strip].T, both[:, i:], alpha=-1)
    a, b = (both * root).split(k, 1)
    h[k:, k:].diagonal().add_(b.sum(0))
    h[:k, k:].diagonal().add_(a.sum(0))
    h[:k, :k].diagonal().add_((a * z).sum(0))


def _add_own(h: Tensor, q: Tensor, f: Tensor) -> None:
    """Adds a block of rows to each class's own part of the Hessian, where q (n, K) weighs the features f (n, m)."""
    if h.shape[1] == 2:
        qz = q * f
        h[:, 0] += torch.stack([(qz * f).sum(0), qz.sum(0)], 1)
        h[:, 1] += torch.stack([qz.sum(0), q.sum(0)], 1)
    elif h.ndim == 3:
        for own, weight in zip(h, q.T, strict=True):
            own.addmm_((f * weight[:, None]).T, f)
    else:
        h.addmm_(q.T, f.square())


def _strongest(sample: Rows, m: int) -> Tensor:
    """(m, R) orthonormal directions with the largest mean square of the features."""
    moments = sample.logits.new_zeros(m, m, dtype=torch.float32)
    for _, z, _ in sample.passes(torch.float32):
        f = torch.cat([z, torch.ones_like(z[:, :1])], 1)
        moments.addmm_(f.T, f)
    return torch.linalg.eigh(moments.double())[1][:, -STRONGEST:]


def _add_strong(h: Tensor, directions: Tensor, q: Tensor, f: Tensor) -> Tensor:
    """Adds a block of rows to each class's own part (K, R, R) in the directions; returns the rest of the features."""
    axes = directions.to(f.dtype)
    components = f @ axes
    h += (q.T @ (components[:, :, None] * components[:, None]).flatten(1)).view_as(h)
    return f.addmm(components, axes.T, alpha=-1)


def coordinates(curvature: Curvature, ridge: Ridge | None, x: Tensor) -> Metric:
    """The coordinates of all parts side by side, with the penalty's curvature added to each."""
    k, m = x.shape
    penalty, jitter = (torch.zeros_like(x), FREE) if ridge is None else (2 * ridge.strength, 0.0)
    if curvature.joint is not None:
        scale = _scale(curvature.joint.diagonal().view(k, m), penalty).view(-1)
        solve, pull = _whitened(curvature.joint, scale, jitter)
        return Metric(k * m, lambda v: solve(v).view(k, m), lambda g: pull(g.reshape(-1)))
    parts = []
    if curvature.pair is not None:
        parts.append(_pair(curvature.pair, penalty, x, jitter))
    if curvature.own is not None:
        parts.append(_own(curvature, penalty, jitter))
    if ridge is not None and not is_diagonal(x):
        common = penalty.sum(0).rsqrt().nan_to_num(posinf=0.0)
        parts.append(Metric(m, lambda v: (v * common).expand(k, m), lambda g: g.sum(0) * common))
    return parts[0] if len(parts) == 1 else _side_by_side(parts)


def ray(x: Tensor) -> Metric:
    """The one coordinate along x itself: temperature scaling when x is a scaled identity."""
    return Metric(1, lambda v: v * x, lambda g: (g * x).sum().view(1))


def _side_by_side(parts: list[Metric]) -> Metric:
    sizes = [part.size for part in parts]

    def step(v: Tensor) -> Tensor:
        return sum(part.step(chunk) for part, chunk in zip(parts, v.split(sizes), strict=True))

    return Metric(sum(sizes), step, lambda g: torch.cat([part.pull(g) for part in parts]))


def _pair(h: Tensor, penalty: Tensor, x: Tensor, jitter: float) -> Metric:
    """Coordinates of the diagonal of W and b."""
    k, m = x.shape
    index = torch.arange(k, device=x.device)
    columns = torch.stack([torch.zeros_like(index) if is_diagonal(x) else index, torch.full_like(index, m - 1)])

    def gather(a: Tensor) -> Tensor:
        return a.T.gather(0, columns).view(-1)

    scale = _scale(h.diagonal().view(2, k).T, gather(penalty).view(2, k).T).T.reshape(-1)
    solve, pull = _whitened(h, scale, jitter)
    return Metric(
        2 * k, lambda v: torch.zeros_like(x).T.scatter_(0, columns, solve(v).view(2, k)).T, lambda g: pull(gather(g))
    )


def _own(curvature: Curvature, penalty: Tensor, jitter: float) -> Metric:
    """Coordinates of each class's row of x."""
    (k, m), h, u = penalty.shape, curvature.own, curvature.directions
    if u is None:
        solve, pull = _whitened(h, _scale(h.diagonal(dim1=-2, dim2=-1), penalty), jitter)
        return Metric(k * m, lambda v: solve(v.view(k, m)), lambda g: pull(g).view(-1))
    # With S^-2 the diagonal, G the strong part and N = S U, a class's block is S^-1 (1 + N G N^T) S^-1. The inverse
    # root of the inner matrix is 1 - N A N^T with A (R, R) from the eigenvalues of L^T N^T N L, where G = L L^T.
    scale = _scale(h, penalty)
    values, vectors = torch.linalg.eigh(curvature.strong.double())
    lower = vectors * values.clamp_(min=0).sqrt()[:, None]
    squares = (scale.square() @ (u[:, :, None] * u[:, None]).flatten(1)).view_as(lower)
    values, vectors = torch.linalg.eigh(lower.mT @ squares @ lower)
    lower, root = lower @ vectors, (1 + values.clamp_(min=0)).sqrt()
    inner = (lower / (root * (root + 1))[:, None]) @ lower.mT

    def shrink(v: Tensor) -> Tensor:
        components = ((v * scale) @ u)[:, None] @ inner
        return v.addcmul(components[:, 0] @ u.T, scale, value=-1)

    return Metric(k * m, lambda v: shrink(v.view(k, m)) * scale, lambda g: shrink(g * scale).view(-1))


def _scale(curvature: Tensor, penalty: Tensor) -> Tensor:
    """(K, m) units in which the curvature by each parameter, with the penalty's, is 1; but for what has nearly none."""
    total = curvature.double().sum(0)
    least = (LEAST * total / total[-1].clamp(min=1e-300)).clamp(torch.finfo(curvature.dtype).tiny, LEAST)
    return (curvature + penalty).clamp(min=least).rsqrt()


def _whitened(h: Tensor, scale: Tensor, jitter: float) -> tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]:
    """``v -> L^-T v`` and ``g -> L^-1 g`` with ``L L^T = h + diag(penalty)``, for h (P, P) or a batch (K, m, m).

    Scaled, by ``scale`` (P,) or (K, m), to a diagonal of ones, to which ``jitter`` is added, and more until the factors
    exist: no correlation is beyond 1, but where rounding has left no curvature. Of h only the upper triangle is read.
    """
    jitter = max(jitter, 10 * torch.finfo(h.dtype).eps)
    if not torch.isfinite(h).all():
        raise expected("logits", "small enough to square", "larger ones")
    info = torch.ones(h.shape[:-2], dtype=torch.int32, device=h.device)
    while info.any():
        scaled = h * scale[..., None].to(h.dtype)
        scaled *= scale[..., None, :].to(h.dtype)
        scaled.clamp_(-1.0, 1.0)
        scaled.diagonal(dim1=-2, dim2=-1).fill_(1.0 + jitter)
        lower = scaled.mT  # the same, column by column, so that it is factorised in place
        torch.linalg.cholesky_ex(lower, out=(lower, info))
        jitter *= 10
    upper = lower.mT

    def step(v: Tensor) -> Tensor:
        v = v[..., None].to(lower.dtype)
        return torch.linalg.solve_triangular(upper, v, upper=True)[..., 0].double() * scale

    def pull(g: Tensor) -> Tensor:
        g = (g * scale)[..., None].to(lower.dtype)
        return torch.linalg.solve_triangular(lower, g, upper=False)[..., 0].double()

    return step, pull
