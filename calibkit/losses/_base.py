"""What the train-time losses share: the border, the mean over the rows that count, cross-entropy plus a penalty; and of
those that rank samples how often each was right, and who ranks against whom.

A loss runs in every training step, so its border reads shapes, dtypes and devices, which costs nothing. Label values
are read on the CPU only: reading them on a GPU would stall it at each step, and there a label outside [0, K) trips the
device's own index assertion, as in ``torch.nn.CrossEntropyLoss``. Logit values are never read: a diverged network
gives a NaN loss, which the training loop sees.
"""

from __future__ import annotations

import inspect
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from calibkit._checks import check_int, check_label, check_real, expected

#: Where paper and public code disagree: whose form of a loss.
Variant = Literal["paper", "code"]
#: Which samples a loss acts on: those beyond a margin, or those out of rank with their neighbour.
Indicator = Literal["margin", "ranking"]


def check_values(name: str, values: Tensor, n: int, *, ignored: Tensor | None = None, or_else: str = "") -> None:
    """Raise unless all of ``values`` but the ``ignored`` are in [0, n); reads values on the CPU only."""
    if values.device.type != "cpu" or torch.compiler.is_compiling():
        return
    wrong = (values < 0) | (values >= n)
    if ignored is not None:
        wrong &= ~ignored
    try:
        found = bool(wrong.any())
    except RuntimeError:  # within torch.func.vmap, which lets nobody read a value
        return
    if found:
        raise expected(name, f"in [0, {n}){or_else}", int(values[wrong][0]))


def check_dense(name: str, values: Tensor) -> None:
    """Raise of a tensor that is sparse or nested."""
    if values.layout != torch.strided or values.is_nested:
        raise expected(name, "a dense tensor", f"one of layout {values.layout}{' that is nested' * values.is_nested}")


def check_integers(name: str, values: object, shape: torch.Size, device: torch.device) -> Tensor:
    """``values`` flat and int64, if they are an integer tensor of ``shape`` on ``device``."""
    if not isinstance(values, Tensor):
        raise expected(name, "a torch tensor", type(values).__name__)
    check_dense(name, values)
    if values.is_floating_point() or values.is_complex() or values.dtype == torch.bool:
        raise expected(name, "integers", f"dtype {values.dtype}")
    if values.shape != shape:
        raise expected(name, f"of shape {tuple(shape)}", f"shape {tuple(values.shape)}")
    if values.device != device:
        raise expected(name, f"on {device}", f"{values.device}")
    return values.reshape(-1).long()


def as_rows(logits: Tensor, labels: Tensor, ignore_index: int) -> tuple[Tensor, Tensor, Tensor]:
    """Logits (N, K, *) and labels (N, *) as rows: z (M, K), y (M,) and keep (M,).

    z is float32, or float64 as given; keep is 1 for rows that count and 0 for ignored ones, whose z and y are set to 0.
    """
    if not isinstance(logits, Tensor):
        raise expected("logits", "a torch tensor", type(logits).__name__)
    check_dense("logits", logits)
    if not logits.is_floating_point():
        raise expected("logits", "floating point", f"dtype {logits.dtype}")
    if logits.ndim < 2 or logits.shape[1] < 2 or logits.numel() == 0:
        raise expected("logits", "of shape (N, K, *) with N >= 1 and K >= 2", f"shape {tuple(logits.shape)}")
    n_classes = logits.shape[1]
    if isinstance(labels, Tensor) and labels.shape == logits.shape:  # one-hot, or mixed
        cure = "one-hot rows become integers by argmax(1), and the loss of mixed labels is a weighted mean of two"
        raise expected("labels", "integers, one a row", f"a number for each of {n_classes} classes; {cure}")
    y = check_integers("labels", labels, logits.shape[:1] + logits.shape[2:], logits.device)
    ignored = y == ignore_index
    check_values("labels", y, n_classes, ignored=ignored, or_else=f" or {ignore_index}")
    z = logits.movedim(1, -1).reshape(-1, n_classes)
    z = z if z.dtype == torch.float64 else z.float()
    z = z.masked_fill(ignored[:, None], 0.0)  # the loss of a row that does not count is finite, or 0 times it is NaN
    return z, y.masked_fill(ignored, 0), (~ignored).to(z.dtype)


def mean(values: Tensor, keep: Tensor) -> Tensor:
    """Mean of ``values`` (M,) over the rows that count; 0 if there is none."""
    return (values * keep).sum() / keep.sum().clamp(min=1)


