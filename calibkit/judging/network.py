"""One method on one network: fitted, compared with others on common resamples, its properties checked."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from calibkit.data import DATASETS
from calibkit.judging.properties import check
from calibkit.logits import HeldOut, Logits
from calibkit.metrics.comparison import Comparison
from calibkit.networks import PUBLISHED, load_logits
from calibkit.reporting.catalogue import BASE, need_of
from calibkit.reporting.data_checks import between_splits
from calibkit.reporting.trial import METRICS, WORK, timed_fit

#: Whether a method keeps predictions -> of those that the guide knows and that do so, too, or need not, the one with
#: the lowest mean NLL on the stored networks that have them all.
RIVALS = {True: "order_preserving", False: "gp_calibration"}
#: Networks of these kinds are pooled by themselves, too; all but the first two may overlap.
STRATA = {
    "balanced": "no class has five times the samples of another to fit on",
    "imbalanced": "one class has five times the samples of another to fit on, or more",
    "many classes": "100 or more",
    "few samples": "fewer than 100 a class to fit on, on average",
    "shifted": "the test samples show other class shares, accuracy or confidence than those to fit on, beyond chance",
}
_JUDGED = "judged"


@dataclass(frozen=True)
class Row:
    """What came of a method on a network; JSON can hold it all.

    Attributes:
        network: name or path.
        error: why there are no numbers; "" where there are.
        test_set: networks of one share their test samples.
        strata: of ``STRATA``.
        sizes: samples to fit on, to judge by, classes.
        keeps: whether it keeps the predictions of a small sample made for this, where others change some.
        changed: the share of the predictions on this network that it changes.
        seconds: of the fit; and of that of one temperature.
        values: metric -> value; None: infinite.
        less: what is subtracted -> metric -> value, low, high and p-value of the difference; None: infinite.
        left_out: what could not be subtracted -> why.
        properties: those that were tried -> the counterexample; "" where it holds.
    """

    network: str
    error: str = ""
    test_set: str = ""
    strata: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    keeps: bool = False
    changed: float = 0.0
    seconds: tuple[float, ...] = ()
    values: dict[str, float | None] = field(default_factory=dict)
    less: dict[str, dict[str, Sequence[float] | None]] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    properties: dict[str, str] = field(default_factory=dict)


def judge_on(network: str, key: str, bases: Iterable[str] = (), n_resamples: int = 1000) -> Row:
    """Fit a method on a network's ``val``, judge it on ``test``.

    Args:
        network: name or path of Logits.
        key: of the calibrator.
        bases: keys of what it is compared with, beside one temperature and the rival of its kind.
        n_resamples: of the intervals.

    Raises:
        ValueError: samples that not even a temperature can be fitted to.
        Exception: whatever the method raises.
    """
    data = load_logits(network)
    val, test = data.val, data.test
    keeps = keeps_predictions(key)
    comparison = Comparison(test.labels, METRICS, groups=test.groups, n_resamples=n_resamples)
    left_out, base_seconds = {}, math.nan
    for base in dict.fromkeys((BASE, RIVALS[keeps], *bases)):
        if len(val.labels) * need_of(base).work_of(data.n_classes) > WORK:
            left_out[base] = "its fit takes minutes"
            continue
        try:
            fitted, seconds = timed_fit(base, val)
            comparison.add(base, fitted(test.logits))
        except (ValueError, ModuleNotFoundError) as error:
            if base == BASE:
                raise
            left_out[base] = str(error)
        base_seconds = seconds if base == BASE else base_seconds
    fitted, seconds = timed_fit(key, val)
    probs = fitted(test.logits)
    comparison.add(_JUDGED, probs)
    values = {metric: comparison.of(_JUDGED, metric).value for metric in METRICS}
    return Row(
        network=network,
        test_set=_test_set(network, data),
        strata=strata_of(val, test, data.n_classes),
        sizes=(len(val.labels), len(test.labels), data.n_classes),
        keeps=keeps,
        changed=float((probs.argmax(1) != test.logits.argmax(1)).mean()),
        seconds=(seconds, base_seconds),
        values={metric: value if math.isfinite(value) else None for metric, value in values.items()},
        less={base: {m: _less(comparison, base, m) for m in METRICS} for base in comparison if base != _JUDGED},
        left_out=left_out,
        properties=check(key, fitted, val, test, seconds),
    )


def _less(comparison: Comparison, base: str, metric: str) -> Sequence[float] | None:
    found = comparison.difference(_JUDGED, base, metric)
    return (*found, comparison.chance(_JUDGED, base, metric)) if all(map(math.isfinite, found)) else None


def _test_set(network: str, data: Logits) -> str:
    """A long-tailed data set is tested on the images of the whole one, a random split partly on the official one's."""
    dataset = PUBLISHED[network][0] if network in PUBLISHED else str(data.meta.get("dataset", network))
    return (DATASETS[dataset].base or dataset) if dataset in DATASETS else dataset


def strata_of(val: HeldOut, test: HeldOut, n_classes: int) -> tuple[str, ...]:
    """Which of ``STRATA`` a network belongs to, by its labels, and for the last by its outputs.

    Example:
        >>> z, y = np.eye(2)[[0, 1] * 300] * 9, np.array([0, 1] * 300)
        >>> strata_of(HeldOut(z, y), HeldOut(z, y), 2), strata_of(HeldOut(z[:22], y[:22]), HeldOut(z, y * 0), 2)
        (('balanced',), ('balanced', 'few samples', 'shifted'))
    """
    counts = np.bincount(val.labels, minlength=n_classes)
    holds = {
        "balanced": counts.max() < 5 * counts[counts > 0].min(),
        "imbalanced": counts.max() >= 5 * counts[counts > 0].min(),
        "many classes": n_classes >= 100,
        "few samples": len(val.labels) < 100 * n_classes,
        "shifted": any(between_splits(val, test, tuple(map(str, range(n_classes))), coarse=True)),
    }
    return tuple(name for name in STRATA if holds[name])


def keeps_predictions(key: str) -> bool:
    """Whether a method keeps every prediction on a sample whose classes are off by different factors and offsets.

    False where it cannot be fitted to it.

    Example:
        >>> [keeps_predictions(key) for key in ("ets", "vector_scaling")]
        [True, False]
    """
    rng = np.random.default_rng(0)
    z = 2 * rng.normal(size=(2000, 4))
    labels = (z + rng.gumbel(size=z.shape)).argmax(1)
    logits = z * np.array([0.5, 1.0, 2.0, 4.0]) + np.array([0.0, 2.0, -2.0, 1.0])
    try:
        probs = timed_fit(key, HeldOut(logits, labels))[0](logits)
    except Exception:  # as may be raised again where it counts
        return False
    return bool((probs.argmax(1) == logits.argmax(1)).all())
