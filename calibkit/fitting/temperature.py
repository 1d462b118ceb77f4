"""One parameter, exactly: Newton's method for the temperature, on blocked passes over the logits.

A pass gives for every sample the cross-entropy at inverse temperature b and its first two derivatives by b. Any smooth
objective is a function of these N numbers, so its own first two derivatives cost nothing more.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from calibkit._arrays import row_blocks
from calibkit.metrics.binning import sort_values
from calibkit.objectives import Objective
from calibkit.objectives.base import LOG2_E

#: Temperatures searched, in units of the spread of the logits within a row: from almost one-hot to almost uniform.
LOWEST, HIGHEST = 0.01, 1000.0
START = 0.25  # in the same units, where networks have their temperature
FAR = 1e12  # how many times a bound is exceeded if the optimum lies beyond it, as a few rows unlike the others cause
COLDEST = 709.0  # the largest -log T of which a float holds the inverse
SUBSAMPLE, FRACTION = 512, 16  # rows of the first warm start; a share of the rows for a second
#: Float32 rows are passed over in float32 where they are many, so that their rounding averages out (to 5e-8 of T),
#: and no logit is so large, as that of a masked class is, that its square overflows.
MANY, LARGEST = 8192, 1e12
NARROW = 32  # classes below which blocks of so many rows lie class by class: sums over few neighbours are slow
#: How many times further below the largest logit than the class before it a masked class typically is, and the largest
#: share of rows whose label is on one.
MASKED, NAMED = 10.0, 0.05
SCAN = 41  # points of the scan for a non-convex objective
TOLERANCE, ROUGH = 1e-9, 1e-3  # error left in log T, in order of magnitude: at the end, and on a part of the rows
Evaluate = Callable[..., tuple[float, float, float]]  # what ``_evaluate`` gives of x, on some rows


def fit_temperature(objective: Objective, logits: Tensor, labels: Tensor) -> float:
    """The temperature at the minimum of a smooth objective, or at its fixed point if its weights are adaptive.

    Minimises over x = log b = -log T by safeguarded steps: on some rows first, then on all, where two passes are left
    to do as a rule. A non-convex or adaptive objective is scanned on some rows, and of several stationary points the
    one of lowest value is taken. The value is never above that at T = 1; of an adaptive objective, the value under the
    weights at the fixed point, held fixed.

    Returns:
        T > 0. With a RuntimeWarning, a bound of ``temperature_bounds`` where the objective decreases for good up to it:
        below, when every label has the largest logit; above, when the logits tell nothing about the labels.
    """
    spread = typical_spread(logits, None if objective.smoothing else labels)
    coldest, hottest = temperature_bounds(spread)
    x, bounds = -math.log(START * spread), (-math.log(hottest), -math.log(coldest))
    coarse = max(1, len(logits) // SUBSAMPLE)
    for stride in (coarse, FRACTION):
        some = partial(_evaluate, objective, logits[::stride].double(), labels[::stride])
        if stride == coarse and (objective.adaptive or not objective.convex):
            x = _scan(some, x, bounds)
        if stride > 1 and (stride == coarse or 2 * stride < coarse):
            rough = _root(some, objective.adaptive, x, bounds, ROUGH)
            x = x if rough in bounds else rough
    every = partial(_evaluate, objective, logits, labels)
    exact = len(logits) < MANY or logits[::coarse].abs().amax() > LARGEST
    passes = partial(every, dtype=torch.float64 if exact else logits.dtype)
    x = _root(passes, objective.adaptive, x, bounds, TOLERANCE)
    if x in bounds:
        x = _beyond(every, objective.adaptive, x, bounds)
    if not objective.convex and not objective.adaptive:
        x = _no_worse_than_at_one(every, x, bounds)
    if x in bounds:
        side = "one-hot" if x == bounds[1] else "uniform"
        warnings.warn(
            f"the objective decreases up to the bound T = {math.exp(-x):.6g}: its optimum is {side} probabilities",
            RuntimeWarning,
            stacklevel=4,
        )
    return math.exp(-x)


def softmax_at(logits: Tensor, temperature: float | Tensor) -> Tensor:
    """``softmax(logits / temperature)`` of each row (n, K); no logit is too large, nor a temperature too low."""
    s = logits - logits.amax(1, keepdim=True)
    if isinstance(temperature, Tensor) or temperature < 0:
        return (s / temperature).softmax(1)
    e = s.div_(temperature).exp_()  # twice as fast as torch's, and five times with ten classes
    return e.mul_(e.sum(1, keepdim=True).reciprocal_())


def moments(
    logits: Tensor, labels: Tensor, b: float | Tensor, smoothing: float = 0.0, dtype: torch.dtype = torch.float64
) -> tuple[Tensor, Tensor, Tensor]:
    """Cross-entropy of ``b * logits`` for each sample, and its first and second derivative by b: three (N,) float64.

    The inverse temperature b is one number, or (N,) float64, one a sample. With s the logits less their row maximum and
    p = softmax(b s): ``log sum e^(b s) - b t.s``, ``E_p[s] - t.s`` and ``Var_p[s]``. Two buffers of a block each,
    reused, are all the memory it takes beside a few numbers a row.
    """
    (n_rows, k), slices = logits.shape, row_blocks(logits, dtype.itemsize)
    sums = torch.empty(3, n_rows, dtype=dtype, device=logits.device)  # of e^(b s) and its products with s and s^2
    target = torch.empty(n_rows, dtype=torch.float64, device=logits.device)
    scale = b[:, None].to(dtype) if isinstance(b, Tensor) else b * LOG2_E
    by_class = k < NARROW and n_rows >= MANY
    shape = (2, k, slices[0].stop) if by_class else (2, slices[0].stop, k)
    buffers = torch.empty(shape, dtype=dtype, device=logits.device)
    buffers = buffers.mT if by_class else buffers
    for rows in slices:
        s, e = buffers[:, : rows.stop - rows.start]
        z = logits[rows] if logits.dtype == dtype and not by_class else s.copy_(logits[rows])
        torch.sub(z, z.amax(1, keepdim=True), out=s)
        target[rows] = s.gather(1, labels[rows, None])[:, 0]
        if smoothing:
            target[rows].lerp_(s.mean(1).double(), smoothing)
        if isinstance(scale, Tensor):  # PTS, whose descent ends elsewhere if only the last bits are others
            torch.mul(s, scale[rows], out=e).exp_()
        else:
            torch.mul(s, scale, out=e).exp2_()
        torch.sum(e, 1, out=sums[0, rows])
        torch.sum(e.mul_(s), 1, out=sums[1, rows])
        torch.sum(e.mul_(s), 1, out=sums[2, rows])
    total, *products = sums.double()
    mean, square = (product.div_(total) for product in products)
    return total.log_().sub_(b * target), mean - target, square.addcmul_(mean, mean, value=-1)


def typical_spread(logits: Tensor, labels: Tensor | None) -> float:
    """Median over rows of the root mean square of the logits about the row's mean; 1 if all rows are constant.

    On some 512 rows, constant ones left out. A median, so that no row that is unlike the others moves it. A masked
    class, which would say how low the mask is, is put at the mean of the others. Without ``labels`` there is none, as
    where the targets name all classes.
    """
    step = max(1, len(logits) // SUBSAMPLE)
    some = logits[::step].double()
    if labels is not None and (deepest := _deepest(some[::8])) < math.inf:
        below = some - some.amax(1, keepdim=True)
        named = below.gather(1, labels[::step, None])
        if (named < -deepest).double().mean() <= NAMED:
            some, is_masked = below, below < -deepest
            mean = some.masked_fill_(is_masked, 0.0).sum(1, keepdim=True) / (~is_masked).sum(1, keepdim=True)
            some = torch.where(is_masked, mean, some)
    unit = max(float(some.abs().amax()), 1e-300)  # nothing overflows when squared
    scaled = some / unit
    spreads = torch.linalg.vector_norm(scaled - scaled.mean(1, keepdim=True), dim=1)
    spreads = spreads[spreads > 0]
    return float(spreads.median()) / scaled.shape[1] ** 0.5 * unit if len(spreads) else 1.0


def _deepest(logits: Tensor) -> float:
    """How far below the largest logit of its row one typically is before a jump, at which masked classes begin."""
    ordered = sort_values(logits).flip(1)
    typical = (ordered[:, :1] - ordered[:, 1:]).median(0).values
    before = typical[:-1]
    jumps = before[(typical[1:] > MASKED * before) & (before > 0)]
    return MASKED * float(jumps[0]) if len(jumps) else math.inf


def temperature_bounds(spread: float) -> tuple[float, float]:
    """Lowest and highest temperature searched: 0.01 and 1,000 times the ``typical_spread`` of the logits within a row.

    They hold T = 1 whatever the spread, so that what ends at a bound is no worse than the network as it is.
    """
    return min(LOWEST * spread, 1.0), max(HIGHEST * spread, 1.0)


def _evaluate(
    objective: Objective, logits: Tensor, labels: Tensor, x: float, dtype: torch.dtype = torch.float64
) -> tuple[float, float, float]:
    """Value, slope and curvature by x = log b of the objective, its weights held fixed and summing to 1."""
    b = math.exp(x)
    ce, first, second = moments(logits, labels, b, objective.smoothing, dtype)
    weights = objective.weights(ce, labels, logits.shape[1])
    phi, slope, curvature = objective.transform(ce)
    by_ce, total = weights * slope, max(float(weights.sum()), 1e-300)
    gradient = b * float(by_ce @ first) / total
    hessian = gradient + b * b * float((weights * curvature) @ first.square() + by_ce @ second) / total
    return float(weights @ phi) / total, gradient, hessian


def _scan(at: Evaluate, x: float, bounds: tuple[float, float]) -> float:
    """The lowest of the grid points where the slope turns upwards; else the end it falls to, or ``x`` if it is flat."""
    points = torch.linspace(*bounds, SCAN, dtype=torch.float64, device="cpu").tolist()
    values, slopes, _ = zip(*map(at, points), strict=True)
    turns = [i for i in range(SCAN - 1) if slopes[i] <= 0 < slopes[i + 1]]
    if turns:
        return points[min(turns, key=values.__getitem__)]
    return x if slopes[0] == 0 else points[0 if slopes[0] > 0 else -1]


def _beyond(at: Evaluate, adaptive: bool, x: float, bounds: tuple[float, float]) -> float:
    """The optimum past the bound x, if the slope turns far from it; else the bound."""
    colder = x == bounds[1]
    limit = min(x + math.log(FAR), max(x, COLDEST)) if colder else x - math.log(FAR)
    _, slope, _ = at(limit)
    if (slope <= 0) if colder else (slope >= 0):
        return x
    return _root(at, adaptive, x, (min(x, limit), max(x, limit)), TOLERANCE)


def _no_worse_than_at_one(at: Evaluate, x: float, bounds: tuple[float, float]) -> float:
    """x, unless T = 1 has a lower value: then where the steps from there lead to, or T = 1 itself."""
    if at(x)[0] <= at(0.0)[0]:
        return x
    return min(_root(at, False, 0.0, bounds, TOLERANCE), 0.0, key=lambda x: at(x)[0])


def _root(at: Evaluate, adaptive: bool, x: float, bounds: tuple[float, float], tolerance: float) -> float:
    """The x at which the slope vanishes, near its start: steps to the root of its cubic, inside a bracket.

    The cubic has the slopes and curvatures of the last two points. For an adaptive objective, whose weights move with
    x, the curvature says little, and a secant takes its place. A step that leaves the bracket or hardly shrinks gives
    way to a look at the bound on its side, or to bisection. A bound is returned if the slope does not turn before it.
    ``tolerance`` is the error left in x, in order of magnitude.
    """
    low, high = bounds
    x, step, unseen = min(max(x, low), high), math.inf, set(bounds)
    old_slope = old_curvature = 0.0
    for _ in range(100):
        value, slope, curvature = at(x)
        if (x == bounds[0] and slope >= 0) or (x == bounds[1] and slope <= 0):
            return x
        if slope == curvature == 0.0 and step == math.inf and value > 0:
            return 0.0  # flat, rows of equal logits: T = 1 is as good as any
        low, high = (x, high) if slope <= 0 else (low, x)
        unseen.discard(x)

        known, error, a, b = 0 < abs(step) < math.inf, math.inf, 0.0, 0.0
        rise = curvature
        if known and adaptive:
            rise = (slope - old_slope) / step
        elif known:
            a, b = _cubic(step, old_slope, old_curvature, slope, curvature)
        jump = math.inf
        if rise > 0:
            newton = jump = -slope / rise
            for _ in range(3):
                jump = newton - jump * jump * (a + b * jump) / rise
            error = abs(jump * step) if adaptive else jump * step * jump * step
        old_slope, old_curvature = slope, curvature

        is_bracketed = low <= x + jump <= high
        if is_bracketed and (error <= tolerance or jump == 0):
            return x + jump
        if is_bracketed and abs(jump) <= 0.75 * abs(step):
            new = x + jump
        else:
            end = high if slope <= 0 else low
            new = end if end in unseen else (low + high) / 2
        x, step = new, new - x
    return x


def _cubic(step: float, slope: float, curvature: float, new_slope: float, new_curvature: float) -> tuple[float, float]:
    """The a and b of ``new_slope + new_curvature d + a d^2 + b d^3``, which also fits the point at ``d = -step``."""
    first = (slope - new_slope + new_curvature * step) / step**2
    second = (new_curvature - curvature) / step
    return 3 * first - second, (2 * first - second) / step