def cross_entropy(z: Tensor, y: Tensor) -> Tensor:
    """-log p_y of each row: (M, K), (M,) -> (M,)."""
    return F.cross_entropy(z, y, reduction="none")


def residuals(z: Tensor, y: Tensor) -> Tensor:
    """Probabilities less the one-hot labels: (M, K), (M,) -> (M, K); torch's own ``one_hot`` refuses ``vmap``."""
    return torch.softmax(z, 1) - (torch.arange(z.shape[1], device=z.device) == y[:, None]).to(z.dtype)


class Loss(nn.Module):
    """Base of all losses: ``loss(logits, labels) -> scalar``, the mean over rows whose label is not ``ignore_index``.

    A subclass implements ``_each`` on rows: z (M, K), y (M,) -> (M,).
    Half-precision logits are computed in float32, so the losses are safe under autocast.
    """

    #: Whether ``forward`` also takes the samples' positions in the training set.
    uses_index: ClassVar[bool] = False

    def __init__(self, *, ignore_index: int = -100) -> None:
        super().__init__()
        self.ignore_index = check_label("ignore_index", ignore_index)

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The loss.

        Args:
            logits: (N, K) or, for dense prediction, (N, K, *); before softmax.
            labels: (N,) or (N, *) integers in [0, K), or ``ignore_index``.

        A scalar in float32, or in float64 if the logits are; 0 if every label is ignored. ValueError tells of a wrong
        type, shape, dtype or device; on the CPU also of a label that is out of range.
        """
        z, y, keep = as_rows(logits, labels, self.ignore_index)
        return mean(self._each(z, y), keep)

    def _each(self, z: Tensor, y: Tensor) -> Tensor:
        raise NotImplementedError

    def extra_repr(self) -> str:
        """Constructor arguments and their values."""
        names = inspect.signature(type(self)).parameters
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in names if hasattr(self, name))


class PenalisedLoss(Loss):
    """Cross-entropy plus ``weight`` times a penalty; a subclass implements ``_penalty`` on rows, giving a scalar.

    A loss with two weights (CPC, ACLS) carries them inside its penalty and leaves ``weight`` at 1.
    """

    def __init__(self, *, weight: float = 1.0, ignore_index: int = -100) -> None:
        super().__init__(ignore_index=ignore_index)
        self.weight = check_real("weight", weight, 0.0)

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The loss, cross-entropy plus ``weight * penalty``; arguments and errors as in `Loss.forward`."""
        z, y, keep = as_rows(logits, labels, self.ignore_index)
        return mean(cross_entropy(z, y), keep) + self.weight * self._penalty(z, y, keep)

    def penalty(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The penalty alone, not multiplied by ``weight``: a scalar."""
        return self._penalty(*as_rows(logits, labels, self.ignore_index))

    def _penalty(self, z: Tensor, y: Tensor, keep: Tensor) -> Tensor:
        raise NotImplementedError


class RankedLoss(PenalisedLoss):
    """A penalised loss with a history in buffers, by which it ranks each sample of a batch and the next: see `CRL`.

    Where it ``uses_index``, it is called with the samples' positions. A subclass implements
    ``_ranked(z, keep, index)``.
    """

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor | None = None) -> Tensor:
        """The loss; ``index`` has the shape of ``labels`` and is in [0, n_samples)."""
        z, y, keep = as_rows(logits, labels, self.ignore_index)
        return mean(cross_entropy(z, y), keep) + self.weight * self._ranked(z, keep, self._check(index, labels))

    def penalty(self, logits: Tensor, labels: Tensor, index: Tensor | None = None) -> Tensor:
        """The penalty alone, not multiplied by ``weight``, while those of `ACLS` are in it: a scalar."""
        z, _, keep = as_rows(logits, labels, self.ignore_index)
        return self._ranked(z, keep, self._check(index, labels))

    def _ranked(self, z: Tensor, keep: Tensor, index: Tensor | None) -> Tensor:
        raise NotImplementedError

    def _remember(self, n_samples: int) -> None:
        """Start the history of a training set of ``n_samples``."""
        self.n_samples = check_int("n_samples", n_samples, 1)
        self.register_buffer("counts", torch.zeros(n_samples, dtype=torch.int64))
        self.register_buffer("epochs", torch.zeros((), dtype=torch.int64))

    def forget(self) -> None:
        """Start anew, as for another training."""
        self.counts.zero_()
        self.epochs.zero_()

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

    def _check(self, index: Tensor | None, labels: Tensor) -> Tensor | None:
        if not self.uses_index:
            return None
        if index is None:
            raise expected("index", "the samples' positions, as in loss(logits, labels, index)", "None")
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
