"""The minimum of an affine map's objective, and the penalties at which it is best out of fold.

The minimum by L-BFGS in coordinates in which the Hessian is close to the identity. Float32 logits are passed over in
float32 (sums in float64) until the decrease is small, and in float64 at the end.

The penalties by K-fold cross-validation on the held-out data, beside temperature scaling on the same folds. The
criterion is the fitted objective itself at the out-of-fold losses: each row's loss comes from the fit that did not see
it. No fit starts from one that saw its held-out rows, for a fit that stops early would remember them.
"""

from __future__ import annotations

import math
import warnings
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from calibkit.fitting import affine
from calibkit.fitting.affine import Ridge, Rows, own_weights, value_and_grad
from calibkit.fitting.affine_metric import Metric, coordinates, curvature_at, ray
from calibkit.fitting.lbfgs import MEMORY, Minimum, minimize
from calibkit.fitting.smooth import fixed_point
from calibkit.objectives import Objective

STEPS = 20  # of L-BFGS between two looks at the curvature
FEW = 10  # evaluations after which the next stage goes on with the same curvature
ROUNDS = 50  # looks at the curvature at most
#: Predicted decrease, relative, at which passes in float32 end, and in float64 with a penalty and without. From 10
#: classes on the latter two grow with K^3, to 1e-14 and 1e-10 at K = 1,000: with few rows a class and no penalty some
#: parameters run to infinity, and the objective no longer tells.
ROUGH, FINE, FINE_WITHOUT = 1e-5, 1e-20, 1e-16
MANY = 4  # evaluations of a fold's fit that call for the curvature to be taken anew
TOLERANCE = 1e-6  # of the fits, in relative decrease of the objective
GAIN = 5e-5  # relative improvement of the criterion that counts
HOPELESS = 3e-4  # relative worsening at which a direction is given up
ABSURD = 0.1  # relative excess over temperature scaling at which a fit is given up: it is on its way to infinity
DECADES = 8  # from the strongest penalty to the weakest
Strengths = tuple[float, ...]
Stage = tuple[torch.dtype, float]  # of the passes, and the tolerance


class Frozen(NamedTuple):
    """What is minimised: ``sum weights * phi(ce) + ridge`` over the rows of a sample, with the weights held fixed."""

    objective: Objective
    sample: Rows
    weights: Tensor
    ridge: Ridge | None = None


def descend(
    of: Frozen, x: Tensor, stages: list[Stage], metric: Metric | None = None, pairs: deque | None = None
) -> Minimum:
    """The minimum under frozen weights, from x, with passes in the dtype of each stage down to its tolerance.

    The coordinates are those from the curvature at x, which is taken anew up to ``ROUNDS`` times a stage; or those of
    ``metric``, once, with what L-BFGS learned in them of a similar objective in ``pairs``. A RuntimeWarning tells where
    the labels are separated, so that there is no minimum.
    """
    n_evaluations, converged, rounds = 0, False, ROUNDS if metric is None else 1
    for dtype, tolerance in stages:
        value, flat = math.inf, 0
        for _ in range(rounds):
            if metric is None:
                metric = coordinates(curvature_at(of.objective, of.sample, of.weights, x), of.ridge, x)
            best, worst = _within(metric, of, x, (dtype, tolerance), pairs)
            pairs = None
            x, old_value, value = best.x, value, best.value
            n_evaluations += best.n_evaluations
            if of.ridge is None and of.objective.smoothing == 0 and worst < math.log(2):
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


def _within(metric: Metric, of: Frozen, x: Tensor, stage: Stage, pairs: deque | None = None) -> tuple[Minimum, float]:
    """Up to ``STEPS`` steps in given coordinates, and the largest cross-entropy at the last point looked at."""
    (dtype, tolerance), worst = stage, 0.0

    def function(v: Tensor) -> tuple[float, Tensor]:
        nonlocal worst
        value, grad, ce = value_and_grad(of.objective, of.sample, of.weights, x + metric.step(v), of.ridge, dtype)
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
        return descend(Frozen(objective, sample, weights, ridge), x, [*rough, (torch.float64, tolerance)])

    def own(x: Tensor) -> Tensor:
        return own_weights(objective, sample, x)

    best = fixed_point(solve, own, x, fine) if objective.adaptive else solve(x, own(x))
    if not best.converged:
        text = f"{objective} is not converged after {best.n_evaluations} evaluations"
        warnings.warn(text, RuntimeWarning, stacklevel=4)
    return best.x


def folds(n_rows: int, n_folds: int) -> Tensor:
    """(N,) fold of each row, at random, always the same.

    Not stratified: folds with equal shares of the classes would repeat the chance in these shares in the held-out rows,
    and reward biases that fit it.
    """
    return torch.randperm(n_rows, generator=torch.Generator().manual_seed(0), device="cpu") % n_folds


def rows_of(logits: Tensor, labels: Tensor, mask: Tensor) -> Rows:
    """The rows of a mask, without a copy of their logits."""
    rows = torch.nonzero(mask)[:, 0]
    return Rows(logits, labels[rows], rows)


