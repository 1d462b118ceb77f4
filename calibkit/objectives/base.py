"""The cross-entropy of every row, the base of all objectives, and those that are a few lines.

Passes over the logits are blocked: float64 arithmetic on cache-sized blocks of float32 or float64 rows, so that only
(N,) vectors and a few blocks live at a time, whatever N and K are. The package's text says how calibrators use them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from calibkit._blocks import row_blocks
from calibkit._checks import Array, check_flag, check_held_out, check_real

SMALLEST = 2.0**-52  # of 1 - p: a cross-entropy is rounded by as much, and its negative powers would be noise
LOG2_E = 1 / math.log(2)  # torch's powers of 2 are faster than those of e

#: Calibrated logits of a block: ``forward(x, z) -> u``, a new tensor; z (n, K) is float64 and is left as it is.
Forward = Callable[[Tensor, Tensor], Tensor]


def cross_entropy(u: Tensor, labels: Tensor, smoothing: float = 0.0) -> Tensor:
    """(n,) ``logsumexp(u) - t . u`` for targets ``(1 - smoothing) onehot + smoothing / K``."""
    target = u.gather(1, labels[:, None])[:, 0]
    if smoothing:
        target = torch.lerp(target, u.mean(1), smoothing)
    return torch.logsumexp(u, 1) - target


def cross_entropy_grad(u: Tensor, labels: Tensor, smoothing: float = 0.0) -> tuple[Tensor, Tensor]:
    """The cross-entropies (n,) and their gradients by u, ``softmax(u) - t``, which overwrite ``u``."""
    u -= u.amax(1, keepdim=True)
    target = u.gather(1, labels[:, None])
    if smoothing:
        target = torch.lerp(target, u.mean(1, keepdim=True), smoothing)
    p = u.mul_(LOG2_E).exp2_()
    total = p.sum(1, keepdim=True)
    p /= total
    if smoothing:
        p -= smoothing / p.shape[1]
    p.scatter_add_(1, labels[:, None], p.new_full((len(p), 1), smoothing - 1.0))
    return (total.log_() - target)[:, 0], p


def losses(
    logits: Tensor, labels: Tensor, x: Tensor | None = None, forward: Forward | None = None, smoothing: float = 0.0
) -> Tensor:
    """(N,) cross-entropies of the calibrated logits ``forward(x, z)``, or of ``logits`` as they are."""
    ce = torch.empty(len(logits), dtype=torch.float64, device=logits.device)
    for rows in row_blocks(logits):
        z = logits[rows].double()
        ce[rows] = cross_entropy(z if forward is None else forward(x, z), labels[rows], smoothing)
    return ce


@dataclass(frozen=True)
class Objective:
    """Base of all objectives: cross-entropy per sample, an elementwise map of it, and weights."""

    smooth: ClassVar[bool] = True  #: whether it has a gradient; else it is searched on a grid
    convex: ClassVar[bool] = True  #: in the calibrated logits, so that temperature scaling has one minimum
    adaptive: ClassVar[bool] = False  #: whether ``weights`` depends on the losses, so that the fit is a fixed point
    smoothing: ClassVar[float] = 0.0  #: share alpha of the target that is spread evenly over all classes

    def transform(self, ce: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """phi(ce), phi'(ce) and phi''(ce), elementwise; the identity here."""
        return ce, torch.ones_like(ce), torch.zeros_like(ce)

    def weights(self, ce: Tensor, labels: Tensor, n_classes: int) -> Tensor:
        """(N,) non-negative weights at the losses ``ce``; 1/N here."""
        return torch.full_like(ce, 1.0 / len(ce))

    def shares(self, ce: Tensor, labels: Tensor, n_classes: int) -> Tensor:
        """``weights`` that sum to 1; 1/N where all of them are 0."""
        weights = self.weights(ce, labels, n_classes)
        total = weights.sum()
        return weights / total if total > 0 else torch.full_like(weights, 1 / len(weights))

    def value(self, logits: Array, labels: Array) -> float:
        """The objective of these logits as they are: ``sum_i weights_i * phi(ce_i)``."""
        z, y = check_held_out(logits, labels)
        ce = losses(z, y, smoothing=self.smoothing)
        return float(self.weights(ce, y, z.shape[1]) @ self.transform(ce)[0])


