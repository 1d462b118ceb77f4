"""A report on a classifier: what is wrong with its data, how honest its confidence is, and which calibrator to take.

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> z = rng.normal(size=(4000, 3)) * 2
>>> y = (z + rng.gumbel(size=z.shape)).argmax(1)
>>> found = report(Logits(3 * z[:2000], y[:2000], 3 * z[2000:], y[2000:]), n_resamples=200)
>>> found.choice.key, found.choice.sure
('temperature_scaling', 'high')
>>> round(found.calibrator.temperature, 1)
3.0
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from calibkit._checks import Array, check_flag, expected
from calibkit._progress import progress, step
from calibkit.calibrators import Calibrator
from calibkit.keys import check_options
from calibkit.logits import Logits
from calibkit.metrics import REPORTED
from calibkit.metrics.comparison import Comparison, Estimate
from calibkit.reading import Given, Source, read
from calibkit.reporting.catalogue import Choice, choose
from calibkit.reporting.data_checks import Finding
from calibkit.reporting.diagnosis import Diagnosed, diagnose
from calibkit.reporting.labels import LabelReports, each_label, has_many, save
from calibkit.reporting.summary import ClassRow, facts, of_classes, text
from calibkit.reporting.trial import METRICS, Trial, try_all


@dataclass(frozen=True)
class Report:
    """What :func:`report` found.

    Attributes:
        diagnosed: the data, checked, and what looks wrong in them.
        trial: every method with its numbers.
        choice: which to take, how sure that is, and why.
        metrics: "before" and "after" -> metric -> value with interval, on the samples that all were judged on.
        probs: "before" and "after" -> probabilities (M, K); before, where these were given, as they were.
        classes: a row a class, the worst first.
    """

    diagnosed: Diagnosed
    trial: Trial
    choice: Choice
    metrics: dict[str, dict[str, Estimate]]
    probs: dict[str, np.ndarray]
    classes: tuple[ClassRow, ...]

    @property
    def calibrator(self) -> Calibrator:
        """The one to take, fitted on all samples to fit on; ``identity`` where nothing is recommended."""
        return self.trial.methods[self.choice.key].calibrator

    def facts(self) -> dict:
        """All of it as what JSON can hold: numbers to six digits, fractions and nats."""
        return facts(self)

    def __str__(self) -> str:
        """What the network says, what is wrong, the advice, what was near; a table of the methods."""
        return text(self)

    __repr__ = __str__

    def html(self) -> str:
        """One page that needs no other file; its pictures need the extra "plots"."""
        from calibkit.reporting.html import page

        return page(self)

    def save(self, folder: str | os.PathLike) -> tuple[Path, ...]:
        """Write report.html, report.json and calibrator.npz into a folder; returns their paths.

        The three are of one report, whatever happens while they are written. Where nothing is recommended, there is no
        calibrator.npz, nor is one of an earlier report left.
        """
        return save(folder, self, {"calibrator.npz": self})


def report(
    source: Given | Source,
    labels: str | os.PathLike | Array | None = None,
    *,
    methods: Iterable[str] | None = None,
    keep_predictions: bool = False,
    everything: bool = False,
    n_resamples: int = 1000,
    seed: int = 0,
    **options: Any,
) -> Report | LabelReports:
    """Look at the data, fit and compare the calibrators, and recommend one.

    Where each sample has several labels, (N, K) of 0 and 1, each is a problem of two classes and gets a report of its
    own: the result is then a :class:`~calibkit.reporting.labels.LabelReports`, which says the means over the labels.

    Args:
        source: what :func:`calibkit.reading.read` reads; or what it gave, without labels and options of ``read`` then.
        labels: as there.
        methods: keys of calibrators; all that fit in seconds if None.
        keep_predictions: whether to recommend only what keeps every prediction.
        everything: fit also what takes minutes or more.
        n_resamples: of the intervals.
        seed: of resamples and folds.
        options: of ``read``: kind, label, split, group, id, classes, ignore.

    Raises:
        ValueError: data that cannot be used; see :func:`calibkit.reporting.diagnosis.diagnose`.
    """
    keep_predictions = check_flag("keep_predictions", keep_predictions)
    everything = check_flag("everything", everything)
    check_options(read, "report", options)
    if isinstance(source, Given) and (labels is not None or options):
        got = ", ".join(["labels"] * (labels is not None) + [*options])
        raise expected("source", "still to be read, where labels or options of `read` are given", f"a Given and {got}")
    given = source if isinstance(source, Given) else read(source, labels, **options)
    keys = list(methods) if isinstance(methods, Iterator) else methods
    of_one = partial(_of_one, keys, keep_predictions, everything, {"n_resamples": n_resamples, "seed": seed})
    if not has_many(given):
        return of_one(given)
    found, each = {}, dict(each_label(given))
    for name, of in each.items():
        if len(set(np.asarray(of.val.labels).tolist())) > 1:
            try:
                found[name] = of_one(of)
            except ValueError as error:
                raise ValueError(f"{error}, of the label {name!r}") from error
    if not found:
        raise expected("labels", "there in some samples to fit on and not in others", "none that is")
    return LabelReports(found, tuple(each), given.source)


def _of_one(
    methods: Iterable[str] | None, keep_predictions: bool, everything: bool, resampling: dict[str, int], given: Given
) -> Report:
    """The report where each sample has one label."""
    diagnosed = diagnose(given)
    with progress("report"):
        trial = try_all(diagnosed.val, diagnosed.test, methods, everything=everything, **resampling)
        choice, judged = choose(trial, diagnosed, keep_predictions=keep_predictions), trial.judged
        step("intervals of all metrics")
        others = [metric for metric in REPORTED if metric not in METRICS]  # those in METRICS the trial has measured
        compared = Comparison(judged.labels, others, groups=judged.groups, **resampling)
        metrics, probs = {}, {}
        for name, key in (("before", "identity"), ("after", choice.key)):
            probs[name] = trial.probs(key)
            compared.add(name, probs[name])
            found = trial.methods[key].values | {metric: compared.of(name, metric) for metric in others}
            metrics[name] = {metric: found[metric] for metric in REPORTED}
    chosen = trial.methods[choice.key].calibrator
    chosen.classes, chosen.floor = given.classes, diagnosed.floor
    return Report(diagnosed, trial, choice, metrics, probs, of_classes(probs, judged.labels, diagnosed.classes))


__all__ = [
    "Choice", "Diagnosed", "Finding", "LabelReports", "Logits", "Report", "Trial", "choose", "diagnose", "report",
    "try_all",
]  # fmt: skip
