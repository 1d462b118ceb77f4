"""Ensemble temperature scaling (ETS): a mixture of scaled, raw and uniform probabilities."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from calibkit._checks import expected
from calibkit.fitting import sctl_replay
from calibkit.fitting.base import ROUNDING, as_vector
from calibkit.fitting.sctl_replay import Replayable, Solver
from calibkit.fitting.smooth import fit_losses, fit_smooth, is_lowest, is_no_worse
from calibkit.fitting.temperature import fit_temperature, softmax_at
from calibkit.objectives import Objective, SmoothName, get, losses

LEAST = 1e-3  # weight of the two softmaxes together: beside 1 / K, the order of less would be rounded away


class ETS(Replayable):
    r"""Ensemble temperature scaling, a temperature and three weights.

    .. math::
       \begin{gathered}
       p = w_1 \softmax(z / T) + w_2 \softmax(z) + w_3 \frac1K, \\
       w_j \ge 0, \quad \sum_j w_j = 1
       \end{gathered}

    Every term ranks the classes alike (the last one does not rank them), so the argmax and with it the accuracy stay.
    Fitted in two stages: T alone, then the weights at that T. In the weights the NLL is convex, and its optimum, often
    on the boundary of the simplex, is found to rounding. It is never above that of temperature scaling. Where labels
    are noise, w_3 stops at 0.999, since beside 1 / K the order of the rest would be rounded away.

    Args:
        objective: a name of ``calibkit.objectives.OBJECTIVES`` or such an object, for both stages; ``"ece"`` is
            refused. Default ``"nll"``.
        solver: ``"exact"``, or ``"sctl"`` for what Jung et al. 2023 call ETS, as their code runs it: it mixes
            *logits*, :math:`\softmax(w_1 z / T + w_2 z + w_3 / K)` with free weights. The third term moves nothing,
            the first two are one temperature :math:`1 / (w_1 / T + w_2)`: temperature scaling, fitted twice by an
            optimiser that stops early. Only for reproducing their tables.

    Attributes:
        temperature: T > 0 (any sign with ``solver="sctl"``).
        weights: (3,) float64 w.

    Paper: Zhang, Kailkhura and Han 2020, "Mix-n-Match: Ensemble and Compositional Methods for Uncertainty Calibration
    in Deep Learning".
    Differs from the paper: none in the model. The authors' code fits both stages by the Brier score, whatever loss it
    is asked for, and searches T in [0.05, 5] only.

    Raises:
        ValueError: bad input, an unknown or unsuited objective, an unknown solver.
        RuntimeError: called before ``fit``.

    Example:
        >>> z = np.array([[20.0, 0.0]] * 10 + [[10.0, 0.0]] * 10)    # 9 of 10 are right at either gap
        >>> y = np.array([0] * 9 + [1] + [0] * 9 + [1])
        >>> ets = ETS().fit(z, y)
        >>> ets.weights.round(2).tolist(), ets(z)[[0, -1], 0].round(2).tolist()
        ([0.0, 0.8, 0.2], [0.9, 0.9])
        >>> from calibkit.calibrators import TemperatureScaling      # one temperature cannot say 0.9 twice
        >>> TemperatureScaling().fit(z, y)(z)[[0, -1], 0].round(2).tolist()
        [0.95, 0.81]
    """

    state, fractions = ("temperature", "weights"), ("weights",)
    shapes = {"temperature": (), "weights": (3,)}
    keeps_predictions = True

    def __init__(self, objective: SmoothName | Objective = "nll", *, solver: Solver = "exact") -> None:
        super().__init__(objective, solver)

    def _fit(self, logits: Tensor, labels: Tensor) -> None:
        objective = get(self.objective)
        if self.solver == "sctl":
            temperature, weights = _replay(objective, logits, labels)
        else:
            temperature = fit_temperature(objective, logits, labels)
            weights = _keeping_order(fit_weights(objective, logits, labels, temperature))
        self.temperature, self.weights = float(temperature), weights.cpu().numpy()

    def _check_state(self, name: str, value: np.ndarray) -> None:
        super()._check_state(name, value)
        if name == "weights" and self.solver == "exact" and abs(value.sum() - 1.0) > ROUNDING:
            raise expected(name, "of sum 1", f"{value.sum():.6g}")

    def _probs(self, logits: Tensor) -> Tensor:
        w = as_vector(self.weights, logits)
        if self.solver == "sctl":
            return (w[0] * (logits / self.temperature) + w[1] * logits + w[2] / logits.shape[1]).softmax(1)
        return w[0] * softmax_at(logits, self.temperature) + w[1] * logits.softmax(1) + w[2] / logits.shape[1]


def fit_weights(objective: Objective, logits: Tensor, labels: Tensor, temperature: float) -> Tensor:
    """(3,) weights on the simplex at the minimum of the objective.

    ``w = x**2 / sum(x**2)`` leaves x free and lets a weight reach 0 at a finite x. Of the three terms the losses need
    the labels' log-probabilities only, which one pass gives; a target spread over all classes needs them all.
    """
    scaled, raw = torch.eye(3, dtype=torch.float64, device=logits.device)[:2]
    start = scaled.new_tensor([0.98, 0.01, 0.01]).sqrt()
    if objective.smoothing:
        return _simplex(_fit_all_classes(objective, logits, labels, temperature, start, scaled))
    terms = torch.stack([-losses(logits, labels, 1 / t, torch.mul) for t in (temperature, 1.0)])
    terms = torch.cat([terms, torch.full_like(terms[:1], -math.log(logits.shape[1]))])

    def ce(x: Tensor | None) -> Tensor:
        return -torch.logsumexp(terms + _simplex(raw if x is None else x).log()[:, None], 0)

    def gradient(x: Tensor, weights: Tensor) -> tuple[float, Tensor]:
        loss = ce(x)
        phi, slope, _ = objective.transform(loss)
        return float(weights @ phi), _by_root(x, -((terms + loss).exp_() @ (weights * slope)))

    x = fit_losses(objective, labels, logits.shape[1], start, ce, gradient)
    return _simplex(x if is_lowest(objective, labels, logits.shape[1], x, scaled, ce) else scaled)


def _keeping_order(weights: Tensor) -> Tensor:
    """The weights with ``LEAST`` or more on the two softmaxes: where labels are noise the fit wants none.

    They move towards temperature scaling alone: on the way to it a convex objective is no higher than there.
    """
    share = weights[:2].sum()
    if share >= LEAST:
        return weights
    step = (LEAST - share) / (1 - share)
    return torch.lerp(weights, torch.eye(3, dtype=weights.dtype, device=weights.device)[0], step)


def _fit_all_classes(
    objective: Objective, logits: Tensor, labels: Tensor, temperature: float, start: Tensor, scaled: Tensor
) -> Tensor:
    """The x of ``fit_weights``, by passes over all classes: the logarithm of the mixture stands for the logits."""

    def terms(z: Tensor) -> Tensor:
        uniform = torch.full_like(z, -math.log(z.shape[1]))
        return torch.stack([(z / temperature).log_softmax(1), z.log_softmax(1), uniform])

    def forward(x: Tensor, z: Tensor) -> Tensor:
        return torch.logsumexp(terms(z) + _simplex(x).log()[:, None, None], 0)

    def backward(x: Tensor, z: Tensor, g: Tensor, grad: Tensor) -> None:
        components = terms(z)
        mixture = torch.logsumexp(components + _simplex(x).log()[:, None, None], 0)
        grad += _by_root(x, ((components - mixture).exp_() * g).sum((1, 2)))

    x = fit_smooth(objective, logits, labels, start, forward, backward)
    return x if is_no_worse(objective, logits, labels, x, scaled, forward) else scaled


def _by_root(x: Tensor, by_weight: Tensor) -> Tensor:
    """The gradient by x, from that by the weights."""
    return 2 * x / (x @ x) * (by_weight - _simplex(x) @ by_weight)


def _simplex(x: Tensor) -> Tensor:
    return x.square() / (x @ x)


def _replay(objective: Objective, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Temperature and then weights, both from where the public code of class-wise loss scaling starts."""
    t = torch.ones(1, dtype=torch.float32, device=logits.device, requires_grad=True)
    w = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float32, device=logits.device, requires_grad=True)
    n_classes = logits.shape[1]

    def forward(z: Tensor) -> Tensor:
        return z / t * w[0] + z * w[1] + 1 / n_classes * w[2]

    sctl_replay.replay(objective, logits, labels, forward, [t], [w])
    return t.detach().double(), w.detach().double()
