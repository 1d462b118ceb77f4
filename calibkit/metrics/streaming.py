"""Metrics that are summed over batches, with the torchmetrics API and constant memory.

The state is what the metric is made of: a number or two, 3 sums a bin, or K sums a bin for the class-wise error. So it
does not grow with the data (a torchmetrics ECE keeps 8 bytes a sample), adds up across processes (``dist_reduce_fx=
"sum"``, no gather), and gives the value of the function on all the data at once, up to the order of float64 sums.

Only metrics of fixed bins are here: equal-mass bins, ``smooth_ece`` and ``ks_error`` need all confidences at once.
This module needs torchmetrics (``pip install ".[streaming]"``); ``calibkit.metrics`` does not.

Example:
    >>> import torch
    >>> metric = ECE()
    >>> metric.update(torch.tensor([[0.9, 0.1], [0.9, 0.1]]), torch.tensor([0, 1]))
    >>> metric.update(torch.tensor([[0.4, 0.6]]), torch.tensor([1]))
    >>> round(metric.compute().item(), 4)
    0.4
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import torch
from torch import Tensor

from calibkit._checks import check_bins, check_choice, check_int, check_label, expected
from calibkit._extras import needs
from calibkit._torchvision import ensure_importable
from calibkit.metrics import calibration, classwise, proper
from calibkit.metrics.sample import Sample

ensure_importable()  # torchmetrics imports torchvision if it finds one

with needs("streaming"):
    from torchmetrics import Metric


class StreamingMetric(Metric):
    """Base of the streaming metrics: ``update(probs, labels)`` any number of times, then ``compute()``.

    Shapes: ``probs`` is ``(N, K, *)`` and ``labels`` ``(N, *)``, so a segmentation network's pixels are samples.

    Args:
        ignore_index: label of samples that are left out; None for none.
        **kwargs: of ``torchmetrics.Metric``.

    Raises:
        ValueError: on ``update``, bad probabilities or labels.
    """

    full_state_update = False
    is_differentiable = False
    higher_is_better = False

    def __init__(self, *, ignore_index: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.ignore_index = None if ignore_index is None else check_label("ignore_index", ignore_index)

    def add_sums(self, kind: str, **shapes: tuple[int, ...]) -> None:
        """States of float64 zeros that are summed over processes, and an empty one whose name says what they are of.

        A ``MetricCollection`` lets metrics share their states where names and, after the first batch, values agree.
        Values agree by chance too: on a sure and right batch NLL, Brier score and entropy are all 0.
        """
        ignored = "nothing" if self.ignore_index is None else self.ignore_index
        for name, shape in {**shapes, f"{kind}_ignoring_{ignored}": (0,)}.items():
            self.add_state(name, torch.zeros(shape, dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, probs: Tensor, labels: Tensor) -> None:
        """Add a batch; a bad one raises before anything of it is counted."""
        for sample in list(self._samples(probs, labels)):
            self.add(sample)

    def forward(self, probs: Tensor, labels: Tensor) -> Tensor:
        """Add a batch, and give the value on it alone; a bad one leaves the metric as it was."""
        before = self.__dict__.copy()
        state = self._copy_state_dict()
        try:
            return super().forward(probs, labels)
        except Exception:
            self.__dict__.update({**before, **state})
            raise

    def _samples(self, probs: Tensor, labels: Tensor) -> Iterator[Sample]:
        for p, y in _rows(probs, labels):
            if self.ignore_index is not None:
                kept = y.long() != self.ignore_index  # as uint8, -100 would be 156
                if not kept.all():
                    p, y = p[kept], y[kept]
            if len(y):
                yield self.check(Sample.of(p, y))

    def check(self, sample: Sample) -> Sample:
        """The sample, if it fits the metric."""
        return sample

    def add(self, sample: Sample) -> None:
        """Add checked samples to the state, not in place: it may have been reset in ``torch.inference_mode``."""
        raise NotImplementedError


def _rows(probs: Tensor, labels: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """(rows, K) and (rows,) views: of the whole batch, or of each image, whose pixels are not copied."""
    for name, x in (("probs", probs), ("labels", labels)):
        if not isinstance(x, Tensor):
            raise expected(name, "a torch tensor", type(x).__name__)
    if probs.ndim < 2 or labels.shape != probs.shape[:1] + probs.shape[2:]:
        raise expected("labels", "of the shape of `probs` without its class axis", f"shape {tuple(labels.shape)}")
    if probs.ndim == 2:
        yield probs, labels
    else:
        for p, y in zip(probs, labels, strict=True):
            yield p.flatten(1).t(), y.flatten()


class _Mean(StreamingMetric):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.add_sums(type(self).__name__, total=(), count=())

    def add(self, sample: Sample) -> None:
        self.total = self.total + self.of_rows(sample).sum()
        self.count = self.count + len(sample)

    def of_rows(self, sample: Sample) -> Tensor:
        raise NotImplementedError

    def compute(self) -> Tensor:
        """The value on all batches so far, float64."""
        return self.total / self.count


class Accuracy(_Mean):
    """Streaming ``accuracy``."""

    higher_is_better = True

    def of_rows(self, sample: Sample) -> Tensor:
        """(N,) of each row."""
        return sample.correct.double()


class NLL(_Mean):
    """Streaming ``nll``."""

    def of_rows(self, sample: Sample) -> Tensor:
        """(N,) of each row."""
        return proper.sample_nll(sample)


class Brier(_Mean):
    """Streaming ``brier``."""

    def of_rows(self, sample: Sample) -> Tensor:
        """(N,) of each row."""
        return proper.sample_brier(sample)


class Entropy(_Mean):
    """Streaming ``entropy``."""

    def of_rows(self, sample: Sample) -> Tensor:
        """(N,) of each row."""
        return proper.sample_entropy(sample)


class _TopLabel(StreamingMetric):
    def __init__(self, n_bins: int = 15, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.n_bins = check_bins(n_bins)
        self.add_sums("TopLabel", **dict.fromkeys(("counts", "confidence", "correct"), (self.n_bins,)))

    def add(self, sample: Sample) -> None:
        counts, confidence, correct = calibration.top_label_sums(sample, self.n_bins)
        self.counts = self.counts + counts
        self.confidence = self.confidence + confidence
        self.correct = self.correct + correct


class ECE(_TopLabel):
    """Streaming ``ece``: 3 sums a bin.

    Args:
        n_bins: number of bins.
        **kwargs: ``ignore_index`` and those of ``torchmetrics.Metric``.
    """

    def compute(self) -> Tensor:
        """The value on all batches so far, float64."""
        return (self.confidence - self.correct).abs().sum() / self.counts.sum()


class MCE(_TopLabel):
    """Streaming ``mce``: 3 sums a bin.

    Args:
        n_bins: number of bins.
        **kwargs: ``ignore_index`` and those of ``torchmetrics.Metric``.
    """

    def compute(self) -> Tensor:
        """The value on all batches so far, float64."""
        return calibration.mce_of(self.counts, self.confidence, self.correct)


class DebiasedECE(_TopLabel):
    """Streaming ``debiased_ece``: 3 sums a bin.

    Args:
        n_bins: number of bins.
        **kwargs: ``ignore_index`` and those of ``torchmetrics.Metric``.
    """

    def compute(self) -> Tensor:
        """The value on all batches so far, float64."""
        return calibration.debiased_of(self.counts, self.confidence, self.correct)


class ClasswiseECE(StreamingMetric):
    """Streaming ``classwise_ece``: K sums a bin and K counts.

    Args:
        num_classes: the number of classes.
        n_bins: number of bins.
        normalize: ``"n"`` or ``"class_count"``, as in ``classwise_ece``.
        **kwargs: ``ignore_index`` and those of ``torchmetrics.Metric``.
    """

    def __init__(self, num_classes: int, n_bins: int = 15, normalize: classwise.Normalize = "n", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.num_classes = check_int("num_classes", num_classes, 2)
        self.n_bins = check_bins(n_bins)
        self.normalize = check_choice("normalize", normalize, get_args(classwise.Normalize))
        self.add_sums("Classwise", gaps=(self.num_classes, self.n_bins), class_counts=(self.num_classes,))

    def check(self, sample: Sample) -> Sample:
        """The sample, if it has ``num_classes`` classes."""
        if sample.probs.shape[1] != self.num_classes:
            raise expected("probs", f"of shape (N, {self.num_classes}, *)", f"{sample.probs.shape[1]} classes")
        return sample

    def add(self, sample: Sample) -> None:
        """Add checked samples to the state."""
        self.gaps = self.gaps + classwise.width_gaps(sample, self.n_bins)
        self.class_counts = self.class_counts + classwise.class_counts(sample)

    def compute(self) -> Tensor:
        """The value on all batches so far, float64."""
        return classwise.classwise_of(self.gaps, self.class_counts, self.normalize)