class OutOfFold:
    """Out-of-fold value of the objective, ``loss(strengths)``, and of temperature scaling, ``temperature_loss``.

    The temperatures of the folds are looked for from ``temperature``; ``ridge(strengths, start)`` is the penalty, given
    the parameters of temperature scaling.
    """

    def __init__(
        self,
        objective: Objective,
        logits: Tensor,
        labels: Tensor,
        temperature: float,
        ridge: Callable[[Strengths, Tensor], Ridge | None],
        n_folds: int,
        *,
        diagonal: bool,
    ) -> None:
        self.objective, self.logits, self.labels, self.ridge = objective, logits, labels, ridge
        fold = folds(len(labels), n_folds).to(labels.device)
        training = [rows_of(logits, labels, fold != f) for f in range(n_folds)]
        self.held_out = [rows_of(logits, labels, fold == f) for f in range(n_folds)]
        scaled, self.stage = affine.scaled_identity(1 / temperature, logits, diagonal=True), (logits.dtype, TOLERANCE)
        self.training = [Frozen(objective, sample, own_weights(objective, sample, scaled)) for sample in training]
        # Among the multiples of the identity: temperature scaling.
        fits = [_within(ray(scaled), of, scaled, self.stage)[0].x for of in self.training]
        self.temperature_loss = self._value(fits)
        self.starts = [affine.scaled_identity(float(x[0, 0]), logits, diagonal=diagonal) for x in fits]
        self.latest, self.curvature = self.starts, None

    def loss(self, strengths: Strengths) -> float:
        """The criterion under a penalty; each fold starts from its own latest fit, in coordinates of them all.

        What L-BFGS learned of the curvature from one fold it has for the next, whose rows are mostly the same.
        """
        if self.curvature is None:
            everything, middle = Rows(self.logits, self.labels), torch.stack(self.latest).mean(0)
            weights = own_weights(self.objective, everything, middle)
            self.curvature = curvature_at(self.objective, everything, weights, middle)
        start, pairs = torch.stack(self.starts).mean(0), deque(maxlen=MEMORY)
        metric = coordinates(self.curvature, self.ridge(strengths, start), start)
        folds = [of._replace(ridge=self.ridge(strengths, x)) for of, x in zip(self.training, self.starts, strict=True)]
        fits = [descend(of, x, [self.stage], metric, pairs) for of, x in zip(folds, self.latest, strict=True)]
        if max(fit.n_evaluations for fit in fits) > MANY:
            self.curvature = None
        del metric  # as large as a curvature, and a fold that is not done takes one of its own
        value = self._value([fit.x for fit in fits])
        if value > (1 + ABSURD) * self.temperature_loss:
            return value
        self.latest = [
            fit.x if fit.converged else descend(of, fit.x, [self.stage]).x for of, fit in zip(folds, fits, strict=True)
        ]
        return value if all(fit.converged for fit in fits) else self._value(self.latest)

    def _value(self, fits: list[Tensor]) -> float:
        ce = torch.empty(len(self.labels), dtype=torch.float64, device=self.labels.device)
        for sample, x in zip(self.held_out, fits, strict=True):
            ce[sample.index] = affine.losses(self.objective, sample, x, self.logits.dtype)
        return float(self.objective.shares(ce, self.labels, self.logits.shape[1]) @ self.objective.transform(ce)[0])


def search(loss: Callable[[Strengths], float], strongest: Strengths, free: tuple[bool, ...]) -> tuple[Strengths, float]:
    """The strengths of lowest loss on a grid of powers of ten below the strongest ones, and that loss.

    First all free strengths fall together, until two steps in a row bring nothing or one is ``HOPELESS``. Then, if
    they are several, each alone is weakened or strengthened, the last one first, as long as that helps; a direction
    that was hopeless is not tried again. An improvement below ``GAIN`` counts for nothing. Those that are not ``free``
    stay as they are.
    """

    def at(decades: tuple[int, ...]) -> Strengths:
        return tuple(s / 10.0**d for s, d in zip(strongest, decades, strict=True))

    def excess(decades: tuple[int, ...]) -> float:
        """Relative excess over the lowest loss so far, and the new lowest if it is one."""
        nonlocal best, lowest
        if decades in tried or not 0 <= min(decades) <= max(decades) <= DECADES:
            return 0.0
        tried.add(decades)
        value = loss(at(decades))
        relative = (value - lowest) / max(abs(lowest), 1e-300)
        if relative < -GAIN:
            best, lowest = decades, value
        return relative

    best = (0,) * len(strongest)
    lowest, tried, failures = loss(strongest), {best}, 0
    for step in range(1, DECADES + 1):
        relative = excess(tuple(step * f for f in free))
        failures = 0 if relative < -GAIN else failures + 1
        if failures == 2 or relative > HOPELESS:
            break
    moves = [(axis, sign) for axis in reversed(range(len(free))) if free[axis] for sign in (1, -1)]
    before = best if sum(free) == 1 else None
    while before != best:
        before = best
        for axis, sign in tuple(moves):
            relative = -1.0
            while relative < -GAIN:
                relative = excess(tuple(d + sign * (i == axis) for i, d in enumerate(best)))
            if relative > HOPELESS:
                moves.remove((axis, sign))
    return at(best), lowest
