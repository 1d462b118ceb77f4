"""One method on one network: fitted, compared with others on common resamples, its properties checked.

A property is what may be asked of a calibrator beside its numbers, with a counterexample where it fails.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from calibkit.calibrators import Calibrator
from calibkit.data import DATASETS
from calibkit.logits import HeldOut, Logits
from calibkit.metrics import nll
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
#: Name -> what is asked.
PROPERTIES = {
    "probabilities keep the order of the logits": "in each test row, a larger logit never has a smaller probability",
    "predictions kept": "in each test row, the class of the largest logit has the largest probability",
    "a shift changes nothing": "a constant added to all logits of a row: the same probabilities",
    "classes may be renumbered": "fitted and called with the classes in another order: the same probabilities",
    "no worse than no calibrator where it was fitted": "on the rows of the fit, an NLL no higher than the network's",
    "single and double precision agree": "fitted and called on the same numbers in either: the same probabilities",
    "can be saved": "what the fit left is numbers or text, so that a file holds it",
}
SLOW = 5.0  # seconds of a fit that is not done twice more for a property
ROWS = 2000  # of the test set, that are looked at
EXACT, REFIT = 1e-6, 1e-3  # probabilities of one fit, and of two, that count as the same
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
        keeps: whether it keeps all predictions on this network, and on a small sample where others change some.
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
    """Fit a method on a network's ``val``, judge it on ``test``; raises whatever it raises.

    ``network`` is a name or a path; ``bases`` are keys to compare with, beside one temperature and the rivals.
    """
    data = load_logits(network)
    val, test = data.val, data.test
    fitted, seconds = timed_fit(key, val)
    probs = fitted(test.logits)
    changed = float((probs.argmax(1) != test.logits.argmax(1)).mean())
    keeps = not changed and keeps_predictions(key)
    comparison = Comparison(test.labels, METRICS, groups=test.groups, n_resamples=n_resamples)
    left_out, base_seconds = {}, 0.0
    rivals = RIVALS.values() if keeps else (RIVALS[False],)  # on another network it may change some
    for base in dict.fromkeys((BASE, *rivals, *bases)):
        if len(val.labels) * need_of(base).work_of(data.n_classes) > WORK:
            left_out[base] = "its fit takes minutes"
            continue
        try:
            of_base, took = timed_fit(base, val)
            comparison.add(base, of_base(test.logits))
        except (ValueError, ModuleNotFoundError) as error:
            if base == BASE:
                raise
            left_out[base] = str(error)
        base_seconds = took if base == BASE else base_seconds
    comparison.add(_JUDGED, probs)
    values = {metric: comparison.of(_JUDGED, metric).value for metric in METRICS}
    return Row(
        network=network,
        test_set=_test_set(network, data),
        strata=strata_of(val, test, data.n_classes),
        sizes=(len(val.labels), len(test.labels), data.n_classes),
        keeps=keeps,
        changed=changed,
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


def check(key: str, fitted: Calibrator, val: HeldOut, test: HeldOut, seconds: float) -> dict[str, str]:
    """The properties that were tried -> the counterexample, or "" where it holds.

    What needs another fit is not tried where that of ``fitted`` took more than ``SLOW`` seconds.
    """
    z = test.logits[np.linspace(0, len(test.logits) - 1, min(ROWS, len(test.logits))).astype(int)]
    p = fitted(z)
    tries: dict[str, Callable[[], str]] = {
        "probabilities keep the order of the logits": lambda: _order(z, p),
        "predictions kept": lambda: _predictions(z, p),
        "a shift changes nothing": lambda: _shift(fitted, z, p),
        "no worse than no calibrator where it was fitted": lambda: _own_rows(fitted, val),
        "can be saved": lambda: _saved(fitted),
    }
    if seconds < SLOW:
        tries |= {
            "classes may be renumbered": lambda: _renumbered(key, val, z, p),
            "single and double precision agree": lambda: _precision(key, val, z, p),
        }
    found = {}
    for name, test_of in tries.items():
        try:
            found[name] = test_of()
        except Exception as error:  # whatever the method raises
            found[name] = f"{type(error).__name__}: {error}"
    return found


def _order(z: np.ndarray, p: np.ndarray) -> str:
    rank = z.argsort(1, kind="stable")
    logits, probs = (np.take_along_axis(x, rank, 1) for x in (z, p))
    falls = (np.diff(probs) < -EXACT) & (np.diff(logits) > 0)
    if not falls.any():
        return ""
    row, at = np.argwhere(falls)[0]
    i, j = rank[row, at], rank[row, at + 1]
    return (
        f"row {row}: class {j} has the logit {z[row, j]:.4g} and {p[row, j]:.4g}, "
        f"class {i} {z[row, i]:.4g} and {p[row, i]:.4g}"
    )


def _predictions(z: np.ndarray, p: np.ndarray) -> str:
    before, after = z.argmax(1), p.argmax(1)
    rows = np.flatnonzero(before != after)
    if not len(rows):
        return ""
    row, (i, j) = rows[0], (before[rows[0]], after[rows[0]])
    return f"row {row}: class {i} has the largest logit and {p[row, i]:.4g}, class {j} has {p[row, j]:.4g}"


def _shift(fitted: Calibrator, z: np.ndarray, p: np.ndarray) -> str:
    added = np.random.default_rng(1).uniform(-10, 10, (len(z), 1))
    return _same(p, fitted(z.astype(np.float64) + added), EXACT, lambda row: f", with {added[row, 0]:.3g} added")


def _renumbered(key: str, val: HeldOut, z: np.ndarray, p: np.ndarray) -> str:
    order = np.random.default_rng(0).permutation(z.shape[1])
    again, _ = timed_fit(key, HeldOut(val.logits[:, order], order.argsort()[val.labels]))
    return _same(p, again(z[:, order])[:, order.argsort()], REFIT, lambda _: ", with the classes renumbered")


def _own_rows(fitted: Calibrator, val: HeldOut) -> str:
    before, after = (nll(p, val.labels) for p in (val.probs, fitted(val.logits)))
    return "" if after <= before + EXACT else f"NLL {after:.5g}, and {before:.5g} without it"


def _saved(fitted: Calibrator) -> str:
    with TemporaryDirectory() as folder:
        fitted.save(Path(folder) / "calibrator.npz")
    return ""


def _precision(key: str, val: HeldOut, z: np.ndarray, p: np.ndarray) -> str:
    other = np.float64 if z.dtype == np.float32 else np.float32
    again, _ = timed_fit(key, HeldOut(val.logits.astype(other), val.labels))
    return _same(p, again(z.astype(other)), REFIT, lambda _: f", in {np.dtype(other).name}")


def _same(p: np.ndarray, q: np.ndarray, tolerance: float, said: Callable[[int], str]) -> str:
    """The row where two arrays of probabilities differ most, if by more than the tolerance."""
    gap = np.abs(p - q)
    row, k = np.unravel_index(gap.argmax(), gap.shape)
    if gap[row, k] <= tolerance:
        return ""
    return f"row {row}{said(int(row))}: class {k} has {q[row, k]:.5g} in place of {p[row, k]:.5g}"
