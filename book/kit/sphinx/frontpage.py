"""Sphinx extension of the front page: what it shows is drawn from the results when the book is built.

``{opening}`` is the figure that opens the book. ``{cards}`` has a card for each paper, by its record: in it
``{thumbnail} PAPER`` is a small picture of a paper's idea. ``{verdictlegend}`` draws how many printed numbers have
which answer, on the ledger.
As a program it draws the opening figure into two files for the README, and says there what it shows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from docutils import nodes
from matplotlib.figure import Figure

from book.kit.notebook.over_networks import STRATA, select, stratum
from book.kit.notebook.table import minus, unbroken
from book.kit.results.difference_intervals import over_networks
from book.kit.results.verdict_rule import STAND_IN, Answer
from book.kit.sphinx.cached_results import answers, differences, once
from book.kit.sphinx.directives import Computed, extension, html, markdown, table
from book.kit.sphinx.opening_figure import gap_closes, map_of_proposals
from book.papers import PAPERS, framed
from calibkit import Estimate, plots
from calibkit._checks import check_choice
from calibkit._files import write_text

BASE, CE = "temperature_scaling", "cross_entropy"
METRICS = ("ece", "nll", "brier")
SIZE = (8, 3.2)  # inches, of the opening figure
#: What no paper proposes as it stands, and the front page speaks of.
BESIDE = {
    "CTS by CLS": "class_temperature_scaling:class_loss_scaling",
    "TS, equal weights": "temperature_scaling:class_balanced",
    "CTS, equal weights": "class_temperature_scaling:class_balanced",
    "increasing map": "order_preserving",
    "prior correction": "prior_correction",
}
README = {False: "opening-light.svg", True: "opening-dark.svg"}
#: How the opening figure says how many papers there are.
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


class Share(NamedTuple):
    """A part of a verdict bar: its class in the style sheet, its name, the answers that it counts."""

    style: str
    name: str
    answers: tuple[Answer, ...]

    def number(self, counts: pd.Series) -> int:
        """How many of the numbers counted by answer are in it."""
        return int(sum(counts[answer] for answer in self.answers))


SHARES = (
    Share("reproduced", "reproduced", (Answer.REPRODUCED,)),
    Share("same-direction", "same direction", (Answer.SAME,)),
    Share("mixed", "mixed", (Answer.MIXED,)),
    Share("not-decided", "not decided", (Answer.OPEN,)),
    Share("opposite-direction", "opposite direction, or not reproduced", (Answer.OPPOSITE, Answer.NOT_REPRODUCED)),
    Share("reproduced other", "the same elsewhere, measured by others", (Answer.SAME_ELSEWHERE,)),
    Share("not-reproduced other", "another elsewhere", (Answer.ANOTHER_ELSEWHERE,)),
    Share("not-decided other", "not decided, by a stand-in", (Answer.OPEN_BY_STAND_IN,)),
    Share(
        "stand-in",
        "otherwise by a stand-in",
        tuple(of for of in Answer if of.by == STAND_IN and of is not Answer.OPEN_BY_STAND_IN),
    ),
    Share("absent", "not run", (Answer.NOT_RUN,)),
)


def beside_one_temperature(method: str, loss: str | None, metric: str) -> dict[str, pd.DataFrame]:
    """Stratum -> the differences from one temperature, of a calibrator on the same network, of what a loss trained on
    that of cross-entropy. Networks on which one of ``METRICS`` is infinite, and has no difference, are left out.
    """
    of_loss = {} if loss is None else {"loss": loss}
    rows = select(differences(), BASE, loss and CE, method=method, **of_loss)
    rows = rows[~rows["loss"].str.contains("margin=")]
    of_network = [rows[name] for name in ("network", "source", "budget")]
    whole = rows["metric"].isin(METRICS).groupby(of_network).transform("sum") == len(METRICS)
    rows = rows[whole & (rows["metric"] == metric)]
    of = dict([*rows.groupby(stratum(rows))])
    return {name: of[name] for name in STRATA if name in of}


@once
def proposals(metric: str) -> dict[str, Estimate]:
    """What each paper proposes minus one temperature: the mean over the networks of each stratum.

    Its interval is over test images, seeds and validation samples, where these were measured.
    """
    found = {}
    for paper in PAPERS.values():
        loss, method = paper.proposes
        for name, rows in beside_one_temperature(method, loss, metric).items():
            found[f"{paper.short}, {name} ({len(rows)})"] = over_networks(rows)
    return found


def strata() -> list[str]:
    """What the papers propose, and what the book recommends, minus one temperature by stratum, as a Markdown table."""
    named = [(paper.short, *reversed(paper.proposes)) for paper in PAPERS.values()]
    named += [(name, method, None) for name, method in BESIDE.items()]
    lines = []
    for name, method, loss in named:
        of = {metric: beside_one_temperature(method, loss, metric) for metric in METRICS}
        for kind in of["ece"]:
            ece, nll, brier = (rows[kind] for rows in of.values())
            cells = [name, kind, f"{over_networks(ece).percent:+.2f}", f"{100 * ece['value'].median():+.2f}"]
            cells += [f"{over_networks(nll):+.4f}", f"{nll['value'].median():+.4f}", f"{brier['value'].mean():+.4f}"]
            cells += [", ".join(f"{(rows['value'] < 0).sum()}" for rows in (ece, nll, brier)) + f" of {len(ece)}"]
            lines.append(cells)
    heads = ("method", "networks", "ECE, points", "median", "NLL, nats", "median", "Brier", "lower")
    return [unbroken(minus(line)) for line in table("llrrrrrr", heads, lines)]


def opening(figure: Figure) -> None:
    """A network before and after one temperature; a map of what the papers propose, from that temperature."""
    left, right = figure.subfigures(1, 2, width_ratios=(3, 5))
    gap_closes(left.subplots())
    map_of_proposals(right, proposals("ece"), proposals("nll"))


def seen() -> str:
    """What the opening figure shows, in words."""
    return " ".join(seen_apart())


def seen_apart() -> tuple[str, str]:
    """What each of its panels shows."""
    in_ece, in_nll = proposals("ece"), proposals("nll")
    points = "; ".join(f"{name}: {100 * in_ece[name].value:+.2f} and {nll.value:+.4f}" for name, nll in in_nll.items())
    lower = [name for name, nll in in_nll.items() if in_ece[name].below() == nll.below() == "holds"]
    return (
        "First, the reliability curve of a ResNet-20, uncalibrated and with one temperature: the gap closes.",
        f"Then, for balanced and for long-tailed data, how far the {NUMBERS[len(PAPERS)]} proposals are from one "
        f"temperature, in points of ECE and in nats of NLL, lower is better: {points}. "
        f"Better in both beyond chance: {'; '.join(lower) or 'none'}.",
    )


def light_and_dark(draw: Callable[[Figure], object], size: tuple[float, float], alt: str) -> str:
    """A figure for light pages and one for dark ones; the theme shows one of the two."""
    return "".join(
        plots.svg(draw, size, alt, dark=dark, css=f"only-{'dark' if dark else 'light'}") for dark in (False, True)
    )


def figure(draw: Callable[[Figure], object], size: tuple[float, float], alt: str) -> str:
    """A picture for light and dark pages that scrolls where it is wider than the page, by keyboard too."""
    return f'<div class="opening" tabindex="0" role="group" aria-label="Figure">{light_and_dark(draw, size, alt)}</div>'


def bar(counts: pd.Series) -> str:
    """A stacked bar of the answers to a paper's printed numbers, each part with its number and its meaning."""
    total, parts = int(counts["printed"]), []
    numbers = counts.drop("printed")
    for share in SHARES:
        if number := share.number(numbers):
            text = f"{number:,} {share.name}"
            parts.append(f'<span class="{share.style}" style="flex-grow:{number}" title="{text}"></span>')
    answered = total - int(numbers[Answer.NOT_RUN])
    by_stand_in = int(numbers[Answer.OPEN_BY_STAND_IN])
    undecided = int(numbers[Answer.OPEN]) + by_stand_in
    words = f"{answered:,} of {total:,} printed numbers tested"
    same = int(numbers[Answer.REPRODUCED])
    open_ = "not decided" + f" ({by_stand_in} by a stand-in)" * bool(by_stand_in)
    counted = (same, "reproduced"), (undecided, open_), (answered - same - undecided, "with another verdict")
    words += ": " + ", ".join(f"{number} {meaning}" for number, meaning in counted if number)
    return (
        f'<div class="verdictbar" role="img" aria-label="{words}">{"".join(parts)}</div><p class="counts">{words}</p>'
    )


