"""What losses want of logits, with no network in between: gradients, and where one sample goes whose logits are free.

A printed formula of a gradient is held against what automatic differentiation gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from calibkit.losses import CRL, MDCA, CrossEntropy

Loss = Callable[..., Tensor]


def gradient(loss: Loss, logits: Tensor, labels: Tensor, *index: Tensor) -> Tensor:
    """Gradient (N, K) of a batch-mean loss in each sample's logits, times N; ``index`` (N,) are the numbers of the
    samples, for a loss with a history.

    Example:
        >>> gradient(CrossEntropy(), torch.zeros(1, 2), torch.tensor([1]))
        tensor([[ 0.5000, -0.5000]])
    """
    z = logits.detach().clone().requires_grad_()
    return torch.autograd.grad(loss(z, labels, *index), z)[0] * len(z)


def regulariser(loss: Loss, logits: Tensor, labels: Tensor, *index: Tensor) -> Tensor:
    """:func:`gradient` without the part of cross-entropy: what a loss adds to it."""
    return gradient(loss, logits, labels, *index) - gradient(CrossEntropy(), logits, labels)


def beside_a_better_history(logits: Tensor, **options: object) -> Tensor:
    """:func:`regulariser` of CRL in each row, beside an equally confident partner that was right more often.

    Both are of class 0; in the one epoch so far the sample was wrong and its partner right. ``options`` are of ``CRL``.
    """
    rows = []
    for pair in logits.repeat_interleave(2, 0).split(2):
        crl = CRL(n_samples=2, **options)
        crl.counts.copy_(torch.tensor([0, 1]))
        crl.epochs.fill_(1)
        rows.append(regulariser(crl, pair, torch.zeros(2).long(), torch.arange(2))[0])
    return torch.stack(rows)


def among_all_labels(logits: Tensor, **options: object) -> Tensor:
    """:func:`regulariser` of MDCA in each row, of label 0, in a batch of K copies of it with one label of each class.

    ``options`` are of ``MDCA``; its weight is K, so that the mean over the classes is their sum.
    """
    n_classes = logits.shape[1]
    loss, labels = MDCA(weight=n_classes, **options), torch.arange(n_classes)
    return torch.stack([regulariser(loss, row.repeat(n_classes, 1), labels)[0] for row in logits])


class Agreement(NamedTuple):
    """How a printed formula stands to what automatic differentiation gives."""

    stands: bool  # whether they are equal, or one a positive multiple of the other
    difference: float  # the largest, without sign
    verdict: str  # "equal"; "2 times"; "opposite sign"; "not zero", of a printed zero; "ratio from 0.5 to 2"


def agreement(printed: Tensor, computed: Tensor) -> Agreement:
    """Compare a printed formula's values with computed ones of the same shape; a positive factor is harmless.

    Example:
        >>> agreement(torch.tensor([1.0, 2.0]), torch.tensor([2.0, 4.0]))
        Agreement(stands=True, difference=2.0, verdict='2 times')
        >>> agreement(torch.tensor([1.0, 2.0]), torch.tensor([-1.0, -2.0])).verdict
        'opposite sign'
        >>> agreement(torch.zeros(2), torch.ones(2)).verdict
        'not zero'
    """
    difference = float((computed - printed).abs().max())
    live = printed.abs() > 1e-9
    if difference < 1e-9:
        return Agreement(True, difference, "equal")
    if not live.any() or (computed[~live].abs() > 1e-9).any():
        return Agreement(False, difference, "not zero")
    factors = computed[live] / printed[live]
    lowest, highest = float(factors.min()), float(factors.max())
    if highest - lowest >= 1e-6:
        return Agreement(False, difference, f"ratio from {lowest:.2f} to {highest:.2f}")
    if lowest > 0:
        return Agreement(True, difference, f"{float(factors.mean()):.3g} times")
    return Agreement(False, difference, "opposite sign")


def watch_silence(loss: nn.Module, shares: list[float]) -> nn.Module:
    """``loss`` itself, which from now on notes the share of samples without a gradient of its penalty, step by step."""

    def look(module: nn.Module, arguments: tuple, _: Tensor) -> None:
        z = arguments[0].detach().requires_grad_()
        slope = torch.autograd.grad(module.penalty(z, *arguments[1:]), z)[0]
        shares.append(float((slope == 0).all(1).double().mean()))

    loss.register_forward_hook(look)
    return loss


def at_distance(distances: Tensor, n_classes: int) -> tuple[Tensor, Tensor]:
    """Logits (N, K) in float64 whose class 0 is a distance (N,) above all others, and labels 0.

    Example:
        >>> at_distance(torch.tensor([2.0]), 3)
        (tensor([[2., 0., 0.]], dtype=torch.float64), tensor([0]))
    """
    logits = torch.zeros(len(distances), n_classes, dtype=torch.float64)
    logits[:, 0] = distances
    return logits, torch.zeros(len(distances), dtype=torch.long)


def along_distance(loss: Loss, distances: Iterable[float], n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Values (N,) of a loss, or of its penalty, at the logits of :func:`at_distance`, and derivatives in the distance.

    Example:
        >>> from calibkit.losses import MbLS
        >>> values, slopes = along_distance(MbLS(margin=6.0).penalty, [2.0, 8.0], n_classes=10)
        >>> values.round(4), slopes.round(4)
        (array([0. , 1.8]), array([0. , 0.9]))
    """
    d = torch.as_tensor(distances, dtype=torch.float64).requires_grad_()
    values = torch.stack([loss(*at_distance(x[None], n_classes)) for x in d])
    return values.detach().numpy(), torch.autograd.grad(values.sum(), d)[0].numpy()


def descend(loss: Loss, n_classes: int, *, seed: int = 0) -> Tensor:
    """Where 3,000 steps of an optimiser (Adam, its rate falling from 0.5 by five powers of ten) take random logits: of
    four starts the distances (4, K - 1) of the true class, 0, to each other one.
    """
    n_starts, n_steps = 4, 3000
    z = 3 * torch.randn(n_starts, n_classes, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    y = torch.zeros(n_starts, dtype=torch.long)
    optimizer = torch.optim.Adam([z.requires_grad_()], lr=0.5, betas=(0.9, 0.95))
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 1e-5 ** (1 / n_steps))
    for _ in range(n_steps):
        optimizer.zero_grad()
        loss(z, y).backward()
        optimizer.step()
        schedule.step()
    return (z[:, :1] - z[:, 1:]).detach()


def follow(loss: Loss, n_classes: int = 10, *, n_steps: int = 2000, rate: float = 0.5) -> np.ndarray:
    """Gradient descent on the logits, from a lead of 1 of the true class, without momentum: (n_steps, 2) distance of
    the true logit to the next one, and mean of the logits, after each step.
    """
    z, y = at_distance(torch.ones(1), n_classes)
    path = np.empty((n_steps, 2))
    for step in range(n_steps):
        z = z - rate * gradient(loss, z, y)
        path[step] = float(z[0, 0] - z[0, 1]), float(z.mean())
    return path
