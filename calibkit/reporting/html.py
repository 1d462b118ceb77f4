"""A report as one HTML page, and what such pages are made of: no script, no other file, light and dark."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from calibkit import __version__, plots
from calibkit._extras import needs
from calibkit.keys import Key
from calibkit.metrics.comparison import Estimate
from calibkit.plots.classes import class_names
from calibkit.reporting.catalogue import BASE, WORTH
from calibkit.reporting.summary import SURE, ClassRow, near, says, signed
from calibkit.reporting.trial import FOLDS, Trial, Tried

with needs("plots"):
    from matplotlib.figure import Figure

if TYPE_CHECKING:
    from calibkit.reporting import Report

SHOWN = 20  # classes in a picture and in a table
STYLE = """
:root { color-scheme: light dark; --line: #d5d9de; --soft: #f3f5f7; --ink: #1d2329; --mark: #0072b2; --warn: #b34700; }
@media (prefers-color-scheme: dark) {
  :root { --line: #3a424b; --soft: #20262c; --ink: #e4e8ec; --mark: #56b4e9; --warn: #f0a050; }
  body { background: #14181c; }
}
body { color: var(--ink); font: 16px/1.55 system-ui, sans-serif; margin: 0 auto; max-width: 80rem; padding: 1.5rem; }
h1 { font-size: 1.6rem; line-height: 1.2; } h2 { font-size: 1.2rem; margin-top: 2.2rem; }
p { max-width: 46rem; } code, pre { font-family: ui-monospace, monospace; font-size: 0.9em; }
pre { background: var(--soft); overflow-wrap: anywhere; padding: 0.8rem 1rem; white-space: pre-wrap; }
.lead { font-size: 1.15rem; } code { overflow-wrap: anywhere; }
.box { border-left: 0.3rem solid var(--mark); background: var(--soft); padding: 0.2rem 1.2rem; }
.warn { border-color: var(--warn); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 0.92rem; }
caption { text-align: left; padding-bottom: 0.4rem; max-width: 46rem; }
th, td { border-bottom: 1px solid var(--line); padding: 0.25rem 0.45rem; text-align: right; white-space: nowrap; }
th:first-child, td:first-child, td.text { text-align: left; }
th { vertical-align: bottom; } th, td:first-child, td.text { white-space: normal; }
tr.taken { background: var(--soft); font-weight: 600; }
figure { margin: 1.2rem 0; } figure svg { background: #fff; height: auto; max-width: 100%; }
figcaption { max-width: 46rem; font-size: 0.92rem; }
@media (max-width: 60rem) {
  table, caption, tbody, tr, td, td.text { display: block; } thead { display: none; }
  td { border: 0; display: flex; gap: 1rem; justify-content: space-between; padding: 0 0.5rem; }
  td:empty { display: none; }
  td::before { content: attr(data-of); text-align: left; white-space: normal; }
  td:first-child, td.text { display: block; } td:first-child { font-weight: 600; }
  td:first-child::before, td.text::before { content: none; }
  tr { border-bottom: 1px solid var(--line); padding: 0.4rem 0; }
}
"""


def page(report: Report) -> str:
    """See :meth:`calibkit.reporting.Report.html`."""
    diagnosed, choice, trial = report.diagnosed, report.choice, report.trial
    judged, title = len(trial.judged.labels), f"Calibration of {escape(diagnosed.source)}"
    heavy = any(finding.weight != "note" for finding in diagnosed.findings)
    how = f"{judged:,} test samples" if trial.folds is None else f"the same samples, by a cross-fit in {FOLDS} folds"
    fitted_on = f"{len(diagnosed.val.labels):,} samples of {len(diagnosed.classes):,} classes"
    others = "".join(f"<li>{escape(text)}</li>" for text in near(report))
    parts = [
        f"<h1>{title}</h1>",
        f'<p class="lead">{escape(says(report))}</p>',
        f'<div class="box warn"><p>{escape(diagnosed.first_paragraph)}</p></div>' if heavy else "",
        "<h2>What to take</h2>",
        f'<div class="box"><p><strong>{escape(trial.methods[choice.key].need.name)}</strong>: '
        f"<code>{escape(repr(report.calibrator))}</code>. {SURE[choice.sure]}</p>",
        f"<p>{escape(' '.join(choice.reasons))}</p></div>",
        _code(choice.key, report.calibrator.floor) if choice.sure != "none" else "",
        f"<h2>What else was near</h2><ul>{others}</ul>" if others else "",
        "" if heavy else f"<p>{escape(diagnosed.first_paragraph)}</p>",
        f"<p>Calibrators were fitted on {fitted_on} and judged on {how}.</p>",
        "<h2>Confidence and accuracy</h2>",
        _reliability(report.probs, trial.judged.labels),
        _metrics(report),
        "<h2>The methods</h2>",
        _methods(report),
        _forest(trial),
        "<h2>Classes</h2>",
        _class_gaps(report.classes),
        _classes(report),
        "<h2>What was looked for</h2>",
        _findings(report),
        f"<p>calibkit {__version__}. Every interval is of 95%, over the samples judged on. What a difference is, and "
        "which one counts, the book says under Protocol; when to take which method, under Which method?</p>",
    ]
    return document(title, parts)


def _code(key: str, floor: float | None) -> str:
    """How to use it, on what it was fitted to; a probability of 0 counts as ``floor``."""
    name = Key.parse(key).name
    own = f", {name!r}" if ".py:" in name else ""
    first, use = [], f"probs = calibrate(logits)  # (N, K) before softmax -> probabilities, by {key}"
    if floor is not None:
        first = ["import numpy as np", ""]
        use = f"probs = calibrate(np.log(np.maximum(given, {floor:.1g})))  # (N, K) probabilities -> others, by {key}"
    load = f'calibrate = load_calibrator("calibrator.npz"{own})  # saved next to this page'
    lines = (*first, "from calibkit import load_calibrator", "", load, use)
    return f"<pre>{escape(chr(10).join(lines))}</pre>"


def _methods(report: Report) -> str:
    rows = [_method(key, tried, key == report.choice.key) for key, tried in report.trial.measured.items()]
    rows += [lacks(tried.need.name, tried.reason, 8) for tried in report.trial.left_out]
    less = "minus one temperature's"
    head = ("method", "NLL", f"NLL {less}", "ECE, %", f"ECE {less}, points", "Brier", "accuracy, %")
    caption = (
        "Each method on the same samples, the lowest NLL first. The two differences are to temperature scaling, on "
        "common resamples: below 0 is better, and an interval that includes 0 may be chance. "
        "Methods marked * should have more samples, and are not recommended."
    )
    return table(caption, (*head, "predictions changed", "seconds to fit"), rows)


def _method(key: str, tried: Tried, taken: bool) -> str:
    less = [change(tried.changes[m], s) if key != BASE else "" for m, s in (("nll", 1), ("ece", 100))]
    values = {metric: estimate.value for metric, estimate in tried.values.items()}
    parts = (
        escape(tried.need.name) + ("" if tried.enough else " *"),
        f"{values['nll']:.4f}" if math.isfinite(values["nll"]) else "infinite",
        less[0],
        f"{100 * values['ece']:.2f}",
        less[1],
        f"{values['brier']:.4f}",
        f"{100 * values['accuracy']:.2f}",
        "keeps all" if tried.calibrator.keeps_predictions else f"{tried.changed:.2%}",
        f"{tried.seconds:.2g}",
    )
    return cells(parts, "taken" * taken)


def _metrics(report: Report) -> str:
    before, after = report.metrics["before"], report.metrics["after"]
    rows = [cells((metric, f"{before[metric]:.4f}", f"{after[metric]:.4f}")) for metric in before]
    caption = (
        "All metrics with their intervals, fractions and nats. A calibration error whose interval begins at 0 is not "
        "told apart from 0."
    )
    return table(caption, ("metric", "before", "after"), rows)


def _classes(report: Report) -> str:
    rows = []
    for row in report.classes[:SHOWN]:
        right = f"{100 * row.accuracy:.1f}" if row.predicted else ""
        gaps = (signed(100 * gap, ".1f") if math.isfinite(gap) else "" for gap in (row.before, row.after))
        rows.append(cells((escape(row.name), f"{row.samples:,}", f"{row.predicted:,}", right, *gaps)))
    more = f" The {len(rows)} worst of {len(report.classes):,} classes." if len(report.classes) > len(rows) else ""
    caption = (
        f"Of what is predicted to be of a class: how much is, and the mean confidence less that share, in points.{more}"
    )
    return table(caption, ("class", "samples", "predicted", "right, %", "gap before", "gap after"), rows)


def _findings(report: Report) -> str:
    found = report.diagnosed.findings
    looked = (
        "Probabilities in place of logits, labels from 1, zero or rounded probabilities, absent classes, too few "
        "samples, the same sample twice, labels that do not belong to their rows; between two splits: common samples, "
        "other class shares, another gap between confidence and accuracy, a network trained on the validation set."
    )
    items = "".join(f"<li><strong>{escape(f.kind)}</strong>: {escape(f.text)}</li>" for f in found)
    return f"<p>{looked} Found: {'nothing.' if not found else ''}</p><ul>{items}</ul>"


def _reliability(probs: Mapping[str, np.ndarray], labels: np.ndarray) -> str:
    """Reliability diagrams before and after, beside each other."""
    caption = (
        "Is the network as often right as it says? Blue: accuracy among the samples of a bin of confidence; on the "
        "dashed line the two are equal. Grey: where a calibrated network would lie."
    )
    alt = "Reliability diagrams before and after calibration"
    return figure(lambda figure: plots.before_after(probs, labels, fig=figure), (8.0, 4.4), caption, alt)


def _forest(trial: Trial) -> str:
    """Differences in NLL to temperature scaling, with intervals."""
    changes = {tried.need.name: tried.changes["nll"] for key, tried in trial.measured.items() if key != BASE}
    rows = {name: change for name, change in changes.items() if np.isfinite(change).all()}
    if not rows:
        return ""

    def draw(figure: Figure) -> None:
        ax = plots.forest_plot(rows, ax=figure.subplots(), linear=WORTH, numbers="+.4f")
        ax.set_xlabel("NLL less that of one temperature, nats")

    caption = "Which methods are better than one temperature? Left of the line, those whose whole interval lies there."
    return figure(draw, (8.0, 0.8 + 0.3 * len(rows)), caption, "Differences in NLL to temperature scaling")


def _class_gaps(rows: Sequence[ClassRow]) -> str:
    """The gap of the worst classes, before and after."""
    shown = [row for row in rows if row.predicted][:SHOWN]

    def draw(figure: Figure) -> None:
        ax, y = figure.subplots(), np.arange(len(shown))[::-1]
        ax.axvline(0, color=plots.BLACK, linewidth=0.8)
        before, after = (100 * np.array([getattr(row, name) for row in shown]) for name in ("before", "after"))
        ax.hlines(y, before, after, color=plots.GREY, linewidth=0.8)
        ax.plot(before, y, "o", color=plots.RED, label="before")
        ax.plot(after, y, "s", color=plots.BLUE, label="after")
        ax.set_yticks(y, class_names([row.name for row in shown], len(shown)))
        ax.set(xlabel="mean confidence less accuracy, points", ylim=(-0.7, len(shown) - 0.3))
        ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)  # above: within it may lie on a class

    caption = "Which classes is the network too sure of? Right of the line those of which it says too much."
    return figure(draw, (8.0, 1.2 + 0.25 * len(shown)), caption, "Confidence less accuracy by predicted class")


def document(title: str, parts: Iterable[str]) -> str:
    """A whole page; title and parts are HTML."""
    body = "\n".join(parts)
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>'
    return f'<!doctype html>\n<html lang="en"><head>{head}<style>{STYLE}</style></head><body>\n{body}\n</body></html>\n'


def table(caption: str, head: Iterable[str], rows: Iterable[str]) -> str:
    """A table of rows that are HTML; on a phone each row is a list, where a cell has the name of its column."""
    names = tuple(head)
    cells = "".join(f'<th scope="col">{name}</th>' for name in names)
    body = "\n".join(_named(row, names) for row in rows)
    caption = f"<caption>{caption}</caption>"
    return f'<div class="wide"><table>{caption}<thead><tr>{cells}</tr></thead><tbody>\n{body}\n</tbody></table></div>'


def cells(parts: Iterable[str], kind: str = "") -> str:
    """A row of HTML."""
    return f"<tr{kind and f' class={kind}'}>" + "".join(f"<td>{cell}</td>" for cell in parts) + "</tr>"


def lacks(name: str, why: str, columns: int) -> str:
    """A row of text on what has no numbers for so many columns."""
    return f'<tr><td>{escape(name)}</td><td class="text" colspan="{columns}">{escape(why)}</td></tr>'


def _named(row: str, names: Sequence[str]) -> str:
    start, *cells = row.split("<td")
    return start + "".join(f'<td data-of="{escape(name)}"{cell}' for name, cell in zip(names, cells, strict=False))


def figure(draw: Callable[[Figure], object], size: tuple[float, float], caption: str, alt: str) -> str:
    """What ``draw`` draws, with its caption."""
    return f"<figure>{plots.svg(draw, size, alt)}<figcaption>{escape(caption)}</figcaption></figure>"


def change(x: Estimate, scale: float) -> str:
    """A difference with its interval, a true minus sign before what is below 0; nothing where it is not finite."""
    if not all(map(math.isfinite, x)):
        return ""
    return signed(Estimate(*(scale * part for part in x)), ".4f" if scale == 1 else ".2f")