@dataclass(frozen=True)
class NLL(Objective):
    r"""Mean negative log-likelihood in nats, :math:`-\frac1N \sum_i \log p_{i, y_i}`; the default of every calibrator.

    Guo et al. 2017, "On Calibration of Modern Neural Networks", section 4.2. Convex in every calibrator that is linear
    in its parameters (with inverse temperatures for temperature scaling).

    Example:
        >>> round(NLL().value([[2.0, 0.0], [0.0, 1.0]], [0, 0]), 6)
        0.720095
    """


@dataclass(frozen=True)
class ClassBalanced(Objective):
    r"""Mean over the classes of the mean NLL within each class: every class counts the same, however rare it is.

    .. math:: \frac{1}{|C|} \sum_{c \in C} \frac{1}{n_c} \sum_{i: y_i = c} -\log p_{i c}

    C are the classes with at least one label. It is what class-wise loss scaling with class means comes to when all
    its scales are zero (times K), hence the control to put beside it: on long-tailed held-out data it alone moves the
    fit towards a balanced test set.

    Example:
        >>> z = [[2.0, 0.0], [2.0, 0.0], [0.0, 1.0]]
        >>> round(ClassBalanced().value(z, [0, 0, 1]), 6) == round((0.126928 + 0.313262) / 2, 6)
        True
    """

    def weights(self, ce: Tensor, labels: Tensor, n_classes: int) -> Tensor:
        """1 / (number of classes present * size of the sample's class)."""
        counts = torch.bincount(labels, minlength=n_classes).double()
        return 1.0 / (counts[labels] * (counts > 0).sum())


@dataclass(frozen=True)
class LabelSmoothing(Objective):
    r"""Mean cross-entropy against :math:`(1 - \alpha)\,\mathrm{onehot}(y) + \alpha / K`.

    Args:
        alpha: smoothing in [0, 1); 0.05 as in Jung et al. 2023 (SCTL), "Scaling of Class-wise Training Losses for
            Post-hoc Calibration", who fit calibrators with it. The convention is that of ``torch``: all K classes share
            alpha, the label included.

    A class that is masked by a very low logit has its share as well, and to give it that a calibrator flattens all
    others: leave such classes out.

    Differs from the paper: the paper's optimiser stops long before the optimum (CIFAR-10 DenseNet-40, temperature
    scaling: T = 3.23 there, T = 5.54 at the optimum). Here every fit reaches the optimum.

    Example:
        >>> round(LabelSmoothing(0.05).value([[2.0, 0.0]], [0]), 6)   # ce + alpha * (z_y - mean(z))
        0.176928
    """

    alpha: float = 0.05

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", check_real("alpha", self.alpha, 0.0, 1.0 - 1e-9))

    @property
    def smoothing(self) -> float:
        """Share of the target spread over all classes: alpha."""
        return self.alpha


@dataclass(frozen=True)
class Focal(Objective):
    r"""Mean focal loss :math:`-\frac1N \sum_i (1 - p_{i, y_i})^\gamma \log p_{i, y_i}`, by Lin and others 2017.

    Args:
        gamma: focusing exponent >= 0; 3 as in Mukhoti et al. 2020 (FL-3) and Jung et al. 2023 (SCTL). 0 is the NLL.
        detach: hold the factor :math:`(1 - p)^\gamma` fixed where the gradient is taken, as the public code of SCTL
            does. Its fit is then a fixed point, not the minimum of a function.

    Example:
        >>> round(Focal(gamma=3.0).value([[2.0, 0.0]], [0]), 8)
        0.00021499
    """

    gamma: float = 3.0
    detach: bool = False
    convex: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "gamma", check_real("gamma", self.gamma, 0.0))
        object.__setattr__(self, "detach", check_flag("detach", self.detach))

    @property
    def adaptive(self) -> bool:
        """Detached, the factor is a weight that depends on the loss."""
        return self.detach

    def transform(self, ce: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The map q^gamma * ce with q = 1 - exp(-ce), and its two derivatives; the identity when detached."""
        if self.detach:
            return super().transform(ce)
        p, q, gamma = torch.exp(-ce), -torch.expm1(-ce), self.gamma
        q = q.clamp(min=SMALLEST)
        slope = q**gamma + gamma * q ** (gamma - 1) * p * ce
        curvature = gamma * p * (q ** (gamma - 1) * (2 - ce) + (gamma - 1) * q ** (gamma - 2) * p * ce)
        return q**gamma * ce, slope, curvature

    def weights(self, ce: Tensor, labels: Tensor, n_classes: int) -> Tensor:
        """1/N, or q^gamma / N when detached."""
        weights = super().weights(ce, labels, n_classes)
        return (-torch.expm1(-ce)) ** self.gamma * weights if self.detach else weights
