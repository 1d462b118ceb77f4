"""``Monitor``: the calibration of a deployed network by day, in constant memory, and a test whether it has drifted."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable
from datetime import date, datetime
from pathlib import Path
from typing import Self

import numpy as np

from calibkit._checks import Array, check_count, expected
from calibkit._files import read_npz, write_npz
from calibkit.metrics import proper
from calibkit.metrics.drift import Bins, Drift, drift_of
from calibkit.metrics.intervals import check_alpha, check_level, holm
from calibkit.metrics.sample import Sample

#: Draws of the quantile of the ECE under calibration.
N_DRAWS = 10_000
#: More bins have no use, and ``N_DRAWS`` times as many numbers would not fit into memory.
MOST_BINS = 4096
Period = str | date
Periods = Period | Iterable[Period]


class Monitor:
    r"""The calibration of a deployed network by period: a day, a release, a customer.

    Of each period it keeps sums alone, 4 for each bin of confidence and 4 more: counts, confidences c, right
    predictions and :math:`c (1 - c)`; NLL, its square, Brier score, its square. At 15 bins these are 512 bytes, however
    many samples there were. Sums do not ask for order: labels may come late, and monitors of several machines add up,
    ``one + two`` or ``sum``, to that of one machine which saw everything, up to the rounding of float64.

    Args:
        n_bins: number of equal-width bins of the top label's confidence, those of ``ece``; 15 as there, at most 4,096.

    Raises:
        ValueError: ``n_bins`` < 1, or more than 4,096.

    Example:
        >>> monitor = Monitor()
        >>> probs = np.tile([0.9, 0.1], (1000, 1))
        >>> monitor.update(probs, np.repeat([0, 1], [900, 100]), "2026-11-21")
        >>> monitor.update(probs, np.repeat([0, 1], [840, 160]), "2026-11-22")
        >>> [(row["period"], row["n"], round(row["ece"], 4)) for row in monitor.report()]
        [('2026-11-21', 1000, 0.0), ('2026-11-22', 1000, 0.06)]
        >>> found = monitor.drift("2026-11-22", reference="2026-11-21")
        >>> found.verdict, f"{found.change.percent:.1f}"
        ('drifted', '6.0 [3.1, 8.9]')
    """

    def __init__(self, n_bins: int = 15) -> None:
        self.n_bins = check_count("n_bins", n_bins, 1, MOST_BINS)
        self._sums: dict[str, np.ndarray] = {}
        self._n_classes = 0  # of the first batch; 0 before it

    def __repr__(self) -> str:
        return f"Monitor(n_bins={self.n_bins}), {len(self._sums)} periods"

    @property
    def periods(self) -> list[str]:
        """The periods that were updated, sorted; a number in a text counts as one, so "day 2" is before "day 10"."""
        return sorted(self._sums, key=_in_order)

    def update(self, probs: Array, labels: Array, period: Period) -> None:
        """Add a batch to its period, whenever its labels come.

        Args:
            probs: (N, K) probabilities, as they were served; of the K of the first batch.
            labels: (N,) integers in [0, K).
            period: any text, by whose order periods are listed, or a date, which is its text "2026-11-22".

        ValueError tells of bad ones; then nothing is counted.
        """
        key, sample = _key(period), Sample.of(probs, labels)
        self._take("probs", sample.probs.shape[1])
        nll, brier = proper.sample_nll(sample), proper.sample_brier(sample)
        scores = [x.sum().item() for x in (nll, nll**2, brier, brier**2)]
        self._add(key, np.concatenate([*Bins.of(sample, self.n_bins), scores]))

    def _take(self, name: str, n_classes: int) -> None:
        """Remember how many classes there are, 0 if that is not known; refuse others than before."""
        if n_classes and self._n_classes not in (0, n_classes):
            raise expected(name, f"of {self._n_classes} classes as before", n_classes)
        self._n_classes = n_classes or self._n_classes

    def _add(self, key: str, sums: np.ndarray) -> None:
        self._sums[key] = self._sums[key] + sums if key in self._sums else sums

    def merge(self, *others: Monitor) -> Monitor:
        """A new monitor of what this and others saw, with as many bins: each sample by one, else it counts twice."""
        total = Monitor(self.n_bins)
        for one in (self, *others):
            if not isinstance(one, Monitor) or one.n_bins != self.n_bins:
                raise expected("others", f"monitors of {self.n_bins} bins", repr(one))
            total._take("others", one._n_classes)
            for key, sums in one._sums.items():
                total._add(key, sums)
        return total

    def __add__(self, other: Monitor) -> Monitor:
        """``merge`` of two."""
        return self.merge(other) if isinstance(other, Monitor) else NotImplemented

    def __radd__(self, other: object) -> Monitor:
        """``sum`` of several, which begins at 0."""
        return self.merge() if isinstance(other, int) and other == 0 else NotImplemented

    def save(self, path: str | os.PathLike) -> Path:
        """Write an npz, without pickle and atomically: a reader finds the old state or the new; returns the path."""
        sums = np.array([self._sums[key] for key in self.periods]).reshape(len(self._sums), 4 * self.n_bins + 4)
        sizes = {"n_bins": np.array(self.n_bins, np.int64), "n_classes": np.array(self._n_classes, np.int64)}
        return write_npz(path, {"periods": np.array(self.periods, dtype=str), **sizes, "sums": sums})

    @classmethod
    def load(cls, path: str | os.PathLike) -> Self:
        """Read what :meth:`save` wrote; ValueError of another file or a damaged one, FileNotFoundError of none."""
        names = ("periods", "sums", "n_bins", "n_classes")
        found = {"n_classes": np.array(0, np.int64)} | read_npz(path, names)  # which older files lack
        periods, sums, *sizes = (found.get(name, np.empty(0)) for name in names)
        keys = periods.tolist() if periods.ndim == 1 and periods.dtype.kind == "U" else []
        size, n_classes = (int(n) if n.shape == () and n.dtype == np.int64 else -1 for n in sizes)
        fits = 0 < size <= MOST_BINS and len(set(keys)) == periods.size and sums.shape == (len(keys), 4 * size + 4)
        if not (fits and n_classes >= 0 and sums.dtype == np.float64 and _are_sums(sums, size)):
            raise expected("path", "a file that Monitor.save wrote", repr(os.fspath(path)))
        monitor = cls(size)
        monitor._sums, monitor._n_classes = dict(zip(keys, sums, strict=True)), n_classes
        return monitor

    def report(self, level: float = 0.95) -> list[dict[str, str | int | float]]:
        r"""A row for each period, in their order; ``pandas.DataFrame(monitor.report())`` makes a table of them.

        ``ece_null`` is the ``level`` quantile of what the ECE of a calibrated network would be by chance, with these
        many samples of these confidences: that of :math:`\frac{1}{N} \sum_b \sqrt{V_b}\, |Z_b|` with normal Z and
        :math:`V_b = \sum c (1 - c)` over the bin, from ``N_DRAWS`` draws of a fixed seed. An ECE below it says nothing.

        Returns:
            Dicts of period, n, accuracy, confidence (the mean), ece, ece_null, nll and brier, with the standard errors
            nll_se and brier_se: NaN for one sample, or an infinite NLL.

        Raises:
            ValueError: ``level`` outside (0, 1).
        """
        level = check_level(level)
        normal = np.abs(np.random.default_rng(0).standard_normal((N_DRAWS, self.n_bins)))
        rows = []
        for key in self.periods:
            bins, (nll, nll_squares, brier, brier_squares) = self._of([key])
            n = bins.counts.sum()
            rows.append(
                {
                    "period": key,
                    "n": int(n),
                    "accuracy": float(bins.correct.sum() / n),
                    "confidence": float(bins.confidence.sum() / n),
                    "ece": float(np.abs(bins.gaps).sum() / n),
                    "ece_null": float(np.quantile(normal @ np.sqrt(bins.variance), level) / n),
                    "nll": float(nll / n),
                    "nll_se": _standard_error(nll, nll_squares, n),
                    "brier": float(brier / n),
                    "brier_se": _standard_error(brier, brier_squares, n),
                }
            )
        return rows

    def drift(self, current: Periods, reference: Periods | None = None, alpha: float = 0.01) -> Drift:
        """Is the calibration of some periods, taken together, as in others?

        The gap between confidence and accuracy is compared bin by bin of confidence, so lower confidences on harder
        inputs are no drift where the accuracy falls with them; :mod:`calibkit.metrics.drift` derives the test. "No
        drift seen" is no proof that there is none: the interval of ``change`` says how much could be there. Samples are
        taken to be independent; of those that go together, as the frames of a film, add one, or the test is too sure.

        A test at 1% on each of 100 days without drift calls one of them drifted. Several periods of one reference at
        a time are :meth:`drift_by_period`'s. To look day after day without end, take an ``alpha`` of
        ``0.01 / (k * (k + 1))`` on the k-th day: over all days these add up to 0.01. Far below 1e-4 a p-value is no
        more than an order of magnitude, as bins hold counts, not normal numbers.

        Args:
            current: a period or several.
            reference: a period or several others, such as the weeks after the release; or None: is the calibration
                perfect?
            alpha: the chance of "drifted" where nothing has changed, in (0, 0.5].

        ValueError tells of a period that was never updated or is in both, or of none.
        """
        check_alpha(alpha)
        base = [] if reference is None else self._known("reference", reference)
        keys = self._known("current", current, base)
        return drift_of(self._of(keys)[0], self._of(base)[0] if base else None, alpha)

    def drift_by_period(
        self, current: Periods | None = None, reference: Periods | None = None, alpha: float = 0.01
    ) -> dict[str, Drift]:
        """:meth:`drift` of each of several periods by itself, with one ``alpha`` for all of them.

        The p-values are adjusted by Holm's method: where nothing has changed, the chance that any of the periods is
        called drifted is at most ``alpha``. It holds for the periods of one call.

        Args:
            current: the periods; all that are not the reference if None.
            reference: as in :meth:`drift`.
            alpha: for all periods together.

        Raises:
            ValueError: as :meth:`drift`.
        """
        base = [] if reference is None else self._known("reference", reference)
        rest = [key for key in self.periods if key not in base]
        keys = self._known("current", rest if current is None else current, base)
        found = {key: self.drift(key, base or None, alpha) for key in keys}
        adjusted = holm({key: drift.p for key, drift in found.items()})
        return {key: drift._replace(p=adjusted[key]).at(alpha) for key, drift in found.items()}

    def _of(self, keys: list[str]) -> tuple[Bins, np.ndarray]:
        """The sums of some periods: those by bin, and the four others."""
        total = np.sum([self._sums[key] for key in keys], axis=0)
        return Bins(*total[:-4].reshape(4, self.n_bins)), total[-4:]

    def _known(self, name: str, periods: Periods, others: Iterable[str] = ()) -> list[str]:
        """Distinct keys that were updated and are not among others."""
        keys = keys_of(periods)
        known = [key for key in self.periods if key not in set(others)]
        for key in keys or [None]:
            if key not in known:
                listed = ", ".join(known[:10]) + ", ..." * (len(known) > 10) if known else "none, as there is no other"
                raise expected(name, f"periods of {listed}", repr(key) if keys else "none")
        return keys


def keys_of(periods: Periods) -> list[str]:
    """The distinct keys of a period or several."""
    many = not isinstance(periods, Period) and np.iterable(periods)
    return list(dict.fromkeys(_key(period) for period in (periods if many else [periods])))


def _key(period: Period) -> str:
    if isinstance(period, date) and not isinstance(period, datetime):
        return period.isoformat()
    if not isinstance(period, str) or not period or "\0" in period:
        cure = "; its .date() is one" if isinstance(period, datetime) else ""
        raise expected("period", "a text or a date", f"{period!r}{cure}")
    return str(period)


def _in_order(key: str) -> tuple[list[str | int], str]:
    """Texts and numbers take turns, so that each is compared with its like."""
    parts = re.split(r"(\d{1,18})", key)
    return [int(part) if i % 2 else part for i, part in enumerate(parts)], key


def _are_sums(sums: np.ndarray, n_bins: int) -> bool:
    """Whether rows of sums can be of samples: in no bin more are right than there are; an NLL may be infinite."""
    counts, confidence, correct, variance = sums[:, :-4].reshape(-1, 4, n_bins).swapaxes(0, 1)
    finite = np.isfinite(np.delete(sums, [-4, -3], axis=1))
    whole = (counts == counts.round()) & (correct == correct.round())
    possible = (correct <= counts) & (variance <= confidence) & (confidence <= 1.01 * counts)
    return bool((sums >= 0).all() and finite.all() and (counts.sum(1) > 0).all() and (whole & possible).all())


def _standard_error(total: float, squares: float, n: float) -> float:
    """Of the mean, from the sum and the sum of squares of n values."""
    if n < 2 or not math.isfinite(squares):
        return math.nan
    return math.sqrt(max(squares - total**2 / n, 0.0) / (n - 1) / n)
