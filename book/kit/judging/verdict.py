"""From the rows of all networks to the verdict: means with intervals, counts beyond chance, the words; and its file."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from book.kit.judging.network import PROPERTIES, RIVALS, STRATA, Row
from book.kit.judging.pooling import CORRELATION, pooled
from calibkit._checks import expected
from calibkit._files import write_text
from calibkit.metrics.comparison import Estimate
from calibkit.metrics.intervals import bonferroni, holm
from calibkit.reporting.catalogue import BASE, need_of
from calibkit.reporting.summary import signed
from calibkit.reporting.trial import METRICS

ALPHA = 0.05  # of each family of tests
#: What the words of the verdict go by, and one family of Holm's method on all networks; the accuracy is another.
ERRORS = ("nll", "ece", "brier")
SAID = {"nll": "NLL", "ece": "ECE", "brier": "Brier score", "accuracy": "accuracy"}
#: Of the interval of a mean, for the words: as many metrics as ``ERRORS`` are looked at, so at ALPHA / 3 (Bonferroni).
WIDER = bonferroni(len(ERRORS), ALPHA)
FILES = ("judge.html", "judge.json")
_CLAIM = re.compile(rf"(lower|higher) ({'|'.join(METRICS)}) than (\S.*)")


class Claim(NamedTuple):
    """A claim on the mean over all networks: "lower ece than ets".

    Example:
        >>> Claim.parse("lower ece than ets:focal gamma=2")
        Claim(side='lower', metric='ece', base='ets:focal gamma=2')
    """

    side: str
    metric: str
    base: str

    @classmethod
    def parse(cls, text: str) -> Claim:
        """Raises ValueError where the text is none, or names no calibrator."""
        found = _CLAIM.fullmatch(" ".join(text.split()))
        if found is None:
            raise expected("claims", f'as "lower ece than temperature_scaling", of {", ".join(METRICS)}', repr(text))
        need_of(found[3])
        return cls(*found.groups())

    def __str__(self) -> str:
        return f"{self.side} {self.metric} than {self.base}"

    def answer(self, rows: Sequence[Row]) -> tuple[str, Estimate]:
        """One of "holds", "does not hold" and "not decided", and the mean difference over all networks.

        An infinite NLL is higher than any, whatever the mean over the other networks.
        """
        mean = difference(rows, self.base, self.metric)
        if self.metric == "nll" and infinite(rows):
            return "holds" if self.side == "higher" else "does not hold", mean
        return mean.below() if self.side == "lower" else mean.above(), mean


class Tally(NamedTuple):
    """On how many networks the method is better, worse, not told apart; beyond chance after Holm's correction."""

    better: int
    worse: int
    undecided: int


def difference(rows: Iterable[Row], base: str, metric: str) -> Estimate:
    """The mean difference over those rows that have it, by :func:`book.kit.judging.pooling.pooled`."""
    found = {(row.network, row.test_set): less for row in rows if (less := row.less.get(base, {}).get(metric))}
    differences = [Estimate(*of[:3]) for of in found.values()]
    return pooled(differences, [test_set for _, test_set in found], CORRELATION[metric])


