"""The ledger: every claim of the five papers in a row, with what it rests on and what became of it.

``claims.csv`` holds the claims. One that is about a difference names it, loss and method against loss and method, and
is computed from ``effects.csv``, over all networks that have it; one that is about a theorem or a mechanism says what
its chapter found. A claim may have several rows, ``MbLS3``, ``MbLS3a``, ... Columns:

=======================  ==============================================================================================
id, paper, claim         ``MbLS3a``; a key of ``book.papers.PAPERS``; one sentence, a question of ours after
                         "Our question: ".
loss, method             what is claimed to differ, keys as in ``ours.csv``. No loss: of every loss.
base_loss, base_method   from what.
metric                   of the difference.
networks                 sources of ``ours.csv`` with commas, then after spaces data sets; without these all.
wants                    what is claimed of the difference, see ``WANTS``. Empty: the claim is judged by a person.
strength, found,         of a judged claim: the evidence it rests on, what was found, and the answer. Else empty: they
verdict                  are computed.
chapter                  of ``notebooks/``, where it is found.
=======================  ==============================================================================================
"""

from __future__ import annotations

import re
from typing import NamedTuple

import pandas as pd

from book.kit.results.csv_rows import check_columns
from book.kit.results.difference_intervals import over_networks
from book.kit.results.kept import rests_on_gone
from book.kit.results.paired_differences import load_effects
from calibkit import _folders
from calibkit._checks import expected
from calibkit.metrics.comparison import Estimate

COLUMNS = (
    *("id", "paper", "claim", "strength", "loss", "method", "base_loss", "base_method", "metric", "networks"),
    *("wants", "found", "verdict", "chapter"),
)
#: What a claim wants of its difference: a side of 0; or, in percentage points, at least -x, or at most x either way.
WANTS = re.compile(r"below|above|not below|(above -|within )(\d+(?:\.\d+)?)|")
#: Best first.
STRENGTHS = {"published-logits": "published logits", "paper": "paper's budget", "reduced": "reduced"}


class Pooled(NamedTuple):
    """A difference over several networks."""

    estimate: Estimate  # the mean, see :func:`book.kit.results.difference_intervals.over_networks`; with seeds
    lower: int  # on how many networks it is below 0
    n: int  # how many networks
    strength: str  # of the weakest evidence among them
    seeds: int  # the fewest trainings on either side


def load_claims() -> pd.DataFrame:
    """``claims.csv`` as text; ValueError of other columns, and of a claim with a difference and a verdict, or none."""
    frame = pd.read_csv(_folders.stored() / "claims.csv", dtype=str, keep_default_na=False)
    check_columns(frame, COLUMNS)
    for row in frame.itertuples():
        if not WANTS.fullmatch(row.wants):
            raise expected("wants", "a side of 0, or `above -x` or `within x`", repr(row.wants))
        if (row.wants == "") == (row.verdict == ""):
            raise expected(row.id, "either a difference or a verdict", "both" if row.wants else "neither")
    return frame


def pooled(rows: pd.DataFrame) -> Pooled | None:
    """The mean over networks of their differences in one metric; None where there is no network.

    Example:
        >>> effects = load_effects()
        >>> scaled = effects.query("method == 'temperature_scaling' and base_method == 'identity' and metric == 'ece'")
        >>> found = pooled(scaled.query("loss == 'cross_entropy' and base_loss == 'cross_entropy'"))
        >>> found.estimate.below(), found.lower > found.n / 2
        ('holds', True)
    """
    if rows.empty:
        return None
    estimate = over_networks(rows)
    kinds = {"published-logits" if row.source == "published-logits" else row.budget for row in rows.itertuples()}
    strength = STRENGTHS[max(kinds, key=[*STRENGTHS].index)]
    seeds = int(rows[["n_seeds", "base_seeds"]].min(axis=None))
    return Pooled(estimate, int((rows["value"] < 0).sum()), len(rows), strength, seeds)


