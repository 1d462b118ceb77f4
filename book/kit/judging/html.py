"""A judgement as one HTML page: of a calibrator, and of a loss."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from html import escape
from statistics import fmean, median, stdev
from typing import TYPE_CHECKING

from book.kit.judging.loss_verdict import BASE as LOSS_BASE
from book.kit.judging.loss_verdict import WAYS
from book.kit.judging.loss_verdict import signs as loss_signs
from book.kit.judging.network import PROPERTIES, STRATA, Row
from book.kit.judging.verdict import SAID, by_stratum, infinite, worst
from calibkit import plots
from calibkit._extras import needs
from calibkit.metrics.comparison import Estimate
from calibkit.reporting.catalogue import BASE, need_of
from calibkit.reporting.html import cells, change, document, figure, lacks, table

with needs("plots"):
    from matplotlib.figure import Figure

if TYPE_CHECKING:
    from book.kit.judging import Judgement, LossJudgement

#: Metric -> what its numbers are multiplied by, and the unit that they have then.
SHOWN = {"nll": (1, "nats"), "ece": (100, "points"), "brier": (100, "points"), "accuracy": (100, "points")}


def page(found: Judgement) -> str:
    """See :meth:`book.kit.judging.Judgement.html`."""
    what = (
        "What a difference and its interval are, and how that of a mean allows for networks with the same test "
        "samples, the book says under Protocol. It speaks of these networks, so fitted, on other test samples."
    )
    return _framed(found, _of_numbers(found), "<h2>The networks</h2>", _networks(found), what=what)


def _framed(found: Judgement | LossJudgement, numbers: Iterable[str], *rest: str, what: str) -> str:
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
    yield from _claims(found.answers(), " over all networks")
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


def _claims(answers: Mapping[str, tuple[str, Estimate]], over: str = "") -> Iterator[str]:
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


#: One of ``values`` -> in words.
METHODS = {"identity": "as trained", "temperature_scaling": "after one temperature"}


def loss_page(found: LossJudgement) -> str:
    """See :meth:`book.kit.judging.losses.LossJudgement.html`."""
    what = (
        "The spread over seeds is pooled over all stored losses that were trained several times. It speaks of this "
        "network and recipe, on other test samples and from other seeds; a longer training may turn it round."
    )
    return _framed(found, _of_loss(found), "<h2>How it was trained</h2>", *_trained(found), what=what)


def _of_loss(found: LossJudgement) -> Iterator[str]:
    yield from _claims({claim: (answer, of.estimate) for claim, (answer, of) in found.answers().items()})
    yield "<h2>Against cross-entropy</h2>"
    yield _against_base(found)
    yield "<h2>Against the other stored losses</h2>"
    yield from (_against_others(found, way) for way in [*WAYS][:2])
    yield _loss_forest(found)
    yield "<h2>Its values</h2>"
    yield _values(found)


def _against_base(found: LossJudgement) -> str:
    rows = []
    for way, of in found.less[LOSS_BASE].items():
        rows.append(cells((escape(way), *(change(of[m].estimate, scale) for m, (scale, _) in SHOWN.items()))))
        least = (f"{scale * of[m].seen:.{4 if scale == 1 else 2}f}" for m, (scale, _) in SHOWN.items())
        rows.append(cells(("&nbsp;&nbsp;seen in 80%", *least)))
    caption = (
        "Mean difference with its 95% interval, over test samples and seeds. Below 0 is better, of the accuracy above. "
        "Seen in 80%: the true difference that such a comparison tells from 0 four times in five."
    )
    return table(caption, heads(""), rows)


def _against_others(found: LossJudgement, way: str) -> str:
    rows = [
        cells((escape(base), *(change(of[way][m].estimate, scale) for m, (scale, _) in SHOWN.items())))
        for base, of in found.less.items()
    ]
    sides = loss_signs(found.less, way)
    for sign, word in ((-1, "lower than"), (1, "higher than"), (0, "not told apart from")):
        counts = (sum(of == m and side == sign for (_, of), side in sides.items()) for m in SHOWN)
        rows.append(cells((f"<b>{word}</b>", *map(str, counts))))
    caption = (
        f"{way[0].upper()}{way[1:]}: difference to each stored loss, with the options of its paper. The counts are "
        "beyond chance, at 5% after Holm's correction over losses and the three errors; the accuracy by itself."
    )
    return table(caption, heads("less that of"), rows)


def _loss_forest(found: LossJudgement) -> str:
    """The differences in ECE to every stored loss."""

    def draw(canvas: Figure) -> None:
        for ax, way in zip(canvas.subplots(1, 2, sharey=True), [*WAYS][:2], strict=True):
            rows = {base: Estimate(*of[way]["ece"].estimate.percent) for base, of in found.less.items()}
            plots.forest_plot(rows, ax=ax, sort=False, numbers=None)
            ax.set(title=way, xlabel="ECE less that of the other, points")

    caption = "Is its ECE lower than that of other losses? Left of the line it is; right of it, it is higher."
    return figure(draw, (9.0, 1.2 + 0.3 * len(found.less)), caption, "Differences in ECE to each stored loss")


def _values(found: LossJudgement) -> str:
    rows = []
    for method, of in found.values.items():
        shown = []
        for metric, (scale, _) in SHOWN.items():
            values, digits = [scale * value for value in of[metric]], 4 if scale == 1 else 2
            spread = f" \N{PLUS-MINUS SIGN} {stdev(values):.{digits}f}" if len(values) > 1 else ""
            shown.append(f"{fmean(values):.{digits}f}{spread}")
        rows.append(cells((METHODS[method], *shown)))
    percent = [head.replace("points", "%") for head in heads("")]
    return table("Mean over seeds, and their standard deviation.", percent, rows)


def _trained(found: LossJudgement) -> Iterator[str]:
    made = found.made
    usual = {"epochs", "batch_size", "lr", "momentum", "weight_decay", "schedule", "augment", "optimizer"}
    recipe = ", ".join(f"{name} {value}" for name, value in made["recipe"].items() if name in usual)
    yield f"<p>{made['model']} on {made['data']}: {escape(recipe)}.</p>"
    if made["grid"]:
        values = "; ".join(f"{option}: {', '.join(map(str, of))}" for option, of in made["grid"].items())
        how = "Each setting is trained from seed 0, and that with the lowest validation NLL from all seeds"
        yield f"<p>Tried were {escape(values)}. {how}: <code>{escape(found.key)}</code>.</p>"
    if not found.rows:
        yield "<p>These trainings are stored; nothing was trained.</p>"
    else:
        rows = [
            text((row.network, row.error or f"validation NLL {row.val_nll:.4f}", f"{row.seconds:.0f}"))
            for row in found.rows
        ]
        done = [row.seconds for row in found.rows if not row.error]
        cost = f" In the median one took {median(done):.0f} s, reading included." if done else ""
        yield table(f"Each training.{cost}", ("training", "what came of it", "seconds"), rows)


def text(parts: Iterable[str]) -> str:
    """A row of text, which may be broken."""
    return "<tr>" + "".join(f'<td class="text">{escape(cell)}</td>' for cell in parts) + "</tr>"
