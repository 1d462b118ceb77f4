"""One sample whose logits are free: what a loss wants of it, with no network in between."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import torch
from torch import Tensor

from book.kit.notebook.gradients import gradient

Loss = Callable[[Tensor, Tensor], Tensor]


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

    Args:
        loss: from logits and labels of one sample to a scalar.
        distances: (N,) of the winner to all others.
        n_classes: K.

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
    """Where 1,000 steps of an optimiser (Adam, its rate falling from 0.5 by five powers of ten) take random logits.

    Returns:
        Tensor: (4, K - 1) distances of the true class, 0, to each other one.
    """
    n_starts, n_steps = 4, 1000
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
    """Gradient descent on the logits, from a lead of 1 of the true class, without momentum.

    Returns:
        np.ndarray: (n_steps, 2) distance of the true logit to the next one, and mean of the logits, after each step.
    """
    z, y = at_distance(torch.ones(1), n_classes)
    path = np.empty((n_steps, 2))
    for step in range(n_steps):
        z = z - rate * gradient(loss, z, y)
        path[step] = float(z[0, 0] - z[0, 1]), float(z.mean())
    return path
