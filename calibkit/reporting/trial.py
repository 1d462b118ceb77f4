"""Every calibrator on one classifier: fitted, measured, and compared with temperature scaling on the same resamples."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from calibkit._checks import check_int, expected
from calibkit._progress import step
from calibkit.calibrators import Calibrator, calibrator
from calibkit.logits import HeldOut
from calibkit.metrics.comparison import Comparison, Estimate
from calibkit.reporting.catalogue import BASE, NEEDS, Need, need_of

METRICS = ("accuracy", "nll", "brier", "ece")  # measured for every method
FOLDS = 5  # of the cross-fit, where there is one set only
IMPOSSIBLE = 100.0  # so far below the largest logit a class may well be given 0
WORK = 2e8  # samples times parameters of a fit that is done unasked: seconds, or a minute


@dataclass(frozen=True)
class Tried:
    """One method and what came of it.

    Attributes:
        key: of ``CALIBRATORS``.
        need: what it is and what it wants.
        fitted: on all samples to fit on; None if it was left out.
        reason: why it was left out, or could not be fitted.
        enough: whether there are as many samples as it should have; of samples in groups each group counts once.
        seconds: of that fit.
        changed: the share of predictions that differ from those of the network.
        values: metric -> value with interval.
        changes: metric -> difference to temperature scaling with interval.
        chance: metric -> p-value of the difference.
        of_folds: of a cross-fit, those by which each fold was judged, fitted on the others.
        zeros: whether it gives a class the probability 0 that the network calls possible.
    """

    key: str
    need: Need
    fitted: Calibrator | None = None
    reason: str = ""
    enough: bool = True
    seconds: float = 0.0
    changed: float = 0.0
    values: dict[str, Estimate] = field(default_factory=dict)
    changes: dict[str, Estimate] = field(default_factory=dict)
    chance: dict[str, float] = field(default_factory=dict)
    of_folds: tuple[Calibrator, ...] = ()
    zeros: bool = False

    @property
    def calibrator(self) -> Calibrator:
        """What was fitted; ValueError where it was left out."""
        if self.fitted is None:
            raise expected("key", "of a method that was fitted", f"{self.key!r}: {self.reason}")
        return self.fitted


@dataclass(frozen=True)
class Trial:
    """All methods on one classifier.

    Attributes:
        methods: key -> what came of it, temperature scaling first.
        val: the samples that they were fitted on.
        judged: the samples that they were judged on.
        folds: (N,) the fold of each sample of a cross-fit; None where a test set was at hand.
        comparison: of them all, on common resamples; None where the numbers came from elsewhere.
    """

    methods: dict[str, Tried]
    val: HeldOut
    judged: HeldOut
    folds: np.ndarray | None
    comparison: Comparison | None = None

    @property
    def floored(self) -> bool:
        """Whether a label was given the probability 0, so that the NLL of the network is that with a floor."""
        given, labels = self.judged.given, self.judged.labels
        return given is not None and bool((given[np.arange(len(labels)), labels] == 0).any())

    @property
    def measured(self) -> dict[str, Tried]:
        """Those with numbers, the lowest NLL first."""
        found = {key: tried for key, tried in self.methods.items() if tried.values}
        return dict(sorted(found.items(), key=lambda item: item[1].values["nll"].value))

    @property
    def left_out(self) -> list[Tried]:
        """Those without."""
        return [tried for tried in self.methods.values() if not tried.values]

    def probs(self, key: str) -> np.ndarray:
        """The probabilities (M, K) that a method was judged by, computed anew: those of all would fill memory."""
        tried = self.methods[key]
        return _probs(key, tried.calibrator, tried.of_folds, self.judged, self.folds)


def try_all(
    val: HeldOut,
    test: HeldOut | None,
    methods: Iterable[str] | None = None,
    *,
    everything: bool = False,
    n_resamples: int = 1000,
    seed: int = 0,
) -> Trial:
    """Fit every method on ``val`` and judge it on ``test``, or by cross-fitting ``val``.

    Cross-fitting: the samples are dealt into five folds with the same class shares (or whole groups); each fold is
    judged by a calibrator that was fitted on the other four. The intervals are over samples, the fits taken as one.

    Args:
        val: samples to fit on.
        test: samples to judge by; ``identity`` keeps the probabilities that were ``given``, where they were.
        methods: keys of calibrators; all if None. ``identity`` and ``temperature_scaling`` are always among them.
        everything: fit also what would take minutes.
        n_resamples: of the intervals.
        seed: of the resamples and the folds.

    Raises:
        ValueError: unknown methods, too few samples to cross-fit, a bad ``seed`` or ``n_resamples``; samples that not
            even a temperature can be fitted to.
    """
    check_int("seed", seed, 0)
    if methods is not None and (isinstance(methods, str) or not np.iterable(methods)):
        raise expected("methods", "a sequence of keys of calibrators", repr(methods))
    (n, k), (n_units, _) = val.logits.shape, val.units
    wanted = dict.fromkeys((BASE, "identity", *(NEEDS if methods is None else map(str, methods))))  # the base first
    needs = {key: need_of(key) for key in wanted}
    judged = val if test is None else test
    folds = None if test is not None else deal(val, seed)
    comparison = Comparison(judged.labels, METRICS, groups=judged.groups, n_resamples=n_resamples, seed=seed)
    before = judged.logits.argmax(1)
    possible = judged.logits > judged.logits.max(1, keepdims=True) - IMPOSSIBLE
    found: dict[str, Tried] = {}
    for i, (key, need) in enumerate(needs.items(), 1):
        enough = n_units >= need.samples(k)
        fits = 1 if folds is None else 1 + FOLDS
        if not everything and key not in (BASE, "identity") and n * need.work_of(k) * fits > WORK:
            size = f"{need.parameters(k):,} parameters on {n:,} samples of {k:,} classes"
            reason = f"{size}: minutes or more, so only where it is asked for"
            found[key] = Tried(key, need, None, reason, enough)
            continue
        step(f"{i} of {len(needs)}, {need.name}")
        try:
            fitted, seconds = timed_fit(key, val)
            others = () if folds is None else [folds != fold for fold in range(FOLDS)]
            of_folds = tuple(timed_fit(key, HeldOut(val.logits[rest], val.labels[rest]))[0] for rest in others)
            probs = _probs(key, fitted, of_folds, judged, folds)
            measure(comparison, key, probs, judged if key == "identity" else None)
        except (ValueError, ModuleNotFoundError) as error:  # of an extra that is not installed
            if key in (BASE, "identity"):
                raise
            found[key] = Tried(key, need, None, str(error), enough)
            continue
        changed = float((probs.argmax(1) != before).mean())
        zeros = key != "identity" and bool(((probs == 0) & possible).any())
        del probs
        values = {metric: comparison.of(key, metric) for metric in METRICS}
        compared = METRICS if key != BASE else ()
        changes = {metric: comparison.difference(key, BASE, metric) for metric in compared}
        chance = {metric: comparison.chance(key, BASE, metric) for metric in compared}
        found[key] = Tried(key, need, fitted, "", enough, seconds, changed, values, changes, chance, of_folds, zeros)
    return Trial(found, val, judged, folds, comparison)


def measure(comparison: Comparison, name: str, probs: np.ndarray, own: HeldOut | None = None) -> None:
    """Add probabilities to a comparison: of a method, or those that the network itself gave to ``own`` samples.

    Of the latter an NLL that is infinite, as a label was given the probability 0, becomes that with a floor.
    """
    comparison.add(name, probs)
    measured = comparison.measured[name]
    if own is not None and own.given is not None and not np.isfinite(measured["nll"].value):
        finite = Comparison(comparison.labels, ("nll",), n_bins=comparison.n_bins, **comparison.resampling)
        finite.add(name, HeldOut(own.logits, own.labels).probs)
        measured["nll"] = finite.measured[name]["nll"]


def deal(val: HeldOut, seed: int) -> np.ndarray:
    """(N,) the fold of each sample: the classes are spread over the folds, and groups stay whole."""
    rng = np.random.default_rng(seed)
    fold = np.empty(len(val.labels), dtype=int)
    n_units, what = val.units
    if n_units < 2 * FOLDS:
        want = f"{2 * FOLDS} or more, where there is no test set: each is judged by a fit on others"
        raise expected(what, want, n_units)
    if val.groups is not None:
        distinct, group = np.unique(val.groups, return_inverse=True)
        return (rng.permutation(len(distinct)) % FOLDS)[group]
    order = rng.permutation(len(fold))
    fold[order[np.argsort(val.labels[order], kind="stable")]] = np.arange(len(fold)) % FOLDS
    return fold


def timed_fit(key: str, held: HeldOut) -> tuple[Calibrator, float]:
    """A method fitted to the samples, and the seconds that it took."""
    with warnings.catch_warnings():  # that a search ends at its bound shows in what it ends at
        warnings.simplefilter("ignore", RuntimeWarning)
        _warm(key)
        start = time.perf_counter()
        fitted = calibrator(key).fit(held.logits, held.labels)
    return fitted, time.perf_counter() - start


@cache
def _warm(key: str) -> None:
    """Import what the first fit of a kind imports, which would count as its time."""
    with suppress(Exception):  # of a class of one's own, any
        calibrator(key).fit(np.tile([[1.0, 0.0], [0.0, 1.0], [0.5, 0.0]], (20, 1)), np.tile([0, 1, 1], 20))


def _probs(
    key: str, fitted: Calibrator, of_folds: tuple[Calibrator, ...], judged: HeldOut, folds: np.ndarray | None
) -> np.ndarray:
    """The probabilities of each sample: as they were given, by the one fit, or by the fit that has not seen it."""
    if key == "identity" and judged.given is not None:
        return judged.given
    if folds is None:
        return fitted(judged.logits)
    probs = np.empty(judged.logits.shape)
    for fold, of_fold in enumerate(of_folds):
        probs[folds == fold] = of_fold(judged.logits[folds == fold])
    return probs