def legend(counts: pd.Series) -> str:
    """What the parts of the bars mean, of those that occur."""
    return keys((share.style, f"{share.number(counts):,} {share.name}") for share in SHARES if share.number(counts))


def keys(looks: Iterable[tuple[str, str]]) -> str:
    """A line of colours, each a class of the style sheet, with what they mean."""
    found = (f'<span><span class="{style}"></span>{meaning}</span>' for style, meaning in looks)
    return f'<p class="verdictlegend">{" ".join(found)}</p>'


def panels() -> str:
    """Those of the opening figure, light and dark, side by side or on a narrow screen one below the other."""
    left, right = seen_apart()
    of = proposals("ece"), proposals("nll")
    drawn = (
        (lambda figure: gap_closes(figure.subplots()), (3, 3.2), left),
        (lambda figure: map_of_proposals(figure, *of), (5, 3.2), right),
    )
    return f'<div class="panels">{"".join(light_and_dark(*panel) for panel in drawn)}</div>'


def thumbnail(paper: str) -> str:
    """The small picture of a paper."""
    return framed(*PAPERS[check_choice("paper", paper, PAPERS)].picture)


def verdict_legend() -> str:
    """All papers together, and what the parts of a bar mean."""
    return bar(answers("paper").sum()) + legend(answers("paper").sum())


