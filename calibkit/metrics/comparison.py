"""Which of several methods is better on one test set, and is the difference more than chance?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import torch

from calibkit._checks import (
    Array,
    check_bins,
    check_choice,
    check_draws,
    check_int,
    check_integers,
    expected,
    to_tensor,
)
from calibkit.metrics.intervals import Resampled
from calibkit.metrics.registry import check_names
from calibkit.metrics.resampling import resampled
from calibkit.metrics.sample import Sample, check_groups

if TYPE_CHECKING:
    from calibkit.logits import HeldOut


class Estimate(NamedTuple):
    """A number with its 95% interval. As text it is "value [low, high]", each formatted alike.

    What it decides is a text too, and Python takes any text for true: compare it, ``gain.below() == "holds"``.

    Example:
        >>> gain = Estimate(-0.0125, -0.02, -0.004).percent
        >>> f"{gain:+.2f}", f"{-gain:+.2f}", gain.below(), gain.below(-1.0), gain.within(3.0)
        ('-1.25 [-2.00, -0.40]', '+1.25 [+0.40, +2.00]', 'holds', 'not decided', 'holds')
        >>> "better" if gain.below(-1.0) == "holds" else "perhaps not"
        'perhaps not'
    """

    value: float
    low: float
    high: float

    @property
    def percent(self) -> Estimate:
        """The same in percent, or in percentage points."""
        return Estimate(*(100 * x for x in self))

    def __neg__(self) -> Estimate:
        """The difference the other way round."""
        return Estimate(-self.value, -self.high, -self.low)

    def __format__(self, spec: str) -> str:
        """The text "value [low, high]"; ``spec`` is that of each number."""
        value, low, high = (format(x, spec) for x in self)
        return f"{value} [{low}, {high}]"

    def below(self, bound: float = 0.0) -> str:
        """Is it below ``bound``? "holds" or "does not hold" if the whole interval says so, else "not decided"."""
        return "holds" if self.high < bound else "does not hold" if self.low > bound else "not decided"

    def above(self, bound: float = 0.0) -> str:
        """Whether it lies above ``bound``, in the words of :meth:`below`."""
        return (-self).below(-bound)

    def within(self, width: float) -> str:
        """Whether it lies between ``-width`` and ``width``, in the words of :meth:`below`."""
        verdicts = {self.below(width), self.above(-width)}
        return next((word for word in ("does not hold", "not decided") if word in verdicts), "holds")


class Comparison:
    """Methods on one test set: every metric with its interval, and paired differences.

    Each method's probabilities are resampled once, when they are added; the draws are the same for all, so a difference
    is taken on common resamples, as :func:`calibkit.metrics.bootstrap_difference` does. Intervals speak of the draw of
    the test set, not of the training seed. A method that was not added is refused, with ValueError.

    ``labels`` are (N,) integers in [0, K), which are copied, ``metrics`` names of ``METRICS``. Where a method below is
    told none, it takes "ece", or where that is not among them the first. The options are those of
    :func:`calibkit.metrics.bootstrap`.

    Example:
        >>> labels = np.repeat([0, 1], [80, 20])
        >>> methods = Comparison(labels, ["accuracy", "ece"])
        >>> for name, p in (("sure", 0.99), ("honest", 0.8)):
        ...     methods.add(name, np.tile([p, 1 - p], (100, 1)))
        >>> f"{methods.of('sure', 'accuracy').percent:.0f}"
        '80 [72, 88]'
        >>> methods.difference("honest", "sure", "ece").below()
        'holds'
    """

    def __init__(
        self,
        labels: Array,
        metrics: Iterable[str] = ("accuracy", "ece"),
        *,
        groups: Array | None = None,
        n_bins: int = 15,
        n_resamples: int = 1000,
        seed: int = 0,
    ) -> None:
        self.labels = check_integers("labels", labels).clone()
        self.metrics, self.n_bins = check_names(metrics), check_bins(n_bins)
        number = None if groups is None else check_groups(groups, len(self.labels))[1]
        n_resamples, seed = check_draws("n_resamples", n_resamples), check_int("seed", seed, 0)
        self.resampling: dict[str, Any] = {"groups": number, "n_resamples": n_resamples, "seed": seed}
        self.measured: dict[str, dict[str, Resampled]] = {}
        self._n_classes = 0  # of the first method; 0 before it

    def __repr__(self) -> str:
        of = ", ".join(self) or "no method"
        return f"Comparison of {of} on {len(self.labels)} samples, by {', '.join(self.metrics)}"

    @classmethod
    def on(
        cls,
        held_out: HeldOut,
        methods: Mapping[str, Callable[[np.ndarray], Array]],
        metrics: Iterable[str] = ("accuracy", "ece"),
        **options: Any,
    ) -> Self:
        """Fitted calibrators on one split of a Logits file.

        ``held_out`` is such as ``data.test``, ``methods`` a mapping of names to fitted calibrators, or to any functions
        from logits to probabilities, and ValueError tells of others. ``options`` are those of the class.

        Example:
            >>> from calibkit import Network, TemperatureScaling, calibrator
            >>> data = Network.parse("cifar10/resnet20-cross_entropy-s0").logits()
            >>> fits = {"before": calibrator("identity"), "after": TemperatureScaling()}
            >>> methods = Comparison.on(data.test, {name: fit.fit(*data.val) for name, fit in fits.items()}, ["ece"])
            >>> methods.difference("after", "before", "ece").below()
            'holds'
        """
        if not isinstance(methods, Mapping) or not all(isinstance(n, str) and callable(f) for n, f in methods.items()):
            raise expected("methods", "a mapping of names to fitted calibrators or functions", repr(methods))
        if not hasattr(held_out, "groups"):
            raise expected("held_out", "one split of a Logits, such as `data.test`", f"a {type(held_out).__name__}")
        result = cls(held_out.labels, metrics, groups=held_out.groups, **options)
        for name, method in methods.items():
            result.add(name, method(held_out.logits))
        return result

    def add(self, name: str, probs: Array | Sample) -> None:
        """Measure the probabilities (N, K) of a method; an earlier one of that name is replaced."""
        if not isinstance(name, str):
            raise expected("name", "text", repr(name))
        p = probs.probs if isinstance(probs, Sample) else to_tensor("probs", probs)
        if p.shape[:1] != self.labels.shape:
            raise expected("probs", f"of {len(self.labels)} rows, as `labels`", f"shape {tuple(p.shape)}")
        sample = Sample.of(probs, None if isinstance(probs, Sample) else self.labels)
        if not torch.equal(sample.labels, self.labels.to(sample.labels)):
            raise expected("probs", "a Sample of the labels of this comparison", "one of others")
        if (n_classes := sample.probs.shape[1]) != (self._n_classes or n_classes):
            raise expected("probs", f"of {self._n_classes} classes, as those before", f"{n_classes}")
        self._n_classes = n_classes
        self.measured[name] = resampled(sample, self.metrics, n_bins=self.n_bins, **self.resampling)

    def __iter__(self) -> Iterator[str]:
        """The names, in the order of their addition."""
        return iter(self.measured)

    def of(self, name: str, metric: str | None = None) -> Estimate:
        """A metric of a method."""
        found = self._found(name, metric)
        return Estimate(found.value, *found.interval())

    def difference(self, name: str, base: str, metric: str | None = None) -> Estimate:
        """A metric of a method less that of another: see :func:`calibkit.metrics.bootstrap_difference`."""
        return Estimate(*self._found(name, metric).difference(self._found(base, metric, "base")))

    def chance(self, name: str, base: str, metric: str | None = None) -> float:
        """The p-value of :meth:`difference`: about the 1 - level at which its interval ends at 0."""
        return self._found(name, metric).chance(self._found(base, metric, "base"))

    def _found(self, name: str, metric: str | None, argument: str = "name") -> Resampled:
        if not isinstance(name, str) or name not in self.measured:
            raise expected(argument, f"one of {', '.join(self) or 'none, as nothing was added'}", repr(name))
        if metric is None:
            metric = "ece" if "ece" in self.metrics else next(iter(self.metrics), "ece")
        return self.measured[name][check_choice("metric", metric, self.metrics)]
