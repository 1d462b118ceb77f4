"""Choosing penalties by K-fold cross-validation on the held-out data, beside temperature scaling on the same folds.

The criterion is the fitted objective itself at the out-of-fold losses: each row's loss comes from the fit that did not
see it. No fit starts from one that saw its held-out rows, for a fit that stops early would remember them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import torch
from torch import Tensor

from calibkit.fitting import affine
from calibkit.fitting.affine import Ridge, Rows
from calibkit.fitting.affine_descent import descend, rescale
from calibkit.fitting.affine_metric import coordinates, curvature_at
from calibkit.fitting.lbfgs import MEMORY
from calibkit.objectives import Objective

MANY = 4  # evaluations of a fold's fit that call for the curvature to be taken anew
TOLERANCE = 1e-6  # of the fits, in relative decrease of the objective
GAIN = 5e-5  # relative improvement of the criterion that counts
HOPELESS = 3e-4  # relative worsening at which a direction is given up
ABSURD = 0.1  # relative excess over temperature scaling at which a fit is given up: it is on its way to infinity
DECADES = 8  # from the strongest penalty to the weakest
Strengths = tuple[float, ...]


def folds(n_rows: int, n_folds: int) -> Tensor:
    """(N,) fold of each row, at random, always the same.

    Not stratified: folds with equal shares of the classes would repeat the chance in these shares in the held-out rows,
    and reward biases that fit it.
    """
    return torch.randperm(n_rows, generator=torch.Generator().manual_seed(0)) % n_folds


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
        self.training = [rows_of(logits, labels, fold != f) for f in range(n_folds)]
        self.held_out = [rows_of(logits, labels, fold == f) for f in range(n_folds)]
        scaled = affine.scaled_identity(1 / temperature, logits, diagonal=True)
        self.weights = [affine.own_weights(objective, sample, scaled) for sample in self.training]
        fits = [
            rescale(objective, sample, w, scaled, TOLERANCE).x
            for sample, w in zip(self.training, self.weights, strict=True)
        ]
        self.temperature_loss = self._value(fits)
        self.starts = [affine.scaled_identity(float(x[0, 0]), logits, diagonal=diagonal) for x in fits]
        self.latest, self.curvature = self.starts, None

    def loss(self, strengths: Strengths) -> float:
        """The criterion under a penalty; each fold starts from its own latest fit, in coordinates of them all.

        What L-BFGS learned of the curvature from one fold it has for the next, whose rows are mostly the same.
        """
        if self.curvature is None:
            everything, middle = Rows(self.logits, self.labels), torch.stack(self.latest).mean(0)
            weights = affine.own_weights(self.objective, everything, middle)
            self.curvature = curvature_at(self.objective, everything, weights, middle)
        start, stages = torch.stack(self.starts).mean(0), [(self.logits.dtype, TOLERANCE)]
        metric = coordinates(self.curvature, self.ridge(strengths, start), start)
        folds, pairs = list(zip(self.training, self.weights, self.starts, strict=True)), deque(maxlen=MEMORY)
        fits = [
            descend(self.objective, sample, w, x, self.ridge(strengths, start), stages, metric, pairs, rounds=1)
            for (sample, w, start), x in zip(folds, self.latest, strict=True)
        ]
        if max(fit.n_evaluations for fit in fits) > MANY:
            self.curvature = None
        del metric  # as large as a curvature, and a fold that is not done takes one of its own
        value = self._value([fit.x for fit in fits])
        if value > (1 + ABSURD) * self.temperature_loss:
            return value
        self.latest = [
            fit.x
            if fit.converged
            else descend(self.objective, sample, w, fit.x, self.ridge(strengths, start), stages).x
            for (sample, w, start), fit in zip(folds, fits, strict=True)
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
