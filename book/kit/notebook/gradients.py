"""Gradients of losses in the logits, sample by sample, and whether a printed formula is one."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from calibkit.losses import CRL, MDCA, CrossEntropy

Loss = Callable[..., Tensor]


def gradient(loss: Loss, logits: Tensor, labels: Tensor, *index: Tensor) -> Tensor:
    """Gradient (N, K) of a batch-mean loss in each sample's logits, times N.

    Args:
        loss: from logits, labels and, where it keeps a history, the samples' numbers, to a scalar.
        logits: (N, K).
        labels: (N,).
        index: (N,) numbers of the samples, for a loss with a history.

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
    """How a printed formula stands to what automatic differentiation gives.

    Attributes:
        stands: whether they are equal, or one a positive multiple of the other.
        difference: the largest, without sign.
        verdict: "equal"; "2 times"; "opposite sign"; "not zero", of a printed zero; "ratio from 0.5 to 2".
    """

    stands: bool
    difference: float
    verdict: str


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