def ledger(claims: pd.DataFrame | None = None, effects: pd.DataFrame | None = None) -> pd.DataFrame:
    """Every claim with its evidence and verdict.

    A claim on the ECE *holds* or *does not hold* if its difference is beyond chance and that of the NLL does not
    disagree. Where the two disagree, or the NLL alone is beyond chance, the verdict says so: "holds in ECE, likelihood
    against", "ECE undecided, likelihood agrees". A claim that something is *not* lower holds unless it is lower beyond
    chance.

    Returns:
        DataFrame: columns id, paper, claim, strength, effect and nll (text, in points and in nats, or what was found),
        lower ("5 of 6": on how many networks), seeds, verdict, judged (whether a person judged it from what the chapter
        shows, not the rule), chapter, gone (how many of its differences rest on trainings whose logits are not stored).
    """
    claims = load_claims() if claims is None else claims
    effects = load_effects() if effects is None else effects
    return pd.DataFrame([_row(claim, effects) for claim in claims.itertuples()])


def _row(claim, effects: pd.DataFrame) -> dict:
    row = {"id": claim.id, "paper": claim.paper, "claim": claim.claim, "strength": "none", "effect": "", "nll": ""}
    row |= {"lower": "", "seeds": "", "verdict": "not run here", "judged": not claim.wants, "chapter": claim.chapter}
    row["gone"] = 0
    if not claim.wants:
        return row | {"strength": claim.strength, "effect": claim.found, "verdict": claim.verdict}
    rows = _rows(claim, effects)
    found = pooled(rows[rows["metric"] == claim.metric])
    if found is None:
        return row
    nll = pooled(rows[rows["metric"] == "nll"]) if claim.metric == "ece" else None
    return row | {
        "strength": found.strength,
        "effect": f"{found.estimate.percent:+.2f}",
        "nll": f"{nll.estimate:+.4f}" if nll else "",
        "lower": f"{found.lower} of {found.n}",
        "seeds": str(found.seeds),
        "verdict": _verdict(claim.wants, found.estimate, nll and nll.estimate),
        "gone": int(rests_on_gone(rows[rows["metric"].isin([claim.metric, "nll"])]).sum()),
    }


def _rows(claim, effects: pd.DataFrame) -> pd.DataFrame:
    """The differences that a claim is about; without a loss, those of any loss to the same one."""
    sources, *datasets = claim.networks.split(" ")
    rows = effects[(effects["method"] == claim.method) & (effects["base_method"] == claim.base_method)]
    rows = rows[rows["source"].isin(sources.split(","))]
    if claim.loss:
        rows = rows[(rows["loss"] == claim.loss) & (rows["base_loss"] == claim.base_loss)]
    else:
        rows = rows[rows["loss"] == rows["base_loss"]]
    return rows[rows["dataset"].isin(datasets)] if datasets else rows


def _verdict(wants: str, estimate: Estimate, nll: Estimate | None) -> str:
    kind, width = WANTS.fullmatch(wants).groups()
    if kind:
        return estimate.percent.within(float(width)) if kind == "within " else estimate.percent.above(-float(width))
    turned = {"holds": "does not hold", "does not hold": "holds", "not decided": "not decided"}
    by_ece, by_nll = ("not decided" if x is None else x.below() for x in (estimate, nll))
    if wants != "below":
        by_ece, by_nll = turned[by_ece], turned[by_nll]
    if by_ece == "not decided":
        if wants == "not below":
            return "holds" if by_nll != "does not hold" else "ECE undecided, likelihood against"
        known = {"holds": "ECE undecided, likelihood agrees", "does not hold": "ECE undecided, likelihood against"}
        return known.get(by_nll, by_ece)
    if by_nll == turned[by_ece]:
        return "holds in ECE, likelihood against" if by_ece == "holds" else "fails in ECE, likelihood agrees"
    return by_ece
