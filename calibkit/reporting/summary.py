"""What a report says: in sentences, the first of which is how often the network is right; as facts; as text.

The facts are for JSON, the text is for a terminal. The page is in ``html.py``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from calibkit import __version__
from calibkit.metrics.comparison import Comparison, Estimate
from calibkit.metrics.drift import binomial_tail
from calibkit.metrics.intervals import bonferroni, holm
from calibkit.reporting.catalogue import ALPHA, BASE, capital
from calibkit.reporting.trial import Trial, Tried

if TYPE_CHECKING:
    from calibkit.reporting import Report

#: How sure the advice is, to somebody who knows no test.
SURE = {
    "high": "The numbers decide this: chance alone would rarely give such a difference.",
    "some": "The numbers do not decide this: it is the usual choice, and nothing speaks against it.",
    "low": "Do not rely on this before the warning above is settled.",
    "none": "",
}
OFF = 0.05  # from which gap on a class is said to stay off
RARE = 0.2  # the share of a class of two, from which down it is rare
FEWEST = 30  # predictions of a class, for an interval of a mean


def says(report: Report) -> str:
    """What the network says and how often it is right, in whole sentences; and what it says after the calibrator.

    Of two classes of which one is rare it is what the network gives to that one: it may always name the other, and be
    as sure of it as it should not.
    """
    judged, key = report.trial.judged, report.choice.key
    before, after = report.probs["before"], report.probs["after"]
    shares = np.bincount(judged.labels, minlength=before.shape[1]) / len(judged.labels)
    rare = int(shares.argmin()) if len(shares) == 2 and shares.min() < RARE else None
    right = [f"{(p.argmax(1) == judged.labels).mean():.1%}" for p in (before, after)]
    if rare is None:
        said, new, hit = before.max(1), after.max(1), before.argmax(1) == judged.labels
        text = f"Your network says {said.mean():.1%} and is right in {right[0]}"
        word, words = "says", ("too sure", "not sure enough")
        more = f" and is right in {right[1]}" if right[1] != right[0] else ""
    else:
        said, new, hit = before[:, rare], after[:, rare], judged.labels == rare
        name, other = report.diagnosed.classes[rare], report.diagnosed.classes[1 - rare]
        text = f"Your network gives {name} {said.mean():.1%} on average, and {shares[rare]:.1%} are of it"
        word, words = "gives", ("too much", "too little")
        most = f"{1 - shares[rare]:.1%}"
        more = f". The class that it names is right in {right[1]}; always naming {other} would be in {most}"
    text += f": {_in_words(gap_of(said, hit, judged.groups), *words)}"
    if key != "identity":
        name = "one temperature" if key == BASE else report.trial.methods[key].need.name
        text += f"; after {name} it {word} {new.mean():.1%}"
    ece = [f"{report.metrics[when]['ece'].percent.value:.1f}" for when in ("before", "after")]
    apart = f"{ece[0]} points apart" + ("" if key == "identity" else f" before and {ece[1]} after")
    return f"{text}{more}. Confidence and accuracy lie {apart}, over levels of confidence (ECE)."


def near(report: Report) -> tuple[str, ...]:
    """What else could be taken, and what stays off, in sentences; each "beyond chance" is one of a family of tests."""
    trial, key = report.trial, report.choice.key
    safe = {name: tried for name, tried in trial.measured.items() if tried.enough and not tried.zeros}
    methods = {name: tried for name, tried in safe.items() if name not in (key, "identity")}
    found, compared = [], trial.comparison
    if methods and compared is not None and report.choice.sure != "none":
        for metric, sign, digits, text in (
            ("brier", -1, ".4f", "has the lower Brier score"),
            ("accuracy", 1, ".2%", "is right more often"),
        ):
            if better := _apart(compared, methods, key, metric, sign):
                best = max(better, key=lambda name: sign * methods[name].values[metric].value)
                numbers = [format(tried.values[metric].value, digits) for tried in (methods[best], trial.methods[key])]
                found.append(f"{capital(methods[best].need.name)} {text}, beyond chance: {' against '.join(numbers)}.")
        worse = _apart(compared, methods, key, "nll", 1)
        worse += [name for name, tried in methods.items() if not np.isfinite(tried.values["nll"].value)]
        tied = [tried.need.name for name, tried in methods.items() if name not in worse]
        more = f" and {len(tied) - 4} more" if len(tied) > 4 else ""
        if tied:
            found.append(f"Not clearly worse by NLL: {'; '.join(tied[:4])}{more}.")
        else:
            found.append("By NLL it is better, beyond chance, than each of the others that these data allow.")
    if compared is not None and report.choice.sure != "none" and key != "identity":
        for metric, text in (("brier", "Brier score"), ("ece", "ECE")):
            if _apart(compared, ["identity"], key, metric, -1):
                numbers = [format(report.metrics[when][metric].value, ".4f") for when in ("before", "after")]
                found.append(f"The network as it is has the lower {text}, beyond chance: {' against '.join(numbers)}.")
    off = stay_off(report.probs["after"], trial.judged.labels, trial.judged.groups, report.diagnosed.classes)
    if off:
        found.append(f"Predictions that {'are' if key == 'identity' else 'stay'} off: {'; '.join(off)}.")
    return tuple(found)


def gap_of(said: np.ndarray, hit: np.ndarray, groups: np.ndarray | None = None) -> Estimate:
    """The mean of (N,) probabilities less the share of (N,) hits, with the interval of a mean, over whole groups."""
    off = said - hit
    mean = float(off.mean())
    each = off - mean if groups is None else np.bincount(np.unique(groups, return_inverse=True)[1], off - mean)
    arm = float(NormalDist().inv_cdf(0.975) * np.sqrt((each**2).sum()) / len(off))
    return Estimate(mean, mean - arm, mean + arm)


def _apart(compared: Comparison, methods: Iterable[str], key: str, metric: str, sign: int) -> list[str]:
    """The methods whose metric lies on that side of the one of ``key``, beyond chance."""
    chances = holm({name: compared.chance(name, key, metric) for name in methods})
    less = {name: compared.difference(name, key, metric).value for name in methods}
    return [name for name, chance in chances.items() if chance < ALPHA and sign * less[name] > 0]


def stay_off(probs: np.ndarray, labels: np.ndarray, groups: np.ndarray | None, classes: Sequence[str]) -> list[str]:
    """The four classes whose predictions concern most, of those that are off by 5 points and beyond chance."""
    top, confidence = probs.argmax(1), probs.max(1)
    counts = np.bincount(top, minlength=len(classes))
    asked, found = np.flatnonzero(counts >= FEWEST), []
    wider = bonferroni(max(len(asked), 1), ALPHA)
    for i in asked.tolist():
        of = top == i
        hit = labels[of] == i
        gap = gap_of(confidence[of], hit, None if groups is None else groups[of])
        if groups is None:
            # Of unequal probabilities the sum has no longer tails than a binomial (Hoeffding 1956). An interval of a
            # mean is too short for some thirty sure predictions.
            tail = binomial_tail(hit.sum(), len(hit), confidence[of].sum(dtype=float))
            seen = 2 * tail <= ALPHA / len(asked)
        else:
            seen = abs(gap.value) > wider * (gap.high - gap.value)
        if abs(gap.value) >= OFF and seen:
            word = "too sure" if gap.value > 0 else "not sure enough"
            found.append((counts[i] * abs(gap.value), f"{classes[i]}, {word} by {100 * abs(gap.value):.0f} points"))
    return [text for _, text in sorted(found, reverse=True)[:4]]


def _in_words(gap: Estimate, more: str, less: str) -> str:
    points = gap.percent
    if gap.low <= 0 <= gap.high:
        return "the difference may be chance"
    low, high = sorted((abs(points.low), abs(points.high)))
    return f"{more if gap.value > 0 else less} by {abs(points.value):.1f} points (between {low:.1f} and {high:.1f})"


def signed(x: Estimate | float, spec: str) -> str:
    """A difference, with its interval where it has one, and with a true minus sign."""
    return format(x, f"+{spec}").replace("-", "\N{MINUS SIGN}")


def plain(x: Any, digits: int | None = None) -> Any:
    """What JSON can hold: named tuples as dicts, other sequences as lists, None for what is not finite.

    Six ``digits`` of a float are what every machine and any number of threads agree on.

    Example:
        >>> plain({"a": Estimate(math.nan, 0.0, 1.0), "b": (1 / 3, math.inf)}, 3)
        {'a': {'value': None, 'low': 0.0, 'high': 1.0}, 'b': [0.333, None]}
    """
    x = x._asdict() if hasattr(x, "_asdict") else x
    if isinstance(x, dict):
        return {name: plain(part, digits) for name, part in x.items()}
    if isinstance(x, list | tuple):
        return [plain(part, digits) for part in x]
    if not isinstance(x, float):
        return x
    if not math.isfinite(x):
        return None
    return x if digits is None else float(f"{x:.{digits}g}") + 0.0


def facts(report: Report) -> dict:
    """See :meth:`calibkit.reporting.Report.facts`."""
    diagnosed, trial = report.diagnosed, report.trial
    found = {
        "calibkit": __version__,
        "source": diagnosed.source,
        "classes": len(diagnosed.classes),
        "samples": {"fitted_on": len(diagnosed.val.labels), "judged_on": len(trial.judged.labels)},
        "cross_fitted": trial.folds is not None,
        "says": says(report),
        "first_paragraph": diagnosed.first_paragraph,
        "findings": diagnosed.findings,
        "recommended": {**report.choice._asdict(), "fitted": repr(report.calibrator), "near": near(report)},
        "metrics": report.metrics,
        "methods": {key: _of_method(tried) for key, tried in trial.methods.items()},
        "worst_classes": report.classes[:20],
    }
    return plain(found, digits=6)


def _of_method(tried: Tried) -> dict:
    if tried.fitted is None:
        return {"name": tried.need.name, "left_out": tried.reason}
    return {
        "name": tried.need.name,
        "fitted": repr(tried.fitted),
        "seconds": float(f"{tried.seconds:.2g}"),
        "enough_samples": tried.enough,
        "keeps_predictions": tried.fitted.keeps_predictions,
        "predictions_changed": tried.changed,
        "values": tried.values,
        "less_temperature_scaling": tried.changes,
        "chance": tried.chance,
    }


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
    """One class: of the samples that are predicted to be of it."""

    name: str
    samples: int  # how many are of the class
    predicted: int  # how many the network says are
    accuracy: float  # the share of those that are
    before: float  # their mean confidence less that share, without a calibrator; NaN if none is predicted
    after: float  # the same with the calibrator, by its own predictions


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
