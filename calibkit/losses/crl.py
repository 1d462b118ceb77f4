r"""Correctness ranking loss (CRL): samples that were right more often in training should be more confident.

.. math:: \mathcal L = -\log p_y + \frac{\lambda}{N} \sum_i \max\big(0,\; |c_i - c_j|
   - \operatorname{sign}(c_i - c_j)\,(\kappa_i - \kappa_j)\big), \qquad j = i + 1

with :math:`\kappa` the top confidence and c the share of past epochs in which a sample was right, over the batch's
neighbours (the last sample's neighbour is the first).
"""

from __future__ import annotations

import torch
from torch import Tensor

from calibkit._checks import check_int, expected
from calibkit.losses._base import PenalisedLoss, as_rows, check_integers, check_values, cross_entropy, mean


class CRL(PenalisedLoss):
    r"""Cross-entropy + ``weight`` * ranking loss; remembers how often each training sample was right.

    ``loss(logits, labels, index)`` and ``loss.penalty(logits, labels, index)`` take the samples' positions in the
    training set; after each step the training loop calls `update`, after each epoch `end_epoch`. The history is in
    buffers, so ``state_dict`` holds it and ``to`` moves it. In the first epoch the penalty is 0.
    Counts enter as :math:`c = (\text{count} - \min) / (\max - \min)`, with the minimum over the whole history and the
    number of finished epochs (at least 1) as maximum.

    Where the penalty of a pair is active, its gradient in :math:`z_j` of the sample that should be less confident is
    :math:`p_{\hat y} (\mathbb 1[j = \hat y] - p_j)` (ACLS supplement eq. 19), and minus that in the other sample.

    Args:
        n_samples: size of the training set.
        weight: :math:`\lambda`. 1.0 in the authors' code.
        ignore_index: label of rows that do not count; a pair counts if both its rows do.

    Attributes:
        counts: (n_samples,) int64, how often each sample was right.
        epochs: int64, how many epochs have ended.

    Paper: Moon et al. 2020, "Confidence-Aware Learning for Deep Neural Networks".
    Differs from the paper: not at all, and as in the code confidence is the top probability (the paper also tries
    margin and entropy). Where every sample has been right in every epoch the code divides 0 by 0; here nothing is
    ranked then. ACLS supplement eq. 18 leaves out :math:`|c_i - c_j|` and 1/N.

    Example:
        >>> loss = CRL(n_samples=3)
        >>> logits, labels = torch.tensor([[2.0, 0.0], [0.5, 0.0], [0.0, 1.0]]), torch.tensor([0, 1, 1])
        >>> index = torch.tensor([0, 1, 2])
        >>> loss.penalty(logits, labels, index)
        tensor(0.)
        >>> loss.update(index, logits.argmax(1) == labels)
        >>> loss.end_epoch()
        >>> loss.counts, loss.penalty(logits, labels, index)
        (tensor([1, 0, 1]), tensor(0.5444))
    """

    uses_index = True

    def __init__(self, *, n_samples: int, weight: float = 1.0, ignore_index: int = -100) -> None:
        super().__init__(weight, ignore_index)
        self.n_samples = check_int("n_samples", n_samples, 1)
        self.register_buffer("counts", torch.zeros(n_samples, dtype=torch.int64))
        self.register_buffer("epochs", torch.zeros((), dtype=torch.int64))

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        """The loss; ``index`` has the shape of ``labels`` and is in [0, n_samples)."""
        z, y, keep = as_rows(logits, labels, self.ignore_index)
        return mean(cross_entropy(z, y), keep) + self.weight * self._ranking(z, keep, self._check(index, labels))

    def penalty(self, logits: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        """The ranking loss alone, not multiplied by ``weight``: a scalar."""
        z, _, keep = as_rows(logits, labels, self.ignore_index)
        return self._ranking(z, keep, self._check(index, labels))

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

    def _ranking(self, z: Tensor, keep: Tensor, index: Tensor) -> Tensor:
        confidence = torch.softmax(z, 1).max(1).values
        fewest = self.counts.min()
        c = (self.counts[index] - fewest).to(z.dtype) / (self.epochs.clamp(min=1) - fewest).clamp(min=1)
        ahead = c - c.roll(-1)
        pairs = torch.relu(ahead.abs() - ahead.sign() * (confidence - confidence.roll(-1)))
        return mean(pairs, keep * keep.roll(-1))
