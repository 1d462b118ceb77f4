"""Metrics that are summed over batches, with the torchmetrics API and constant memory.

The state is what the metric is made of: a number or two, 3 sums a bin, or K sums a bin for the class-wise error. So it
does not grow with the data (a torchmetrics ECE keeps 8 bytes a sample), adds up across processes (``dist_reduce_fx=
"sum"``, no gather), and gives the value of the function on all the data at once, up to the order of float64 sums.

Only metrics of fixed bins are here: equal-mass bins, ``smooth_ece`` and ``ks_error`` need all confidences at once.
This module needs torchmetrics (``pip install ".[streaming]"``); ``calibkit.metrics`` does not.

Example:
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

from calibkit._checks import check_bins, check_choice, check_count, check_label, expected
from calibkit._extras import ensure_torchvision_importable, needs
from calibkit.metrics.classwise import Normalize, classwise_of
from calibkit.metrics.registry import METRICS
from calibkit.metrics.sample import Sample

ensure_torchvision_importable()  # torchmetrics imports torchvision if it finds one

with needs("streaming"):
    from torchmetrics import Metric

#: The metrics that have sums.
SUMMED = tuple(name for name, metric in METRICS.items() if metric.sums is not None)


class StreamingMetric(Metric):
    """A metric that has sums, by its name: ``update(probs, labels)`` any number of times, then ``compute()``.

    Shapes: ``probs`` is ``(N, K, *)`` and ``labels`` ``(N, *)``, so a segmentation network's pixels are samples.

    Args:
        name: of a metric of ``METRICS`` that has sums over rows; the classes below are those of one name each.
        n_bins: number of bins, where there are any.
        num_classes: the number of classes, where there are sums for each.
        ignore_index: label of samples that are left out; None for none.
        **kwargs: of ``torchmetrics.Metric``.

    Raises:
        ValueError: on ``update``, bad probabilities or labels.

    Example:
        >>> metric = StreamingMetric("accuracy")
        >>> metric.update(torch.tensor([[0.9, 0.1], [0.8, 0.2]]), torch.tensor([0, 1]))
        >>> metric.compute().item()
        0.5
    """

    full_state_update = False
    is_differentiable = False

    def __init__(
        self, name: str, n_bins: int = 15, *, num_classes: int = 2, ignore_index: int | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.metric_name = check_choice("name", name, SUMMED)
        self.n_bins, self.num_classes = check_bins(n_bins), check_count("num_classes", num_classes, 2, 1 << 20)
        self.ignore_index = None if ignore_index is None else check_label("ignore_index", ignore_index)
        # A MetricCollection lets metrics share their states where names and, after the first batch, values agree.
        # Values agree by chance too: on a sure and right batch NLL, Brier score and entropy are all 0. So the names say
        # what the sums are of: of the first metric that has them, and of which rows.
        sums = METRICS[name].sums
        first = next(other for other in SUMMED if METRICS[other].sums is sums)
        row = Sample.of(torch.full((1, self.num_classes), 1.0 / self.num_classes), torch.zeros(1, dtype=torch.int64))
        self.states = []
        for i, of_row in enumerate(sums(row, self.n_bins)):
            self.states.append(f"{first}_{i}_ignoring_{'nothing' if ignore_index is None else self.ignore_index}")
            self.add_state(self.states[-1], torch.zeros_like(of_row, dtype=torch.float64), dist_reduce_fx="sum")

    @property
    def higher_is_better(self) -> bool:
        """As an accuracy is."""
        return METRICS[self.metric_name].higher_is_better

    def update(self, probs: Tensor, labels: Tensor) -> None:
        """Add a batch; a bad one raises before anything of it is counted."""
        found = [METRICS[self.metric_name].sums(sample, self.n_bins) for sample in self._samples(probs, labels)]
        if any(x.shape != y.shape for sums in found for x, y in zip(sums, self.sums, strict=True)):
            raise expected("num_classes", f"{max((2, *probs.shape[1:2]))}, those of `probs`", self.num_classes)
        for sums in found:
            for state, of_batch in zip(self.states, sums, strict=True):
                # Not in place: it may have been reset in ``torch.inference_mode``.
                setattr(self, state, getattr(self, state) + of_batch)

    def compute(self) -> Tensor:
        """The value on all batches so far, float64."""
        return METRICS[self.metric_name].of_sums(*self.sums)

    @property
    def sums(self) -> list[Tensor]:
        """Those of all batches so far."""
        return [getattr(self, state) for state in self.states]

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
                yield Sample.of(p, y)


def _rows(probs: Tensor, labels: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """(rows, K) and (rows,) views: of the whole batch, or of each image, whose pixels are not copied."""
    for name, x in (("probs", probs), ("labels", labels)):
        if not isinstance(x, Tensor):
            raise expected(name, "a torch tensor", type(x).__name__)
    if probs.ndim < 1 or labels.shape != probs.shape[:1] + probs.shape[2:]:
        raise expected("labels", "of the shape of `probs` without its class axis", f"shape {tuple(labels.shape)}")
    if probs.ndim <= 2:
        yield probs, labels
    else:
        for p, y in zip(probs, labels, strict=True):
            yield p.flatten(1).t(), y.flatten()


class Accuracy(StreamingMetric):
    """Streaming ``accuracy``; the arguments are ``ignore_index`` and those of ``torchmetrics.Metric``."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__("accuracy", **kwargs)


class NLL(StreamingMetric):
    """Streaming ``nll``; the arguments are those of ``Accuracy``."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__("nll", **kwargs)


class Brier(StreamingMetric):
    """Streaming ``brier``; the arguments are those of ``Accuracy``."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__("brier", **kwargs)


class Entropy(StreamingMetric):
    """Streaming ``entropy``; the arguments are those of ``Accuracy``."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__("entropy", **kwargs)


class ECE(StreamingMetric):
    """Streaming ``ece``: 3 sums a bin; the arguments are ``n_bins`` and those of ``Accuracy``."""

    def __init__(self, n_bins: int = 15, **kwargs: Any) -> None:
        super().__init__("ece", n_bins, **kwargs)


class MCE(StreamingMetric):
    """Streaming ``mce``: 3 sums a bin; the arguments are those of ``ECE``."""

    def __init__(self, n_bins: int = 15, **kwargs: Any) -> None:
        super().__init__("mce", n_bins, **kwargs)


class DebiasedECE(StreamingMetric):
    """Streaming ``debiased_ece``: 3 sums a bin; the arguments are those of ``ECE``."""

    def __init__(self, n_bins: int = 15, **kwargs: Any) -> None:
        super().__init__("debiased_ece", n_bins, **kwargs)


class ClasswiseECE(StreamingMetric):
    """Streaming ``classwise_ece``: K sums a bin and K counts.

    Args:
        num_classes: the number of classes.
        n_bins: number of bins.
        normalize: ``"n"`` or ``"class_count"``, as in ``classwise_ece``.
        **kwargs: those of ``Accuracy``.
    """

    def __init__(self, num_classes: int, n_bins: int = 15, normalize: Normalize = "n", **kwargs: Any) -> None:
        super().__init__("classwise_ece", n_bins, num_classes=num_classes, **kwargs)
        self.normalize = check_choice("normalize", normalize, get_args(Normalize))

    def compute(self) -> Tensor:
        """The value on all batches so far, float64."""
        return classwise_of(*self.sums, self.normalize)
