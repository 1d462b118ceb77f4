"""What may be asked of a calibrator beside its numbers, each with the counterexample where it fails."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from calibkit.calibrators import Calibrator
from calibkit.logits import HeldOut
from calibkit.metrics import nll
from calibkit.reporting.trial import timed_fit

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


def check(key: str, fitted: Calibrator, val: HeldOut, test: HeldOut, seconds: float) -> dict[str, str]:
    """The properties that were tried -> the counterexample, or "" where it holds.

    Args:
        key: of the calibrator.
        fitted: on ``val``.
        val: to fit on.
        test: to call it on.
        seconds: of the fit; where it took more than ``SLOW``, what needs another fit is not tried.
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
    return {name: _tried(tries[name]) for name in PROPERTIES if name in tries}


def _tried(test: Callable[[], str]) -> str:
    try:
        return test()
    except Exception as error:  # whatever the method raises
        return f"{type(error).__name__}: {error}"


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
    z = val.logits.astype(np.float64)
    z = np.exp(z - z.max(1, keepdims=True))
    before, after = (nll(p, val.labels) for p in (z / z.sum(1, keepdims=True), fitted(val.logits)))
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
