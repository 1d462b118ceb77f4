"""What every metric starts from, checked predictions; and a metric as one record, with the facts that others read."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from calibkit._checks import Array, check_labels, expected, scan_probs, to_array, to_tensor


@dataclass(frozen=True)
class Sample:
    """Checked predictions; a metric takes one in place of ``probs`` (with ``labels=None``) and checks nothing again.

    Attributes:
        probs: (N, K) float32 or float64, in [0, 1].
        labels: (N,) int64.
        confidence: (N,) largest probability of each row.
        correct: (N,) bool, whether the first class of largest probability is the label.
    """

    probs: Tensor
    labels: Tensor
    confidence: Tensor
    correct: Tensor

    @classmethod
    def of(cls, probs: Array | Sample, labels: Array | None, name: str = "probs") -> Sample:
        """Check ``probs`` and ``labels``; a ``Sample``, which has its own labels, is returned as it is."""
        if isinstance(probs, Sample):
            if labels is not None:
                raise expected("labels", "None beside a Sample, which has its own", type(labels).__name__)
            return probs
        p, confidence = scan_probs(probs, name)
        y = check_labels(labels, *p.shape, p.device)
        if confidence.max() > 1.0:  # by the tolerance of the sums
            p, confidence = p.clamp(max=1.0), confidence.clamp(max=1.0)
        return cls(p, y, confidence, is_argmax(p, y, confidence))

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def gap(self) -> Tensor:
        """(N,) confidence - correct, float64."""
        return self.confidence.double() - self.correct.double()

    @property
    def label_probs(self) -> Tensor:
        """(N,) probability of the label."""
        return own_probs(self.probs, self.labels)


def own_probs(probs: Tensor, labels: Tensor) -> Tensor:
    """(N,) probability of each of the labels (N,), of (N, K)."""
    return probs.gather(1, labels[:, None])[:, 0]


def is_argmax(probs: Tensor, labels: Tensor, row_max: Tensor) -> Tensor:
    """``probs.argmax(1) == labels`` from the row maxima, which cost far less than an argmax.

    A label of largest probability is the argmax unless a lower class ties with it, for which its row must have room:
    only rows with a maximum up to 1/2 are looked at again, without the label, and only real ties get an argmax.
    """
    correct = probs.gather(1, labels[:, None])[:, 0] == row_max
    for rows in (correct & (row_max <= 0.51)).nonzero()[:, 0].split(1024):
        others = probs.index_select(0, rows).scatter_(1, labels[rows][:, None], -1.0)
        tied = others.amax(1) == row_max[rows]
        if tied.any():
            ties = rows[tied]
            correct[ties] = probs[ties].argmax(1) == labels[ties]
    return correct


def check_groups(groups: object, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """The distinct groups of (N,) rows, integers or strings, sorted; and the number (N,) of the group of each row.

    Example:
        >>> names, number = check_groups(["north", "south", "north"], 3)
        >>> names.tolist(), number.tolist()
        (['north', 'south'], [0, 1, 0])
    """
    if isinstance(groups, Tensor):
        x = to_tensor("groups", groups)
        groups = x.tolist() if x.is_floating_point() else x.cpu().numpy()
    whole = isinstance(groups, np.ndarray) and groups.dtype.kind in "iu"  # may be many, as the pixels of images are
    array = to_array("groups", groups, "integers or strings", None if whole else object)
    if array.shape not in ((n_rows,), (n_rows, 1)) or np.ma.is_masked(groups):
        got = "masked entries" if np.ma.is_masked(groups) else f"shape {array.shape}"
        raise expected("groups", f"one for each of the {n_rows} rows", got)
    if whole:
        return np.unique(array.reshape(-1), return_inverse=True)
    names = [name.item() if isinstance(name, np.generic | Tensor) else name for name in array.reshape(-1).tolist()]
    kinds = {type(name) for name in names}
    if kinds not in ({int}, {str}):
        raise expected("groups", "integers or strings", " and ".join(sorted(kind.__name__ for kind in kinds)))
    return np.unique(names, return_inverse=True)


#: From numbers of each row (R, N), in each of R resamples, to the metric of each resample (R,).
Statistic = Callable[[Tensor], Tensor]
#: What does not depend on the resample (sorting, binning) is done once, for a sample and a number of bins.
Prepare = Callable[[Sample, int], Statistic]


@dataclass(frozen=True)
class Metric:
    """A metric of ``METRICS``. Called, it is its function."""

    #: ``f(probs, labels, *, n_bins=15) -> float``, or without ``n_bins``; its name is that of the metric.
    function: Callable[..., float]
    of_weights: Prepare | None = None  #: the metric by how often each row is drawn; without it rows are copied
    #: A calibration error as a function of the gaps, confidence - correct, of other outcomes in the bins of the sample:
    #: what a calibrated network scores follows. None where that is not known.
    of_gaps: Prepare | None = None
    sums: Callable[[Sample, int], tuple[Tensor, ...]] | None = None  #: over rows, which add up over batches
    of_sums: Callable[..., Tensor] | None = None  #: the metric from these sums
    of_labels: Prepare | None = None  #: what ``of_gaps`` is, of an error of every class, by other labels (R, N)
    unit: Literal["share", "nats"] = "share"  #: a share is shown in percent
    most: float | None = 1.0  #: the largest value; None for the logarithm of the number of classes. The least is 0
    higher_is_better: bool = False
    mean: bool = False  #: whether it is a mean over rows, which noise makes neither larger nor smaller
    slow: bool = False  #: whether its intervals take minutes at 100 classes, so that reports leave it out

    def __call__(self, *args: Any, **options: Any) -> float:
        """The value of its function."""
        return self.function(*args, **options)

    @property
    def name(self) -> str:
        """The key in ``METRICS``."""
        return self.function.__name__

    @cached_property
    def binned(self) -> bool:
        """Whether the number of bins is an argument."""
        return "n_bins" in inspect.signature(self.function).parameters

    @property
    def is_error(self) -> bool:
        """Whether it is known to be a calibration error: one of noise is 0 at best."""
        return self.of_weights is not None and not self.mean

    def value(self, sample: Sample, n_bins: int) -> float:
        """The metric of a checked sample."""
        return self._with(n_bins)(sample, None)

    def statistic(self, sample: Sample, n_bins: int) -> Statistic:
        """The metric as a function of weights, by its formula or else by copies of the rows."""
        return on_copies(sample, self._with(n_bins)) if self.of_weights is None else self.of_weights(sample, n_bins)

    def _with(self, n_bins: int) -> Callable[..., float]:
        return partial(self.function, n_bins=n_bins) if self.binned else self.function


def row_mean(function: Callable[..., float], of_rows: Callable[[Sample], Tensor], **facts: Any) -> Metric:
    """The record of the mean of ``of_rows(sample)``, (N,) float64; ``facts`` are those of ``Metric``."""

    def of_weights(sample: Sample, n_bins: int) -> Statistic:
        values = of_rows(sample)
        infinite = values.isinf()
        finite = values.masked_fill(infinite, 0.0)  # 0 draws of an infinite value are 0, not NaN

        def statistic(weights: Tensor) -> Tensor:
            return torch.where(weights[:, infinite].sum(1) > 0, torch.inf, weights @ finite / weights.sum(1))

        return statistic

    def sums(sample: Sample, n_bins: int) -> tuple[Tensor, Tensor]:
        values = of_rows(sample)
        return values.sum(), values.new_tensor(len(values))

    return Metric(function, of_weights, sums=sums, of_sums=torch.div, mean=True, **facts)


def as_number(value: Any) -> float:
    """What an own metric gave; ValueError of what is not one number."""
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError):  # the last of a tensor of many
        raise expected("metrics", "functions that give one number", f"one that gives {value!r}") from None


def on_copies(sample: Sample, metric: Callable[[Tensor, Tensor], float]) -> Statistic:
    """A function of probabilities and labels as one of weights: each row is copied as often as it is drawn."""

    def statistic(weights: Tensor) -> Tensor:
        rows = map(torch.repeat_interleave, weights.long())
        values = [as_number(metric(sample.probs[i], sample.labels[i])) for i in rows]
        return weights.new_tensor(values, dtype=torch.float64)

    return statistic
