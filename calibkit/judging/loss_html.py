"""A judgement of a loss as one HTML page."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from statistics import fmean, median, stdev
from typing import TYPE_CHECKING

from calibkit import plots
from calibkit._extras import needs
from calibkit.judging.html import SHOWN, claims, framed, heads
from calibkit.judging.loss_verdict import BASE, WAYS, signs
from calibkit.metrics.comparison import Estimate
from calibkit.reporting.elements import cells, change, figure, table, text

with needs("plots"):
    from matplotlib.figure import Figure

if TYPE_CHECKING:
    from calibkit.judging.losses import LossJudgement

#: One of ``values`` -> in words.
METHODS = {"identity": "as trained", "temperature_scaling": "after one temperature"}


def page(found: LossJudgement) -> str:
    """See :meth:`calibkit.judging.losses.LossJudgement.html`."""
    what = (
        "The spread over seeds is pooled over all stored losses that were trained several times. It speaks of this "
        "network and recipe, on other test samples and from other seeds; a longer training may turn it round."
    )
    return framed(found, _of_numbers(found), "<h2>How it was trained</h2>", *_trained(found), what=what)


def _of_numbers(found: LossJudgement) -> Iterator[str]:
    yield from claims({claim: (answer, of.estimate) for claim, (answer, of) in found.answers().items()})
    yield "<h2>Against cross-entropy</h2>"
    yield _against_base(found)
    yield "<h2>Against the other stored losses</h2>"
    yield from (_against_others(found, way) for way in [*WAYS][:2])
    yield _forest(found)
    yield "<h2>Its values</h2>"
    yield _values(found)


def _against_base(found: LossJudgement) -> str:
    rows = []
    for way, of in found.less[BASE].items():
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
    sides = signs(found.less, way)
    for sign, word in ((-1, "lower than"), (1, "higher than"), (0, "not told apart from")):
        counts = (sum(of == m and side == sign for (_, of), side in sides.items()) for m in SHOWN)
        rows.append(cells((f"<b>{word}</b>", *map(str, counts))))
    caption = (
        f"{way[0].upper()}{way[1:]}: difference to each stored loss, with the options of its paper. The counts are "
        "beyond chance, at 5% after Holm's correction over losses and the three errors; the accuracy by itself."
    )
    return table(caption, heads("less that of"), rows)


def _forest(found: LossJudgement) -> str:
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
