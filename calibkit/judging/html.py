"""A judgement as one HTML page."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from html import escape
from statistics import median
from typing import TYPE_CHECKING

from calibkit import plots
from calibkit._extras import needs
from calibkit.judging.network import STRATA, Row
from calibkit.judging.properties import PROPERTIES
from calibkit.judging.verdict import SAID, by_stratum, infinite, worst
from calibkit.metrics.comparison import Estimate
from calibkit.reporting.catalogue import BASE, need_of
from calibkit.reporting.elements import cells, change, document, figure, lacks, table, text

with needs("plots"):
    from matplotlib.figure import Figure

if TYPE_CHECKING:
    from calibkit.judging import Judgement, LossJudgement

#: Metric -> what its numbers are multiplied by, and the unit that they have then.
SHOWN = {"nll": (1, "nats"), "ece": (100, "points"), "brier": (100, "points"), "accuracy": (100, "points")}


def page(found: Judgement) -> str:
    """See :meth:`calibkit.judging.Judgement.html`."""
    what = (
        "What a difference and its interval are, and how that of a mean allows for networks with the same test "
        "samples, the book says under Protocol. It speaks of these networks, so fitted, on other test samples."
    )
    return framed(found, _of_numbers(found), "<h2>The networks</h2>", _networks(found), what=what)


def framed(found: Judgement | LossJudgement, numbers: Iterable[str], *rest: str, what: str) -> str:
    """A page: the verdict, the numbers where there are some, the rest, by what it was made and what it speaks of."""
    made, title = found.made, f"Judgement of {escape(found.key)}"
    made_by = f"calibkit {made['calibkit']}, commit {made['commit']}, {made['n_resamples']} resamples."
    made_by += f" The file's SHA-256 is {made['file']}." if made["file"] else ""
    parts = [
        f"<h1>Judgement of <code>{escape(found.key)}</code></h1>",
        f'<div class="box{"" if found.judged else " warn"}"><p>{escape(found.verdict)}</p></div>',
        *(numbers if found.judged else ()),
        *rest,
        f"<p>{made_by} {what}</p>",
    ]
    return document(title, parts)


def _of_numbers(found: Judgement) -> Iterator[str]:
    yield from claims(found.answers(), " over all networks")
    for base in found.bases:
        said = need_of(base).name
        yield f"<h2>Against {escape('one temperature' if base == BASE else said)}</h2>"
        yield _means(found, base)
        if base == BASE:
            yield _forest(found)
        yield _counts(found, base)
    yield "<h2>Properties</h2>"
    yield _properties(found)
    yield "<h2>Cost</h2>"
    yield _cost(found)


def heads(first: str, *more: str) -> tuple[str, ...]:
    """Of a table with a column for each metric."""
    return (first, *more, *(f"{SAID[metric]}, {unit}" for metric, (_, unit) in SHOWN.items()))


def claims(answers: Mapping[str, tuple[str, Estimate]], over: str = "") -> Iterator[str]:
    """What was claimed, if anything was."""
    rows = []
    for claim, (answer, mean) in answers.items():
        scale, unit = SHOWN[claim.split()[1]]  # "lower ece than ..."
        rows.append(text((claim, answer, f"{change(mean, scale)} {unit}")))
    if rows:
        caption = f"By the mean difference{over}, with its 95% interval."
        yield "<h2>What was claimed</h2>" + table(caption, ("claim", "answer", "difference"), rows)


def _means(found: Judgement, base: str) -> str:
    rows = []
    for name, of in by_stratum(found.judged).items():
        means = (change(found.differences(base, metric)[name], scale) for metric, (scale, _) in SHOWN.items())
        rows.append(cells((escape(name), str(sum(base in row.less for row in of)), *means)))
    kinds = " " + "; ".join(f"{name}: {meaning}" for name, meaning in STRATA.items()) + "." if base == BASE else ""
    caption = (
        f"Mean difference to {escape(need_of(base).name)} on common resamples, with its 95% interval over test sets. "
        f"Below 0 is better, of the accuracy above. An infinite NLL is left out.{kinds}"
    )
    return table(caption, heads("networks", "how many"), rows)


def _forest(found: Judgement) -> str:
    """The means by kind of network, in NLL and ECE."""

    def draw(canvas: Figure) -> None:
        for ax, metric in zip(canvas.subplots(2, 1), ("nll", "ece"), strict=True):
            scale, unit = SHOWN[metric]
            means = found.differences(BASE, metric)
            rows = {
                name: Estimate(*(scale * x for x in mean)) for name, mean in means.items() if math.isfinite(mean.value)
            }
            if rows:
                plots.forest_plot(rows, ax=ax, sort=False, numbers="+.4f" if scale == 1 else "+.2f")
            ax.set_xlabel(f"{SAID[metric]} less that of one temperature, {unit}")

    rows = len(found.differences(BASE, "ece"))
    caption = "On which kind of network does it help? Left of the line it is better than one temperature."
    return figure(draw, (8.0, 1.6 + 0.6 * rows), caption, "Mean differences in NLL and ECE by kind of network")


def _counts(found: Judgement, base: str) -> str:
    counts, words = (found.tally(base, metric) for metric in SHOWN), ("better", "worse", "not told apart")
    rows = [cells((word, *map(str, of))) for word, of in zip(words, zip(*counts, strict=True), strict=True)]
    ends = {metric: worst(found.judged, base, metric) for metric in SHOWN}
    shown = {m: f"{end[0]}: {change(end[1], SHOWN[m][0])}" if end else "none" for m, end in ends.items()}
    shown |= {"nll": f"{gone[0]}: infinite"} if (gone := infinite(found.judged)) else {}
    caption = (
        "On how many networks it is better or worse beyond chance: at 5% after Holm's correction over all networks and "
        "the three errors; the accuracy by itself. Worst case: the network with the largest difference to the bad side."
    )
    return table(caption, heads(""), [*rows, text(("worst case", *shown.values()))])


def _properties(found: Judgement) -> str:
    rows = []
    for name, meaning in PROPERTIES.items():
        tried = [row for row in found.judged if name in row.properties]
        failed = [row for row in tried if row.properties[name]]
        said = f"{'fails' if failed else 'holds'} on {len(failed) or len(tried)} of {len(tried)}"
        counter = f"{failed[0].network}: {failed[0].properties[name]}" if failed else ""
        rows.append(text((name, meaning, said if tried else "not tried", counter)))
    changed = max(found.judged, key=lambda row: row.changed)
    most = f" It changes {changed.changed:.2%} of the predictions at most, on {changed.network}."
    caption = f"With the first counterexample; rows are counted from 0.{escape(most) if changed.changed else ''}"
    return table(caption, ("property", "what is asked", "networks", "counterexample"), rows)


def _cost(found: Judgement) -> str:
    def spent(which: Callable[[Row], float]) -> str:
        seconds = [which(row) for row in found.judged]
        slowest = max(found.judged, key=which)
        return f"{median(seconds):.2g} s in the median, {max(seconds):.2g} s at most, on {escape(slowest.network)}"

    own, base = spent(lambda row: row.seconds[0]), spent(lambda row: row.seconds[1])
    return f"<p>A fit takes {own}. One temperature takes {base}. On one thread, with the other cores at work too.</p>"


def _networks(found: Judgement) -> str:
    rows = []
    for row in found.rows:
        if row.error:
            rows.append(lacks(row.network, row.error, 7))
            continue
        less = (
            change(Estimate(*of[:3]), scale) if (of := row.less.get(BASE, {}).get(metric)) else "infinite"
            for metric, (scale, _) in SHOWN.items()
        )
        sizes = f"{row.sizes[0]:,} x {row.sizes[2]:,}"
        rows.append(cells((escape(row.network), sizes, *less, f"{row.changed:.2%}", f"{row.seconds[0]:.2g}")))
    caption = "Each network: the difference to one temperature with its 95% interval over test samples."
    head = (*heads("network", "fitted on"), "predictions changed", "seconds to fit")
    left_out = {f"{base}: {why}": row.network for row in found.judged for base, why in row.left_out.items()}
    notes = "".join(f"<li>{escape(said)}; so on {escape(network)}</li>" for said, network in left_out.items())
    return table(caption, head, rows) + (f"<p>Left out of the comparison:</p><ul>{notes}</ul>" if notes else "")
