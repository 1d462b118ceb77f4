"""What a report says of the methods and of the classes: as facts for JSON, and as text for a terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from calibkit import __version__
from calibkit.metrics.comparison import Estimate
from calibkit.reporting.answer import SURE, near, says
from calibkit.reporting.catalogue import BASE
from calibkit.reporting.trial import Trial, Tried

if TYPE_CHECKING:
    from calibkit.reporting import Report


def facts(report: Report) -> dict:
    """See :meth:`calibkit.reporting.Report.facts`."""
    diagnosed, trial = report.diagnosed, report.trial
    return {
        "calibkit": __version__,
        "source": diagnosed.source,
        "classes": len(diagnosed.classes),
        "samples": {"fitted_on": len(diagnosed.val.labels), "judged_on": len(trial.judged.labels)},
        "cross_fitted": trial.folds is not None,
        "says": says(report),
        "first_paragraph": diagnosed.first_paragraph,
        "findings": [finding._asdict() for finding in diagnosed.findings],
        "recommended": {
            **report.choice._asdict(),
            "reasons": list(report.choice.reasons),
            "fitted": repr(report.calibrator),
            "near": list(near(report)),
        },
        "metrics": {name: _estimates(of) for name, of in report.metrics.items()},
        "methods": {key: _of_method(tried) for key, tried in trial.methods.items()},
        "worst_classes": [
            {name: _round(value) if isinstance(value, float) else value for name, value in row._asdict().items()}
            for row in report.classes[:20]
        ],
    }


def _of_method(tried: Tried) -> dict:
    if tried.fitted is None:
        return {"name": tried.need.name, "left_out": tried.reason}
    return {
        "name": tried.need.name,
        "fitted": repr(tried.fitted),
        "seconds": float(f"{tried.seconds:.2g}"),
        "enough_samples": tried.enough,
        "keeps_predictions": tried.fitted.keeps_predictions,
        "predictions_changed": _round(tried.changed),
        "values": _estimates(tried.values),
        "less_temperature_scaling": _estimates(tried.changes),
        "chance": {metric: _round(chance) for metric, chance in tried.chance.items()},
    }


def _estimates(of: dict[str, Estimate]) -> dict[str, dict]:
    return {name: {part: _round(x) for part, x in estimate._asdict().items()} for name, estimate in of.items()}


def _round(x: float) -> float | None:
    """Six digits, which every machine and any number of threads agree on; None where JSON has no number."""
    return float(f"{x:.6g}") + 0.0 if math.isfinite(x) else None


def text(report: Report) -> str:
    """See :meth:`calibkit.reporting.Report.__str__`."""
    diagnosed, choice = report.diagnosed, report.choice
    name = report.trial.methods[choice.key].need.name
    take = [f"Take {name} (sure: {choice.sure}), key {choice.key}.", SURE[choice.sure]] if choice.sure != "none" else []
    head = [
        f"{diagnosed.source}: {len(diagnosed.val.labels)} samples to fit on, "
        f"{len(report.trial.judged.labels)} to judge by, {len(diagnosed.classes)} classes",
        says(report),
        diagnosed.first_paragraph,
        " ".join([*take, *choice.reasons]),
        " ".join(near(report)),
    ]
    return "\n\n".join([*filter(None, head), table(report.trial, choice.key)])


def table(trial: Trial, chosen: str) -> str:
    """The methods, the lowest NLL first, the chosen one marked."""
    change = "NLL less that of one temperature"
    lines = [f"  {'method':34} {'NLL':>8} {'ECE %':>7}   {change:32} {'changed':>8} {'seconds':>8}"]
    for key, tried in trial.measured.items():
        nll, ece = tried.values["nll"].value, tried.values["ece"].percent.value
        change = f"{tried.changes['nll']:+.4f}" if key != BASE and math.isfinite(nll) else ""
        few = "" if tried.enough else "   few samples"
        lines.append(
            f"{'>' if key == chosen else ' '} {tried.need.name:34} {nll:8.4f} {ece:7.2f}   {change:32} "
            f"{tried.changed:8.2%} {tried.seconds:8.2f}{few}"
        )
    return "\n".join([*lines, *(f"  {tried.need.name:34} left out: {tried.reason}" for tried in trial.left_out)])


class ClassRow(NamedTuple):
    """One class: of the samples that are predicted to be of it.

    Attributes:
        name: of the class.
        samples: how many are of the class.
        predicted: how many the network says are.
        accuracy: the share of those that are.
        before: their mean confidence less that share, without a calibrator; NaN if none is predicted.
        after: the same with the calibrator, by its own predictions.
    """

    name: str
    samples: int
    predicted: int
    accuracy: float
    before: float
    after: float


def of_classes(probs: Mapping[str, np.ndarray], labels: np.ndarray, classes: Sequence[str]) -> tuple[ClassRow, ...]:
    """A row for each class, sorted by how many samples its gap concerns.

    Example:
        >>> p = np.array([[0.9, 0.1], [0.9, 0.1], [0.4, 0.6]])
        >>> rows = of_classes({"before": p, "after": p}, np.array([0, 1, 1]), "ab")
        >>> [(row.name, round(row.before, 2)) for row in rows]
        [('a', 0.4), ('b', -0.4)]
    """
    k = len(classes)
    samples = np.bincount(labels, minlength=k)
    gaps = {}
    for name, p in probs.items():
        top = p.argmax(1)
        counts = np.bincount(top, minlength=k)
        hits = np.bincount(top, weights=top == labels, minlength=k)
        with np.errstate(invalid="ignore", divide="ignore"):
            gaps[name] = (np.bincount(top, weights=p.max(1), minlength=k) - hits) / counts
            if name == "before":
                predicted, accuracy = counts, hits / counts
    order = np.argsort(-np.nan_to_num(np.abs(gaps["before"])) * predicted, kind="stable")
    return tuple(
        ClassRow(
            classes[i], int(samples[i]), int(predicted[i]), float(accuracy[i]), *(float(gaps[n][i]) for n in probs)
        )
        for i in order
    )
