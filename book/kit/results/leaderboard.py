"""The leaderboard: an entry a file, made of what ``python -m book.kit judge`` saved, and a table of all entries.

An entry says what was judged, by whom, when and by which command, and the mean differences: of a calibrator to one
temperature, of all stored networks and by kind; of a loss to cross-entropy. ``rows`` has what one can repeat singly, of
nll, ece, brier and accuracy: the differences on each network, or the values of each training; null where infinite.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from book.kit.judging import Row, usual, verdict
from book.kit.judging.loss_verdict import BASE as LOSS_BASE
from book.kit.results.csv_rows import quoted
from calibkit import _folders
from calibkit._checks import check_choice, expected
from calibkit._files import read_json, regular, write_text
from calibkit.networks import zoo
from calibkit.reporting.catalogue import BASE

#: Whose numbers they are: of this project, run again by it from the file of others, or as others say.
TIERS = ("ours", "re-run by us", "self-reported")
METRICS = ("nll", "ece", "brier", "accuracy")
CSV = "leaderboard.csv"


def folder() -> Path:
    """Of the entries, one folder for each kind, and of the csv."""
    return _folders.stored().parent / "leaderboard"


def entry(judged: Path, tier: str, by: str = "") -> dict:
    """Entry of a judge.json; ValueError of none, of one without all of ``networks()``, of others' without a name."""
    facts = read_json(judged, regular(judged).read_text("utf-8", "replace"))
    if not {"key", "made", "rows", "differences"} <= facts.keys():
        raise expected("path", "the judge.json of a judgement that was finished", repr(str(judged)))
    if not isinstance(by, str) or (check_choice("tier", tier, TIERS) == "ours") == bool(by):
        raise expected("by", "who measured it, where that is not this project", repr(by))
    found = {"key": facts["key"], "tier": tier, "by": by, "withdrawn": ""}
    wanted = _stored() if tier == "ours" else networks()
    try:
        made = facts["made"]
        found |= {"date": datetime.date.today().isoformat()}
        found |= {name: made[name] for name in ("calibkit", "commit", "file")}
        if odd := [of for of in found.values() if not isinstance(of, str | None)]:
            raise TypeError(f"{odd[0]!r} is no text")
        found |= _of_loss(facts) if "data" in made else _of_calibrator(facts, wanted)
        if not all(isinstance(of, str) for of in found["failed"].values()) or type(found["networks"]) is not int:
            raise TypeError("an error that is no text, or a number of trainings that is none")
        text(found)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        got = f"{str(judged)!r}, {type(error).__name__}: {error}"
        raise expected("path", "a judge.json as `python -m book.kit judge` writes it", got) from error
    of_calibrator = "data" not in found
    if of_calibrator and (missing := wanted - found["rows"].keys() - found["failed"].keys()):
        raise expected("path", "a judgement on all stored networks, without --networks", f"none on {min(missing)}")
    return found


def _stored() -> set[str]:
    return {name for name in usual() if name in zoo()}


def networks() -> set[str]:
    """Those of our own entries, on which those of others are compared, too; without any all that are stored."""
    ours = [of for of in entries() if of["kind"] == "calibrators" and of["tier"] == "ours"]
    return {name for of in ours for name in (*of["rows"], *of["failed"])} or _stored()


def _of_calibrator(facts: dict, wanted: set[str]) -> dict:
    rows = [Row(**row) for row in facts["rows"] if row["network"] in wanted]
    done = [row for row in rows if not row.error]
    return {
        "command": f"python -m book.kit judge {quoted(facts['key'])}",
        "networks": len(done),
        "failed": {row.network: row.error for row in rows if row.error},
        "infinite_nll": len(verdict.infinite(done)),
        "fails": sorted({name for row in done for name, counter in row.properties.items() if counter}),
        "beyond_chance": {metric: [*verdict.tally(done, BASE, metric)[:2]] for metric in METRICS},
        "means": {
            kind: {metric: _digits(verdict.difference(of, BASE, metric)) for metric in METRICS}
            for kind, of in verdict.by_stratum(done).items()
        },
        "rows": {row.network: _digits((row.less[BASE][metric] or [None])[0] for metric in METRICS) for row in done},
    }


def _of_loss(facts: dict) -> dict:
    made, less, values = facts["made"], facts["differences"][LOSS_BASE], facts["values"]["identity"]
    grid = "".join(f" {option}={','.join(map(str, of))}" for option, of in made["grid"].items())
    options = f" --data {made['data']}" + (f" --grid{grid}" if grid else "")
    return {
        "command": f"python -m book.kit judge {quoted(facts['key'])}{options}",
        "data": made["data"],
        "networks": made["seeds"],
        "failed": {row["network"]: row["error"] for row in facts["rows"] if row["error"]},
        "means": {
            way: {metric: _digits(of[metric][end] for end in ("value", "low", "high")) for metric in METRICS}
            for way, of in less.items()
        },
        "rows": {
            f"training {i}": _digits(of)
            for i, of in enumerate(zip(*(values[metric] for metric in METRICS), strict=True))
        },
    }


def _digits(numbers: Iterable[float | None]) -> list[float | None]:
    """Six of each; None of what is not finite."""
    return [None if x is None or not math.isfinite(x) else float(f"{x:.6g}") + 0.0 for x in numbers]


def text(found: dict) -> str:
    """An entry as JSON with a line for each part of a part."""

    def part(x: object) -> str:
        if not isinstance(x, dict) or not x:
            return json.dumps(x, allow_nan=False)
        return "{\n" + ",\n".join(f"  {json.dumps(name)}: {json.dumps(of)}" for name, of in x.items()) + "\n }"

    return "{\n" + ",\n".join(f" {json.dumps(name)}: {part(of)}" for name, of in found.items()) + "\n}\n"


def enter(judged: Path, tier: str, by: str = "") -> Path:
    """Write the entry of a judge.json, and the csv again; returns its file.

    ValueError tells of what :func:`entry` refuses, and of an entry of that name that is somebody else's or withdrawn.
    """
    found = entry(judged, tier, by)
    name = found["key"].rpartition(".py:")[2] + (f"-{found['data']}" if "data" in found else "")
    name = "".join(c if c.isalnum() or c in "_-=" else "-" for c in name)
    path = folder() / ("losses" if "data" in found else "calibrators") / f"{name}.json"
    old = json.loads(path.read_text("utf-8")) if path.exists() else None
    if old is not None and (old["by"] != by or old["withdrawn"]):
        got = f"{path.name}, which is by {old['by'] or 'this project'}{' and withdrawn' * bool(old['withdrawn'])}"
        raise expected("path", "a judgement under a name that is free", got)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text(found))
    write_csv()
    return path


def entries() -> list[dict]:
    """All of them, those of calibrators first."""
    return [
        {"kind": kind, **json.loads(path.read_text("utf-8"))}
        for kind in ("calibrators", "losses")
        for path in sorted((folder() / kind).glob("*.json"))
    ]


def table() -> pd.DataFrame:
    """A row for each entry, kind of network or way to compare, and metric."""
    columns = ("kind", "key", "tier", "by", "withdrawn", "date", "commit", "command")
    rows = [
        {**{name: found[name] for name in columns}, "of": of, "metric": metric}
        | dict(zip(("value", "low", "high"), numbers, strict=True))
        for found in entries()
        for of, by in found["means"].items()
        for metric, numbers in by.items()
    ]
    return pd.DataFrame(rows, columns=[*columns, "of", "metric", "value", "low", "high"])


def write_csv() -> Path:
    """All entries as one table."""
    return write_text(folder() / CSV, table().to_csv(index=False, lineterminator="\n"))