def by_stratum(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """All networks, then those of each of ``STRATA`` that has some."""
    found = {"all": list(rows)} | {name: [row for row in rows if name in row.strata] for name in STRATA}
    return {name: of for name, of in found.items() if of}


def infinite(rows: Iterable[Row]) -> list[str]:
    """The networks where the method gives a label the probability 0, so that its NLL is infinite."""
    return [row.network for row in rows if row.values["nll"] is None]


def signs(rows: Iterable[Row], base: str) -> dict[tuple[str, str], int]:
    """(network, metric) -> its sign, by :func:`beyond_chance`; an infinite NLL is higher."""
    cells = {(row.network, m): (of[0], of[3]) for row in rows for m, of in row.less.get(base, {}).items() if of}
    return beyond_chance(cells) | {(network, "nll"): 1 for network in infinite(rows)}


def beyond_chance(cells: Mapping[tuple[str, str], tuple[float, float]]) -> dict[tuple[str, str], int]:
    """(whatever, metric) -> -1 where a difference, given with its p-value, is below 0 beyond chance, 1 above, else 0.

    One family of Holm's method are all differences of ``ERRORS``, another those of the accuracy.
    """
    found: dict[tuple[str, str], int] = {}
    for family in (ERRORS, ("accuracy",)):
        adjusted = holm({cell: chance for cell, (_, chance) in cells.items() if cell[1] in family})
        found |= {c: int(np.sign(cells[c][0])) if chance <= ALPHA else 0 for c, chance in adjusted.items()}
    return found


def tally(rows: Sequence[Row], base: str, metric: str) -> Tally:
    """Of one metric; a higher accuracy is better."""
    good = 1 if metric == "accuracy" else -1
    found = [sign * good for (_, of), sign in signs(rows, base).items() if of == metric]
    return Tally(found.count(1), found.count(-1), found.count(0))


def worst(rows: Iterable[Row], base: str, metric: str) -> tuple[str, Estimate] | None:
    """The network where the method is worse by most, and that difference; None where it is worse on none."""
    bad = -1 if metric == "accuracy" else 1
    found = {row.network: Estimate(*of[:3]) for row in rows if (of := row.less.get(base, {}).get(metric))}
    worse = {network: less for network, less in found.items() if bad * less.value > 0}
    return max(worse.items(), key=lambda item: bad * item[1].value, default=None)


def rival(rows: Sequence[Row]) -> str:
    """The best stored method of its kind; one that changes a prediction anywhere is of the kind that may."""
    return RIVALS[all(row.keeps for row in rows)]


def verdict(rows: Sequence[Row]) -> str:
    """One word for the mean over all networks, then what stands behind it.

    A metric counts where its interval, ``WIDER`` for three of them, lies on one side of 0, or where it is infinite.
    """
    means = {metric: difference(rows, BASE, metric) for metric in ERRORS}
    sides = _sides(rows, BASE)
    lower, higher = ([metric for metric, side in sides.items() if side == sign] for sign in (-1, 1))
    all_signs = [sign for (_, metric), sign in signs(rows, BASE).items() if metric in ERRORS]
    if lower and higher:
        word = f"Lower {_and(lower)} and higher {_and(higher)} than one temperature"
    elif lower or higher:
        word = f"{'Better' if lower else 'Worse'} than one temperature in {_and(lower or higher)}"
    else:
        word = "Not told apart from one temperature" + (" in the mean" if any(all_signs) else "")
    parts = [f"{word}. Mean difference over {_networks(len(rows))}: {numbers(means)}."]
    if gone := infinite(rows):
        parts.append(f"Its NLL is infinite on {_networks(len(gone))}, which the mean leaves out: {gone[0]}.")
    better, worse = all_signs.count(-1), all_signs.count(1)
    parts.append(
        f"Of {len(all_signs)} differences on single networks, {better} are lower and {worse} higher beyond chance."
        if better or worse
        else "On no network is a difference beyond chance."
    )
    if worse and (found := worst([r for r in rows if signs(rows, BASE).get((r.network, "nll")) == 1], BASE, "nll")):
        parts.append(f"The worst case in NLL is {found[0]}, {signed(found[1], '.4f')} nats.")
    kinds = {name: in_words(_sides(of, BASE)) for name, of in by_stratum(rows).items() if name != "all"}
    of_kinds = [f"{name}, {said}" for name, said in kinds.items() if said]
    parts += [f"By kind: {'; '.join(of_kinds)}."] if of_kinds else []
    base = rival(rows)
    if beside := [row for row in rows if base in row.less]:
        kind = "keeps every prediction" if base == RIVALS[True] else "may change predictions"
        said = in_words(_sides(beside, base)) or "not told apart"
        said += f" on {_networks(len(beside))}" if len(beside) < len(rows) else ""
        parts.append(f"Against the best stored method that {kind}, {need_of(base).name}: {said}.")
    failed = "; ".join(name for name in PROPERTIES if any(row.properties.get(name) for row in rows))
    parts.append(f"Fails on one network or more: {failed}." if failed else "All properties that were tried hold.")
    return " ".join(parts)


def _sides(rows: Sequence[Row], base: str) -> dict[str, int]:
    """Of each error -1 or 1 where the interval of its mean, made wider, lies on one side of 0, or it is infinite."""
    found = {}
    for metric in ERRORS:
        value, low, high = difference(rows, base, metric)
        wide = Estimate(value, value - WIDER * (value - low), value + WIDER * (high - value))
        found[metric] = (wide.above() == "holds") - (wide.below() == "holds")
    return found | ({"nll": 1} if infinite(rows) else {})


def in_words(sides: dict[str, int]) -> str:
    """As "lower ECE, higher NLL", of -1 and 1 by metric; "" where all are 0."""
    found = [(word, [m for m, s in sides.items() if s == sign]) for word, sign in (("lower", -1), ("higher", 1))]
    return ", ".join(f"{word} {_and(of)}" for word, of in found if of)


def _and(names: Sequence[str]) -> str:
    *first, last = (SAID[name] for name in names)
    return f"{', '.join(first)} and {last}" if first else last


def numbers(means: dict[str, Estimate]) -> str:
    """NLL in nats, the others in points."""
    points = [f"{SAID[m]} {signed(means[m].percent, '.2f')} points" for m in ("ece", "brier")]
    nll = means["nll"]
    return "; ".join([f"NLL {signed(nll, '.4f')} nats"] * math.isfinite(nll.value) + points)


def _networks(n: int) -> str:
    return "1 network" if n == 1 else f"{n} networks"


def save(folder: str | os.PathLike, html: str, facts: dict) -> tuple[Path, ...]:
    """Write judge.html and judge.json into a folder; returns their paths."""
    texts = (html, json.dumps(facts, indent=1, allow_nan=False))
    return tuple(write_text(Path(folder) / name, text) for name, text in zip(FILES, texts, strict=True))
