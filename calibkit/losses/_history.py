"""What the losses that rank samples share: how often each training sample was right, and who ranks against whom."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from calibkit._checks import check_int, expected
from calibkit.losses._base import PenalisedLoss, check_integers, check_values

#: Which samples a loss acts on: those beyond a margin, or those out of rank with their neighbour.
Indicator = Literal["margin", "ranking"]


class RankedLoss(PenalisedLoss):
    """A penalised loss with a history in buffers, so ``state_dict`` holds it and ``to`` moves it.

    After each step the training loop calls `update`, after each epoch `end_epoch`. A sample is ranked against the next
    one of its batch, the last against the first.
    """

    def _remember(self, n_samples: int) -> None:
        """Start the history of a training set of ``n_samples``."""
        self.n_samples = check_int("n_samples", n_samples, 1)
        self.register_buffer("counts", torch.zeros(n_samples, dtype=torch.int64))
        self.register_buffer("epochs", torch.zeros((), dtype=torch.int64))

    @torch.no_grad()
    def update(self, index: Tensor, correct: Tensor) -> None:
        """Record a step's predictions: ``correct`` (bool) of the samples ``index``; call it after the loss was taken.

        In distributed training each process records what all of them predicted (gather both arguments first).
        """
        if not isinstance(correct, Tensor) or correct.dtype != torch.bool:
            raise expected("correct", "a boolean tensor", getattr(correct, "dtype", type(correct).__name__))
        self.counts.index_add_(0, self._check(index, correct), correct.reshape(-1).long())

    def end_epoch(self) -> None:
        """Count an epoch as finished."""
        self.epochs += 1

    def _check(self, index: Tensor, labels: Tensor) -> Tensor:
        flat = check_integers("index", index, labels.shape, self.counts.device)
        check_values("index", flat, self.n_samples)
        return flat

    def _ahead(self, index: Tensor, dtype: torch.dtype) -> Tensor:
        """c_i - c_j of each sample and the next, with c = (count - min) / (max - min): (M,)."""
        fewest = self.counts.min()
        c = (self.counts[index] - fewest).to(dtype) / (self.epochs.clamp(min=1) - fewest).clamp(min=1)
        return c - c.roll(-1)


def confidence_ahead(z: Tensor) -> Tensor:
    """kappa_i - kappa_j of each sample and the next, with kappa the top probability: (M, K) -> (M,)."""
    confidence = torch.softmax(z, 1).max(1).values
    return confidence - confidence.roll(-1)
