"""Temperature scaling (TS): one scalar T > 0 divides every logit."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from calibkit.fitting import sctl_replay
from calibkit.fitting.grid import BINS, check_grid, check_own_bins, grid_temperatures, lowest_ece
from calibkit.fitting.sctl_replay import Replayable, Solver
from calibkit.fitting.temperature import fit_temperature, softmax_at
from calibkit.objectives import Objective, ObjectiveName, get


class TemperatureScaling(Replayable):
    r"""Temperature scaling, :math:`p = \operatorname{softmax}(z / T)`, fitted to the optimum of any objective.

    The argmax, and with it the accuracy, is kept for every T > 0; also where T is so high that rounding would make the
    probabilities of several classes equal. The NLL is convex in 1/T, strictly where the logits of any row
    differ, so its optimum is unique. It is found by Newton's method on blocked passes, two over all rows after a warm
    start on a part of them. From 8,192 rows on those over float32 logits are in float32, and give the T of float64
    copies to about 1e-7.

    No fit is worse than T = 1 by its own objective; where the weights of the objective depend on the losses, by the sum
    with the weights of the fit held fixed. ``solver="sctl"`` makes no such promise.

    Args:
        objective: a name of ``calibkit.objectives.OBJECTIVES`` or such an object. ``"nll"`` (default) is Guo et al.;
            ``"ece"`` searches ``grid`` for the lowest ECE, and the smallest T wins ties; ``"class_loss_scaling"``
            finds its fixed point.
        grid: temperatures searched for ``"ece"``, positive and rising, or one number, their step up to 10; None
            (default) is 0.1, 0.2, ..., 10.0, as in Mukhoti et al. 2020; 0.001 is the step of Tang et al. 2024. With 1
            among them the ECE is no higher than before.
        n_bins: bins of the objective ``"ece"``, 1 or more; 15 as in Guo et al. An object ``ECE(n_bins)`` has its own.
        solver: ``"exact"``, or ``"sctl"`` for the fit of Jung et al. 2023 as their code runs it: float32, L-BFGS from
            T = 1 without a line search, which often stops before the optimum. Only for reproducing their tables.

    Attributes:
        temperature: T > 0; None before ``fit``. A RuntimeWarning tells where it is a bound of the search, 0.01 or 1,000
            times the typical spread of the logits within a row, or 1 where that lies outside: the best T is 0 where
            every label has the largest logit, infinite where logits tell nothing. By ECE it tells where T is the
            highest of the grid.

    Paper: Guo, Pleiss, Sun and Weinberger 2017, "On Calibration of Modern Neural Networks", section 4.2.
    Differs from the paper: T is at the optimum, before which the public code of the paper often stops, too.

    Raises:
        ValueError: bad input, an unknown objective, a grid that is empty, not rising or not positive, ``n_bins`` < 1
            or beside an objective object, an unknown solver.
        RuntimeError: called before ``fit``.

    Example:
        >>> import numpy as np
        >>> z = np.array([[2.0, 0.0]] * 4)                  # confidence 0.88, but 3 of 4 are right
        >>> ts = TemperatureScaling().fit(z, np.array([0, 0, 0, 1]))
        >>> round(ts.temperature, 6), ts(z)[0].round(6).tolist()
        (1.820478, [0.75, 0.25])
    """

    state = ("temperature",)
    shapes = {"temperature": ()}
    keeps_predictions = True

    def __init__(
        self,
        objective: ObjectiveName | Objective = "nll",
        *,
        grid: Sequence[float] | float | None = None,
        n_bins: int = BINS,
        solver: Solver = "exact",
    ) -> None:
        super().__init__(objective, solver, smooth=False)
        self.grid, self.n_bins = check_grid(grid), check_own_bins(n_bins, objective)

    def _fit(self, logits: Tensor, labels: Tensor) -> None:
        objective = get(self.objective, n_bins=self.n_bins)
        if self.solver == "sctl":
            self.temperature = float(sctl_replay.scale(objective, logits, labels, 1))
        elif objective.smooth:
            self.temperature = fit_temperature(objective, logits, labels)
        else:
            self.temperature = lowest_ece(logits, labels, grid_temperatures(self.grid), objective.n_bins)

    def _probs(self, logits: Tensor) -> Tensor:
        return softmax_at(logits, self.temperature)
