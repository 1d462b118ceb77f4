"""``solver="sctl"``: the optimisers of the public code of class-wise loss scaling, run as it runs them.

That code (Jung et al. 2023, SCTL at commit 83ad33b) works in float32 and takes torch's L-BFGS without a line search,
or Adam, for a fixed budget of steps. Where the budget ends, its fit is: seldom at the optimum of the objective. The
printed tables are made of such fits, so they are reproduced by the same steps and not by the same objective.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from calibkit._checks import check_choice, expected
from calibkit.fitting.base import Calibrator
from calibkit.objectives import NLL, ClassLossScaling, Focal, LabelSmoothing, Objective, get

Solver = Literal["exact", "sctl"]
#: (learning rate, steps) of each optimiser in turn; the schedule of three is for label smoothing and focal loss.
CONSTANT = ((0.02, 1000),)
SCHEDULE = ((0.005, 200), (0.003, 400), (0.001, 400))


class Replayable(Calibrator):
    """A calibrator with the options ``objective`` and ``solver``; with "sctl", an objective that its code has."""

    def __init__(self, objective: str | Objective, solver: Solver, *, smooth: bool = True) -> None:
        super().__init__()
        chosen = get(objective, smooth=smooth)
        self.objective, self.solver = objective, check_choice("solver", solver, get_args(Solver))
        if solver == "sctl" and not isinstance(chosen, NLL | LabelSmoothing | Focal | ClassLossScaling):
            want = "nll, label_smoothing, focal or class_loss_scaling with solver='sctl'"
            raise expected("objective", want, repr(chosen))

    @property
    def signed(self) -> bool:
        """Nothing keeps the temperatures of the public code positive."""
        return self.solver == "sctl"


def replay(
    objective: Objective,
    logits: Tensor,
    labels: Tensor,
    forward: Callable[[Tensor], Tensor],
    *stages: list[Tensor],
    adam: bool = False,
) -> None:
    """Move float32 parameters, in place, as the public code would, by L-BFGS or by ``adam``.

    The leaf tensors of a stage are optimised together; one stage after the other, by one and the same loss of the
    calibrated logits, which ``forward`` makes of the logits, taken as float32. On a CPU it runs on one thread, whatever
    torch is set to: the order of a float32 sum decides where L-BFGS stops.
    """
    z = logits.float()
    loss = training_loss(objective, labels, z.shape[1])
    schedule = SCHEDULE if isinstance(objective, LabelSmoothing | Focal) else CONSTANT
    with one_thread():
        for parameters in stages:
            for rate, n_steps in schedule:

                def closure(parameters: list[Tensor] = parameters) -> Tensor:
                    value = loss(forward(z))
                    gradients = torch.autograd.grad(value, parameters)
                    for parameter, gradient in zip(parameters, gradients, strict=True):
                        parameter.grad = gradient
                    return value

                if adam:
                    optimizer = torch.optim.Adam(parameters, lr=rate)
                    for _ in range(n_steps):
                        optimizer.step(closure)
                else:
                    torch.optim.LBFGS(parameters, lr=rate, max_iter=n_steps).step(closure)


def scale(objective: Objective, logits: Tensor, labels: Tensor, n_temperatures: int) -> Tensor:
    """(n_temperatures,) float64: one temperature, or one for each class, replayed from 1. They may be negative."""
    t = torch.ones(n_temperatures, dtype=torch.float32, device=logits.device, requires_grad=True)
    replay(objective, logits, labels, lambda z: z / t, [t])
    return t.detach().double()


def training_loss(objective: Objective, labels: Tensor, n_classes: int) -> Callable[[Tensor], Tensor]:
    """The loss that the public code minimises, as a function of the calibrated logits.

    With class-wise loss scaling it has a memory: its scales are computed anew, and detached, at every evaluation, from
    alpha = 1 and the objective's beta, until the second evaluation chooses both by SLSQP, for good. An alpha that the
    objective sets stays. A class without a sample is left out, where the public code returns NaN.
    """
    if isinstance(objective, Focal):
        return lambda u: _focal(u, labels, objective.gamma)
    if isinstance(objective, ClassLossScaling):
        return _ClassLoss(objective, labels, n_classes)
    return lambda u: functional.cross_entropy(u, labels, label_smoothing=objective.smoothing)


def _focal(u: Tensor, labels: Tensor, gamma: float) -> Tensor:
    """Focal loss whose factor (1 - p)^gamma is detached."""
    log_p = functional.log_softmax(u, 1).gather(1, labels[:, None])[:, 0]
    return (-1 * (1 - log_p.detach().exp()) ** gamma * log_p).mean()


class _ClassLoss:
    """Sum over the classes of (1 + s_c) times their loss, with the memory that ``training_loss`` describes."""

    def __init__(self, objective: ClassLossScaling, labels: Tensor, n_classes: int) -> None:
        self.learns, self.n_evaluations = objective.alpha is None, 0
        self.objective = replace(objective, alpha=1.0) if self.learns else objective
        self.classes = [rows for c in range(n_classes) if len(rows := (labels == c).nonzero()[:, 0])]
        self.labels, self.reduction = labels, "mean" if objective.variant == "code" else "sum"

    def __call__(self, u: Tensor) -> Tensor:
        losses = torch.stack(
            [functional.cross_entropy(u[rows], self.labels[rows], reduction=self.reduction) for rows in self.classes]
        )
        current = losses.detach()
        if self.n_evaluations == 0:
            self.first = current
        elif self.n_evaluations == 1 and self.learns:
            self.objective = self.objective.fit_shape(self.first.double().cpu(), current.double().cpu())
        self.n_evaluations += 1
        return (losses * self.weights(current)).sum()

    def weights(self, current: Tensor) -> Tensor:
        """1 + s_c by equation 5. The exponential is numpy's, as there: its last bit moves where L-BFGS stops."""
        centre = current.min() if self.objective.normalization == "mm" else current.mean()
        correction = 1 if self.objective.variant == "code" else 0
        nd = self.objective.normalization == "nd"
        spread = current.std(correction=correction) if nd else current.max() - current.min()
        alpha, beta = self.objective.alpha, self.objective.beta
        power = np.exp((-((current - centre) / spread) / alpha).cpu().numpy())
        return beta / (1 + torch.from_numpy(power).to(current.device)) - beta / 2 + 1


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch on one CPU thread."""
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(n_threads)
