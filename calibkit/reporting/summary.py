"""A report as facts for JSON, and as text for a terminal."""

from __future__ import annotations

import math
from typing import Any

from calibkit import __version__
from calibkit.metrics.comparison import Estimate
from calibkit.reporting.catalogue import BASE
from calibkit.reporting.trial import Trial, Tried


def facts(report: Any) -> dict:
    """See :meth:`calibkit.reporting.Report.facts`."""
    diagnosed, trial = report.diagnosed, report.trial
    return {
        "calibkit": __version__,
        "source": diagnosed.source,
        "classes": len(diagnosed.classes),
        "samples": {"fitted_on": len(diagnosed.val.labels), "judged_on": len(trial.judged.labels)},
        "cross_fitted": trial.folds is not None,
        "first_paragraph": diagnosed.first_paragraph,
        "findings": [finding._asdict() for finding in diagnosed.findings],
        "recommended": {
            **report.choice._asdict(),
            "reasons": list(report.choice.reasons),
            "fitted": repr(report.calibrator),
        },
        "metrics": {name: _estimates(of) for name, of in report.metrics.items()},
        "methods": of_methods(trial),
        "worst_classes": [
            {name: _round(value) if isinstance(value, float) else value for name, value in row._asdict().items()}
            for row in report.classes[:20]
        ],
    }


def of_methods(trial: Trial) -> dict[str, dict]:
    """The methods as facts, by key."""
    return {key: _of_method(tried) for key, tried in trial.methods.items()}


def _of_method(tried: Tried) -> dict:
    if not tried.values:
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


def text(report: Any) -> str:
    """See :meth:`calibkit.reporting.Report.__str__`."""
    diagnosed, choice = report.diagnosed, report.choice
    head = [
        f"{diagnosed.source}: {len(diagnosed.val.labels)} samples to fit on, "
        f"{len(report.trial.judged.labels)} to judge by, {len(diagnosed.classes)} classes",
        diagnosed.first_paragraph,
        (f"Take {choice.key} (sure: {choice.sure}). " if choice.sure != "none" else "") + " ".join(choice.reasons),
    ]
    return "\n\n".join([*head, table(report.trial, choice.key)])


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
