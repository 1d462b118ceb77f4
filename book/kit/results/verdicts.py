"""The verdict on a printed number: printed and measured side by side, and what follows by :mod:`.verdict_rule`.

====================  =================================================================================================
reproduced            the number comes out on the paper's own logits; or, of a training of ours at the paper's budget,
                      the direction is the same, the size is equal and the value lies within the same margin
same direction        it does not, or there are no such logits, but the method differs from its comparator as printed
mixed                 the printed metric is beyond chance on one side, and the NLL on the other
not decided           chance may have made the difference
opposite direction    the method differs from its comparator the other way round
not reproduced        on the paper's own logits the number does not come out, and no claim goes with it
not run               none of these: there is no measurement on the network, or only one that says nothing
====================  =================================================================================================

The paper's logits come before our own networks. Two more columns have answers of less weight, where there is neither:
``elsewhere`` is what others measured on the paper's networks, and ``stand_in`` another network, smaller or on similar
data, of which the direction alone counts.
"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from book.kit.results.csv_rows import CELL, load
from book.kit.results.evidence import Measured, Question, cell_of
from book.kit.results.paired_differences import load_effects
from book.kit.results.verdict_rule import BY_THEIR_CODE, STAND_IN, Answer, direction, margin, replays, size, visible
from book.papers import PAPERS
from calibkit._checks import check_choice

UNDECIDED = (Answer.OPEN, Answer.OPEN_BY_STAND_IN)
#: Every answer that a printed number is counted by; one by the authors' code is counted as reproduced.
ANSWERS = tuple(answer for answer in Answer if answer != Answer.REPRODUCED_BY_THEIR_CODE)
_BY_STAND_IN = {answer.word: answer for answer in Answer if answer.by == STAND_IN}
OURS = ("ours", "low", "high", "n_seeds", "budget", "source")
EFFECT = ("against", "printed_effect", "effect", "effect_low", "effect_high", "visible")
SHOWN = (
    *("paper", "table", *CELL, "unit", "printed", "kind", *OURS, *EFFECT, "replay", "direction", "size", "verdict"),
    *("elsewhere", "elsewhere_verdict", "stand_in", "stand_in_value", "stand_in_effect", "stand_in_verdict"),
)


def compare(
    paper: str,
    table: str | None = None,
    *,
    ours: pd.DataFrame | None = None,
    effects: pd.DataFrame | None = None,
    stand_in: Mapping[str, str] | None = None,
) -> pd.DataFrame:
    """Printed numbers and ours, side by side, each with its verdict (see the module's text for the rule).

    Args:
        paper: one of ``book.papers.PAPERS``.
        table: one table of it; None: all.
        ours: rows to compare with. Default: ``load("ours")``.
        effects: differences to compare with. Default: ``load_effects()``.
        stand_in: printed model, or ``"dataset/model"`` where that depends on the data -> the model of ours to hold
            against it, ``"resnet20"``, or, where it was trained on other data too, ``"camvid/deeplabv3_resnet34"``.
            Default: those of the paper's record, ``PAPERS[paper].stand_ins``; ``{}`` for none.

    Returns:
        DataFrame: one row a printed number, columns ``SHOWN``. ``printed`` is text; numbers are in its unit, NaN where
        there is none. ``kind`` is "network", of a network as it is; "fixed", of what a method cannot change; "result".

    Raises:
        ValueError: an unknown paper or table.

    Example:
        >>> compared = compare("class_loss_scaling", "1").query("model == 'densenet40' and metric == 'ece'")
        >>> first = compared.iloc[0]
        >>> first["method"], first["printed"], f"{first['ours']:.2f}", first["source"], str(first["verdict"])
        ('identity', '5.50', '5.50', 'published-logits', 'reproduced')
    """
    out = [_answer(*asked) for asked in _asked(paper, ours, effects, stand_in)]
    tables = list(dict.fromkeys(row["table"] for row in out))
    if table is not None:
        check_choice("table", table, tables)
    found = pd.DataFrame(out, columns=list(SHOWN))
    numbers = ["ours", "low", "high", *EFFECT[1:], "elsewhere", "stand_in_value", "stand_in_effect"]
    found[numbers] = found[numbers].astype(float)
    found["n_seeds"] = found["n_seeds"].astype(float).fillna(0).astype(int)
    texts = [name for name in SHOWN if name not in (*numbers, "n_seeds")]
    found[texts] = found[texts].astype(object).where(found[texts].notna(), "")
    return found if table is None else found[found["table"] == table].reset_index(drop=True)


def _asked(
    paper: str,
    ours: pd.DataFrame | None = None,
    effects: pd.DataFrame | None = None,
    stand_in: Mapping[str, str] | None = None,
) -> list[tuple[Question, Measured, Mapping]]:
    """Every printed number of a paper as a question, with all that may answer it."""
    rows = load("paper")
    rows = rows[(rows["paper"] == check_choice("paper", paper, PAPERS)) & (rows["source"] == "printed")]
    stand_in = PAPERS[paper].stand_ins if stand_in is None else stand_in
    measured = Measured(paper, load("ours") if ours is None else ours, load_effects() if effects is None else effects)
    third = {cell_of(row): row for row in load("third_party").itertuples()}
    printed = {(row.table, *cell_of(row)): row.value for row in rows.itertuples()}
    anywhere = {key[1:]: value for key, value in reversed(printed.items())}
    questions = [Question.of(row, stand_in, printed, anywhere) for row in rows.itertuples()]
    measured.correct(questions)
    return [(question, measured, third) for question in questions]


def summary(compared: pd.DataFrame | None = None, by: tuple[str, ...] = ("paper", "table")) -> pd.DataFrame:
    """How many printed numbers have which answer. Each is counted once: the columns after the first add up to it.

    Args:
        compared: rows of ``compare``, or some of them. Default: all of every paper.
        by: columns of ``compare`` to count by.

    Returns:
        DataFrame: index ``by``; columns printed, and ``ANSWERS``.
    """
    compared = everything() if compared is None else compared
    found = answers(compared)
    counts = {"printed": 1} | {name: found == name for name in ANSWERS}
    return compared[list(by)].assign(**counts).groupby(list(by), sort=False).sum()


def answers(compared: pd.DataFrame) -> pd.Series:
    """The answer to each printed number, one of ``ANSWERS``: the verdict, else what others say, else the stand-in."""
    verdict, small = compared["verdict"], compared["stand_in_verdict"]
    found = verdict.mask(verdict == Answer.NOT_RUN, compared["elsewhere_verdict"])
    return found.mask(found == "", small.map({**_BY_STAND_IN, "": Answer.NOT_RUN}))


def everything() -> pd.DataFrame:
    """The rows of :func:`compare` of every paper."""
    rows = {"ours": load("ours"), "effects": load_effects()}
    return pd.concat([compare(paper, **rows) for paper in PAPERS], ignore_index=True)


def informative(compared: pd.DataFrame) -> pd.Series:
    """Which printed numbers, rows of :func:`compare`, have an answer that says something of a method: a decision, on
    more than the network as it is or an accuracy that its calibrator cannot change.
    """
    return (compared["kind"] == "result") & ~answers(compared).isin([*UNDECIDED, Answer.NOT_RUN])


def answered_in_words(compared: pd.DataFrame | None = None) -> str:
    """How many printed numbers, rows of ``compare`` or all, have an answer, and how many answers say something."""
    compared = everything() if compared is None else compared
    found, says = answers(compared), informative(compared)
    answered = found != Answer.NOT_RUN
    undecided = found.isin(UNDECIDED)
    logits = answered & ~undecided & ~says
    return (
        f"{answered.sum():,} of {len(compared):,} printed numbers have an answer. {says.sum()} of these say something "
        f"of a method, {undecided.sum()} are not decided, and {logits.sum()} check the logits alone: they are of the "
        "network as it is, or accuracies that the calibrator cannot change."
    )


# ---------------------------------------------------------------------------------------------------- the answers
def _answer(question: Question, measured: Measured, third: Mapping) -> dict:
    row, scale = question.row, question.scale
    shown = {name: getattr(row, name) for name in ("paper", "table", *CELL, "unit", "printed")}
    shown |= {"kind": question.kind, "verdict": Answer.NOT_RUN}
    if question.base is not None and question.effect is not None:
        shown |= {"against": _words(row, question.base), "printed_effect": scale * question.effect}
    own = _own(question, measured)
    if own and (own["verdict"] != Answer.NOT_RUN or own["budget"] == "paper" or not question.network):
        return shown | own  # else it is of a shorter training that says nothing, and others or a stand-in may
    other = third.get(question.cell) if row.table in PAPERS[row.paper].public_tables else None
    if other is not None:
        same = replays(row.printed, scale, other.value)
        answer = Answer.SAME_ELSEWHERE if same else Answer.ANOTHER_ELSEWHERE
        return shown | {"elsewhere": scale * other.value, "elsewhere_verdict": answer}
    small = _stand_in(question, measured)
    return shown | (small if "stand_in_verdict" in small or not own else own)


def _own(question: Question, measured: Measured) -> dict:
    """The columns of a measurement on the paper's own network; empty where there is none."""
    row, scale = question.row, question.scale
    mine, effect = measured.rows.get(question.cell), measured.effect(question)
    drop = row.metric == "accuracy_drop" and effect is not None
    if mine is None and not drop:
        return {}
    if drop:
        value, low, high = effect.estimate
        source = measured.effects[question.key("accuracy")]
    else:
        (value, low, high), source = (mine.value, mine.low, mine.high), mine
    facts = (scale * value, scale * low, scale * high, source.n_seeds, source.budget, source.source)
    shown = dict(zip(OURS, facts, strict=True))
    on_logits = source.source == "published-logits"
    if on_logits:
        shown["replay"] = _replay(question, measured, value)
    if effect is not None and question.effect is not None:
        estimate = effect.estimate
        numbers = (*estimate, visible(estimate))
        shown |= dict(zip(EFFECT[2:], (scale * x for x in numbers), strict=True))
        if question.has_direction:
            shown["direction"] = direction(question.effect, effect)
        if source.budget == "paper":
            shown["size"] = size(question.effect, estimate, same_images=on_logits)
            shown["near"] = abs(value - row.value / scale) <= margin(question.effect)
    return shown | {"verdict": _verdict(shown, on_logits)}


def _verdict(shown: Mapping, on_logits: bool) -> Answer:
    if shown.get("replay") in ("exact", BY_THEIR_CODE):
        return Answer.REPRODUCED
    if not on_logits and shown.get("direction") == Answer.SAME and shown.get("size") == "equal" and shown["near"]:
        return Answer.REPRODUCED
    return shown.get("direction") or (Answer.NOT_REPRODUCED if on_logits else Answer.NOT_RUN)


def _replay(question: Question, measured: Measured, value: float) -> str:
    """Whether the number comes out, of the authors' code where that is known: "exact" if ours does, too."""
    row = question.row
    replayed = PAPERS[row.paper].replay(row.method)
    other = measured.rows.get((*question.cell[:3], replayed, *question.cell[4:]))
    exact = replays(row.printed, question.scale, value)
    if not (exact if other is None else replays(row.printed, question.scale, other.value)):
        return "no"
    return "exact" if exact else BY_THEIR_CODE


def _stand_in(question: Question, measured: Measured) -> dict:
    """The columns of a stand-in: the direction alone is an answer."""
    if not question.network:
        return {}
    of_data, _, model = question.network.rpartition("/")
    found = measured.rows.get((of_data or question.cell[0], model, *question.cell[2:]))
    effect = measured.effect(question, stand_in=True)
    if found is None and effect is None:
        return {}
    shown = {"stand_in": question.network}
    if found is not None:
        shown["stand_in_value"] = question.scale * found.value
    if effect is not None:
        shown["stand_in_effect"] = question.scale * effect.estimate.value
        shown["visible"] = question.scale * visible(effect.estimate)
        if question.row.metric == "accuracy_drop":  # a difference itself
            shown["stand_in_value"] = shown["stand_in_effect"]
        if question.has_direction:
            shown["stand_in_verdict"] = direction(question.effect, effect)
    return shown


def _words(row, base: tuple[str, str]) -> str:
    """The comparator as text: the part of it that is another."""
    loss, method = base
    return method if loss == row.loss else loss if method == row.method else f"{loss} | {method}"