def cards(pages: Container[str]) -> list[str]:
    """A card for each paper that has a chapter among ``pages``, as Markdown: its claim, and what became of it."""
    lines = []
    for name, paper in PAPERS.items():
        if f"notebooks/{name}" in pages:
            lines += [f":::::{{grid-item-card}} {paper.method} ({paper.short})", f":link: /notebooks/{name}"]
            lines += [":link-type: doc", "", f"```{{thumbnail}} {name}", "```", "", f"*{paper.claim}*", ""]
            lines += [*paper.found.strip().splitlines(), ":::::", ""]
    return lines


class Cards(Computed):
    """``{cards}``: a grid of a card for each paper, and of those that stand in it."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """The grid."""
        grid = ["::::::{grid} 1", ":gutter: 3", "", *cards(self.env.found_docs), *self.content, "::::::"]
        return self.parse(grid)


setup = extension(
    opening=html(panels),
    cards=Cards,
    strata=markdown(strata),
    thumbnail=html(thumbnail, required=1),
    verdictlegend=html(verdict_legend),
)


def with_alt(readme: str, words: str) -> str:
    """The README with other words for the opening figure."""
    return re.sub(rf'("book/_static/{README[False]}" alt=")[^"]*', lambda found: found[1] + words, readme)


if __name__ == "__main__":
    words, folder = seen(), Path(__file__).parents[2] / "_static"
    for dark, name in README.items():
        write_text(folder / name, plots.svg(opening, SIZE, words, dark=dark))
    readme = Path(__file__).parents[3] / "README.md"
    write_text(readme, with_alt(readme.read_text(), words))
