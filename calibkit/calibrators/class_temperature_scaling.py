"""Class-based temperature scaling (CTS): one temperature a class, by greedy search of the ECE or by gradients."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from calibkit._arrays import row_blocks
from calibkit._checks import check_int, expected
from calibkit.fitting import sctl_replay
from calibkit.fitting.base import as_vector
from calibkit.fitting.greedy import Constraint, greedy_search
from calibkit.fitting.grid import BINS, check_grid, check_own_bins, grid_temperatures, lowest_ece
from calibkit.fitting.sctl_replay import Replayable, Solver
from calibkit.fitting.smooth import fit_smooth, is_no_worse
from calibkit.fitting.temperature import fit_temperature, temperature_bounds, typical_spread
from calibkit.objectives import Objective, ObjectiveName, get


class ClassTemperatureScaling(Replayable):
    r"""Class-based temperature scaling, :math:`p_k \propto \exp(z_k / T_k)`.

    With ``objective="ece"`` (default) the method of Frenkel & Goldberger: start from the single temperature of lowest
    ECE, then visit the classes in turn and give each the grid temperature that lowers the ECE most, the others held,
    among those that do not lower the accuracy on the held-out data. The ECE falls monotonically; the search ends when a
    round over all classes changes nothing. The argmax may change, so accuracy is kept on the held-out data alone.

    With a smooth objective (``"nll"``, ``"class_loss_scaling"``, ...) the K log-temperatures at its optimum, by
    gradients, with no constraint on accuracy: what the class-loss paper (Jung et al. 2023) calls CTS is
    ``objective="nll"`` or ``"class_loss_scaling"``.

    No fit is worse than the logits as they are, in the sense of ``TemperatureScaling``.

    Args:
        objective: a name of ``calibkit.objectives.OBJECTIVES`` or such an object.
        grid: temperatures searched for ``"ece"``, positive and rising, or one number, their step up to 10; None
            (default) is 0.1, 0.2, ..., 10.0. Section III says 0 to 10 in steps of 0.1 of the single temperature, of
            which 0 is none, and nothing of those of the classes. With 1 among them the ECE is no higher than before.
        n_bins: bins of the objective ``"ece"``, 1 or more: 15 as in Tables I and II of the paper (25 in Table III). An
            object ``ECE(n_bins)`` has its own.
        max_sweeps: rounds over all classes at most, 1 or more; 5, which section III finds enough.
        accuracy_constraint: True is CTS as section III writes it. ``"running"`` is CTS as the authors' code
            ran it in January 2021 (commit ace3b9f), which gives eight of nine printed ECEs: the candidates are tried in
            rising order, and one is taken if its ECE is lower and its accuracy no lower than those of the last one
            taken. False is U-CTS, the lowest ECE at any accuracy.
        solver: ``"exact"``, or ``"sctl"`` (smooth objectives only) as in ``TemperatureScaling``.

    Attributes:
        temperatures: (K,) float64; None before ``fit``. By ECE a RuntimeWarning tells where the one temperature of the
            start is the highest of the grid.
        history: (steps + 1, 4) float64, the accepted steps of the greedy search: sweep, class, temperature, ECE on the
            held-out data after the step. The first row is the start (sweep 0, class -1). Empty for smooth objectives.

    Paper: Frenkel and Goldberger 2021, "Network Calibration by Class-based Temperature Scaling", EUSIPCO, section III
    and Algorithm 1; code: https://github.com/liorfrenkel1992/calibration, ``temperature_scaling.py``.
    Differs from the paper: where the text ("not decreasing") and Algorithm 1 ("increase") part, accuracy may stay
    equal; it is compared with the accuracy at the present temperatures; the present temperature is always a candidate
    and keeps ties. All candidates are searched exactly, at O(N) a candidate instead of O(N K).

    Raises:
        ValueError: bad input, an unknown objective, a grid that is empty, not rising or not positive, ``n_bins`` < 1
            or beside an objective object, ``max_sweeps`` < 1, an unknown ``accuracy_constraint``, an unknown solver.
        RuntimeError: called before ``fit``.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> z = rng.normal(size=(500, 3)) * 3
        >>> y = (z * [0.2, 0.5, 0.9] + rng.gumbel(size=z.shape)).argmax(1)      # true temperatures 5, 2, 1.1
        >>> cts = ClassTemperatureScaling().fit(z, y)
        >>> bool(cts.history[-1, 3] < cts.history[0, 3])
        True
        >>> ClassTemperatureScaling("nll").fit(z, y).temperatures.round(1).tolist()
        [5.1, 2.0, 1.1]
    """

    state, reported = ("temperatures", "history"), ("history",)
    shapes = {"temperatures": ("K",)}

    def __init__(
        self,
        objective: ObjectiveName | Objective = "ece",
        *,
        grid: Sequence[float] | float | None = None,
        n_bins: int = BINS,
        max_sweeps: int = 5,
        accuracy_constraint: Constraint = True,
        solver: Solver = "exact",
    ) -> None:
        super().__init__(objective, solver, smooth=False)
        self.grid, self.n_bins = check_grid(grid), check_own_bins(n_bins, objective)
        self.max_sweeps, self.accuracy_constraint = check_int("max_sweeps", max_sweeps, 1), accuracy_constraint
        if not isinstance(accuracy_constraint, bool) and not (
            isinstance(accuracy_constraint, str) and accuracy_constraint == "running"
        ):
            raise expected("accuracy_constraint", "True, False or 'running'", repr(accuracy_constraint))

    def _fit(self, logits: Tensor, labels: Tensor) -> None:
        objective = get(self.objective, n_bins=self.n_bins)
        if self.solver == "sctl":
            temperatures, history = sctl_replay.scale(objective, logits, labels, logits.shape[1]), []
        elif objective.smooth:
            temperatures, history = fit_class_temperatures(objective, logits, labels), []
        else:
            grid = grid_temperatures(self.grid)
            start = lowest_ece(logits, labels, grid, objective.n_bins)
            grid = torch.tensor(grid, dtype=torch.float64, device=logits.device)
            temperatures, history = greedy_search(
                logits, labels, start, grid, objective.n_bins, self.max_sweeps, self.accuracy_constraint
            )
        self.temperatures = temperatures.cpu().numpy()
        self.history = np.array(history, dtype=np.float64).reshape(-1, 4)

    def _probs(self, logits: Tensor) -> Tensor:
        return (logits / as_vector(self.temperatures, logits)).softmax(1)


def fit_class_temperatures(objective: Objective, logits: Tensor, labels: Tensor) -> Tensor:
    """(K,) temperatures at the optimum (or fixed point) of a smooth objective: L-BFGS on log T, from the single best T.

    The log-temperatures stay within the bounds of ``temperature_bounds``, widened to hold the single best T; a
    RuntimeWarning names the classes that end at one, as a class without a label may.
    """
    single = fit_temperature(objective, logits, labels)
    coldest, hottest = temperature_bounds(typical_spread(logits, None if objective.smoothing else labels))
    low, high = math.log(min(coldest, single)), math.log(max(hottest, single))
    start = logits.new_full((logits.shape[1],), math.log(single), dtype=torch.float64)

    def forward(x: Tensor, z: Tensor) -> Tensor:
        return z * torch.exp(-x.clamp(low, high))

    def backward(x: Tensor, z: Tensor, g: Tensor, grad: Tensor) -> None:
        free = (x > low) & (x < high)
        grad -= (g.mul_(z).sum(0) * torch.exp(-x)).where(free, 0.0)

    x = fit_smooth(objective, logits, labels, start, forward, backward, curvature=_curvature(logits, start))
    if objective.adaptive and not is_no_worse(objective, logits, labels, x, start, forward):
        x = start  # of other objectives every step went down from it
    at_bound = ((x <= low) | (x >= high)).nonzero()[:, 0].tolist()
    if at_bound:
        warnings.warn(f"the temperatures of classes {at_bound} are at a bound", RuntimeWarning, stacklevel=4)
    return x.clamp(low, high).exp()


def _curvature(logits: Tensor, x: Tensor) -> Tensor:
    """(K,) diagonal of the NLL's curvature by log T, mean of p (1 - p) (z / T)^2, kept off zero."""
    total = torch.zeros_like(x)
    for rows in row_blocks(logits):
        u = logits[rows] / x.exp()
        p = u.softmax(1)
        total += (p - p * p).mul_(u).mul_(u).sum(0)  # one by one: where p is 0, u may be too large to square
    total /= len(logits)
    return total.clamp(min=max(1e-3 * float(total.max()), 1e-8))
