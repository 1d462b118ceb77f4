"""From the trainings of losses to the verdict: differences over test samples and seeds, their power, the words."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from book.kit.judging.seeds import chance_with, error_of_two, mean_of, pooled_spread, quantile, total, widened
from book.kit.judging.verdict import ALPHA, ERRORS, beyond_chance, in_words, numbers
from calibkit._checks import expected
from calibkit.metrics.comparison import Estimate
from calibkit.metrics.intervals import Resampled
from calibkit.reporting.summary import signed
from calibkit.reporting.trial import METRICS

BASE = "cross_entropy"
#: What is compared -> what is done to the network of the loss, and to that of the other.
WAYS = {
    "as trained": ("identity", "identity"),
    "both after one temperature": ("temperature_scaling", "temperature_scaling"),
    "as trained, the other after one temperature": ("identity", "temperature_scaling"),
}
AGAINST = {
    "as trained": "Against cross-entropy, as trained",
    "both after one temperature": "After one temperature for both",
    "as trained, the other after one temperature": "As trained, against cross-entropy after one temperature",
}
POWER = 0.8  # the usual one (Cohen 1988)
#: One of "identity" and "temperature_scaling" -> each training -> metric.
Runs = Mapping[str, list[dict[str, Resampled]]]
_WAYS = {", both after one temperature": "both after one temperature"}
_WAYS |= {" after one temperature": "as trained, the other after one temperature", "": "as trained"}
_CLAIM = re.compile(rf"(lower|higher) ({'|'.join(METRICS)}) than (\S.*?)({'|'.join(_WAYS)})")


class Difference(NamedTuple):
    """A mean over trainings less that of another loss.

    Attributes:
        over_tests: with its interval over test samples.
        chance_over_tests: the p-value that goes with it.
        error: its standard error over seeds; NaN where no spread over seeds is known.
        df: the degrees of freedom of that.
    """

    over_tests: Estimate
    chance_over_tests: float
    error: float
    df: float

    @property
    def estimate(self) -> Estimate:
        """With its 95% interval over test samples and seeds."""
        return widened(self.over_tests, self.error, self.df)

    @property
    def chance(self) -> float:
        """The p-value over test samples and seeds; 1 where no spread over seeds is known."""
        known = math.isfinite(self.error)
        return chance_with(self.over_tests, self.chance_over_tests, self.error, self.df) if known else 1.0

    @property
    def seen(self) -> float:
        """The true difference that has an interval beyond 0 in 80% of such comparisons, nearly: the normal formula."""
        value, low, high = self.over_tests
        error, df = total(max(value - low, high - value), self.error, self.df)
        return error * (quantile(df) + quantile(df, POWER))

    @property
    def side(self) -> int:
        """-1 or 1 where the interval, wider for three metrics (Bonferroni), lies on one side of 0, or is infinite."""
        if math.isinf(self.over_tests.value):
            return int(math.copysign(1, self.over_tests.value))
        wide = widened(self.over_tests, self.error, self.df, 1 - ALPHA / len(ERRORS))
        return (wide.above() == "holds") - (wide.below() == "holds")

    def facts(self) -> dict:
        """As numbers by name."""
        return {**self.estimate._asdict(), "chance": self.chance, "seen": self.seen}


class Claim(NamedTuple):
    """A claim on a difference to a stored loss.

    Example:
        >>> Claim.parse("lower ece than mbls margin=0, both after one temperature", ["mbls margin=0"])
        Claim(side='lower', metric='ece', base='mbls margin=0', way='both after one temperature')
    """

    side: str
    metric: str
    base: str
    way: str

    @classmethod
    def parse(cls, text: str, stored: Iterable[str]) -> Claim:
        """Raises ValueError where the text is none, or names no stored loss."""
        found = _CLAIM.fullmatch(" ".join(text.split()))
        if found is None:
            raise expected("claims", f'as "lower ece than {BASE}", of {", ".join(METRICS)}', repr(text))
        if found[3] not in stored:
            raise expected("claims", f"on one of {', '.join(stored)}", repr(found[3]))
        return cls(found[1], found[2], found[3], _WAYS[found[4]])

    def __str__(self) -> str:
        ending = next(ending for ending, way in _WAYS.items() if way == self.way)
        return f"{self.side} {self.metric} than {self.base}{ending}"

    def answer(self, difference: Difference) -> str:
        """One of "holds", "does not hold" and "not decided"."""
        mean = difference.estimate
        return mean.below() if self.side == "lower" else mean.above()


def differences(
    measured: Mapping[str, Runs], key: str, bases: Iterable[str]
) -> dict[str, dict[str, dict[str, Difference]]]:
    """What is subtracted -> one of ``WAYS`` -> metric -> the difference of the loss ``key``.

    The spread of a training over seeds is pooled over all losses that have several.
    """
    spread = {
        (method, metric): pooled_spread([one[metric].value for one in runs[method]] for runs in measured.values())
        for method in measured[key]
        for metric in METRICS
    }

    def difference(base: str, way: str, metric: str) -> Difference:
        mine, other = WAYS[way]
        own, of = ([one[metric] for one in runs] for runs in (measured[key][mine], measured[base][other]))
        (a, b), spreads = (mean_of(own), mean_of(of)), (spread[mine, metric], spread[other, metric])
        return Difference(Estimate(*a.difference(b)), a.chance(b), *error_of_two(len(own), len(of), *spreads))

    return {base: {way: {m: difference(base, way, m) for m in METRICS} for way in WAYS} for base in bases}


def signs(less: Mapping[str, dict[str, dict[str, Difference]]], way: str) -> dict[tuple[str, str], int]:
    """(stored loss, metric) -> its sign, by :func:`beyond_chance`."""
    cells = {(base, metric): of[way][metric] for base, of in less.items() for metric in METRICS}
    return beyond_chance({cell: (of.over_tests.value, of.chance) for cell, of in cells.items()})


def verdict(less: Mapping[str, dict[str, dict[str, Difference]]], rests_on: str) -> str:
    """What can be said against cross-entropy, what would have been seen, and how it stands among the stored losses."""
    base = less[BASE]
    said = {way: in_words({metric: of[metric].side for metric in ERRORS}) for way, of in base.items()}
    parts = [f"{AGAINST[way]}: {found or 'not told apart'}." for way, found in said.items()]
    parts = parts if any(said.values()) else ["Not told apart from cross-entropy, before or after one temperature."]
    trained = base["as trained"]
    means = {metric: of.estimate for metric, of in trained.items()}
    accuracy = signed(means["accuracy"].percent, ".2f")
    parts.append(f"As trained, mean difference of {rests_on}: {numbers(means)}; accuracy {accuracy} points.")
    seen = [
        f"{100 * of['ece'].seen:.1f} points of ECE and {of['nll'].seen:.3f} nats {way}"
        for way, of in [*base.items()][:2]
        if math.isfinite(of["ece"].seen)
    ]
    parts.append(
        f"A smaller difference than {', '.join(seen)} is missed more often than one time in five."
        if seen
        else "No spread over seeds is known, so nothing is decided."
    )
    return " ".join([*parts, *(_beside(less, way) for way in [*WAYS][:2])])


def _beside(less: Mapping[str, dict[str, dict[str, Difference]]], way: str) -> str:
    """The stored losses by how it differs from each."""
    found = signs(less, way)
    by_words: dict[str, list[str]] = {}
    for base in less:
        words = in_words({metric: found[base, metric] for metric in ERRORS})
        by_words.setdefault(f"{words} than" if words else "not told apart from", []).append(base)
    parts = [f"{how} {', '.join(of)}" for how, of in by_words.items()]
    return f"Beside each stored loss, {way}: {'; '.join(parts)}."
