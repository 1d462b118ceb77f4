"""Sphinx extension of the leaderboard: ``{leaderboard} calibrators``, ``kinds`` or ``losses DATA``, by the entries."""

from __future__ import annotations

from collections.abc import Iterable

from book.kit.judging.html import SHOWN, heads
from book.kit.notebook.display_names import shown
from book.kit.results.leaderboard import METRICS, entries
from book.kit.sphinx.directives import extension, markdown, table
from calibkit.metrics.comparison import Estimate
from calibkit.reporting.html import change

HEADS = dict(zip(SHOWN, heads("")[1:], strict=True))


def cell(numbers: list[float | None], metric: str) -> str:
    """A mean difference in the unit of the metric, and below it its interval."""
    known = [x for x in numbers if x is not None]
    if known != numbers:
        return "infinite"
    return change(Estimate(*known), SHOWN[metric][0]).replace(" [", "<br>[").replace(", ", ",\N{NO-BREAK SPACE}")


def ranked(of: Iterable[dict], first: str) -> list[dict]:
    """By the mean difference in NLL, the lowest first; then what is infinite somewhere, then what was withdrawn."""

    def place(found: dict) -> tuple:
        value = found["means"][first]["nll"][0]
        return bool(found["withdrawn"]), found.get("infinite_nll", 0), value or 0.0

    return sorted(of, key=place)


def _name(found: dict) -> str:
    name = shown(found["key"])
    return f"{name} (withdrawn: {found['withdrawn']})" if found["withdrawn"] else name


def _table(heads: list[str], rows: Iterable[list[str]]) -> list[str]:
    return table("".join("l" if head == heads[0] or head == "whose" else "r" for head in heads), heads, rows)


def calibrators() -> list[str]:
    """Of all stored networks: mean differences to one temperature, and on how many networks beyond chance."""
    rows = []
    for found in ranked((of for of in entries() if of["kind"] == "calibrators"), "all"):
        means, counts = found["means"]["all"], found["beyond_chance"]["nll"]
        nll = cell(means["nll"], "nll")
        if found["infinite_nll"]:
            nll = f"{nll}<br>infinite on {found['infinite_nll']}".removeprefix("infinite<br>")
        rows.append(
            [_name(found), nll]
            + [cell(means[metric], metric) for metric in METRICS[1:]]
            + ["{} / {}".format(*counts), str(found["networks"]), found["by"] or found["tier"]]
        )
    heads = ["calibrator", *HEADS.values(), "NLL lower / higher, networks", "networks", "whose"]
    return _table(heads, rows)


def kinds() -> list[str]:
    """The mean differences in NLL and ECE by kind of network."""
    every = [of for of in entries() if of["kind"] == "calibrators" and not of["withdrawn"]]
    names = [name for name in every[0]["means"] if name != "all"] if every else []
    lines: list[str] = []
    for metric in ("nll", "ece"):
        rows = [
            [_name(of), *(cell(of["means"][name][metric], metric) if name in of["means"] else "" for name in names)]
            for of in ranked(every, "all")
        ]
        lines += ["", *_table([HEADS[metric], *names], rows)]
    return lines


def losses(data: str) -> list[str]:
    """Mean differences to cross-entropy, as trained and after one temperature for both."""
    every = [of for of in entries() if of["kind"] == "losses" and of["data"] == data]
    ways = [*every[0]["means"]][:2] if every else []
    rows = [
        [_name(of)]
        + [cell(of["means"][way][metric], metric) for way in ways for metric in ("nll", "ece")]
        + [str(of["networks"]), of["by"] or of["tier"]]
        for of in ranked(every, "both after one temperature")
    ]
    return _table(["loss", *(f"{HEADS[m]}, {way}" for way in ways for m in ("nll", "ece")), "trainings", "whose"], rows)


def tables(name: str, *data: str) -> list[str]:
    """What the argument of the directive names."""
    return {"calibrators": calibrators, "kinds": kinds, "losses": losses}[name](*data)


STYLE = ("sortable", "ranks", "full-width")
setup = extension(leaderboard=markdown(tables, required=1, optional=1, style=STYLE))
