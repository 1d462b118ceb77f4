r"""The verdict on a printed number: does it come out again, and does the step it stands for?

Units are those of the printed number. p is printed, o is ours, h the 95 % half-width of ours,

.. math:: h = \sqrt{((high - low) / 2)^2 + (1.96\, std)^2},

of the test set and, with several trainings, of the seed. The baseline b of a cell is the same network without post-hoc
calibration; for a network without it, the same architecture trained with cross-entropy; cross-entropy has none.

* The **value** agrees if ``|o - p| <= 0.05`` percentage points (0.0005 in nats) or half a unit of the last printed
  digit, on the authors' own logits; if ``|o - p| <= sqrt(2) h`` for our own training at the paper's budget, because
  the printed number is one draw too; never at the reduced budget.
* The **effect** agrees if ``o - o_b`` has the sign of ``p - p_b`` and is larger than its half-width
  ``H = sqrt(h^2 + h_b^2)``, or if the two effects differ by at most ``sqrt(2) H``.

===============  ======================================================================================================
reproduced       the value agrees, and the effect too where there is a baseline
partly           only one of the two agrees
not reproduced   neither agrees
not run          there is no number of ours; or only a baseline at the reduced budget, which says nothing about p
===============  ======================================================================================================

A cell without a number of ours may have one of a stand-in, see :mod:`calibkit.results.stand_ins`: its value cannot
agree, so that the verdict is "partly" at best, by the effect.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import pandas as pd

from calibkit._checks import check_choice
from calibkit.results.rows import CELL, PAPERS, load
from calibkit.results.stand_ins import STAND_INS

VERDICTS = ("reproduced", "partly", "not reproduced", "not run")
OURS = ("ours", "low", "high", "n_seeds", "budget", "source", "stand_in")
SHOWN = ("paper", "table", *CELL, "unit", "printed", *OURS, "verdict")

_SCALE = {"percent": 100.0, "fraction": 1.0, "nats": 1.0}
_SAME_LOGITS = 0.0005  # as a fraction, or in nats
_BEST_FIRST = {"author-logits": 0, "ours": 1, "paper": 0, "reduced": 1}


def compare(
    paper: str,
    table: str | None = None,
    *,
    ours: pd.DataFrame | None = None,
    stand_in: Mapping[str, str] | None = None,
) -> pd.DataFrame:
    """Printed numbers and ours, side by side, each with its verdict (see the module's text for the rule).

    Where several of our rows fit a cell, the one that followed the paper's recipe is taken, then the authors' logits,
    then the larger budget. A stand-in is taken only where none fits.

    Args:
        paper: notebook name, one of ``PAPERS``.
        table: one table of it; None: all.
        ours: rows to compare with. Default: ``load("ours")``.
        stand_in: printed model, or ``"dataset/model"`` where that depends on the data -> the model of ours to hold
            against it, ``"resnet20"``, or, where it was trained on other data too, ``"camvid/deeplabv3_resnet34"``.
            Default: ``STAND_INS[paper]``; ``{}`` for none.

    Returns:
        DataFrame: one row a printed number, columns ``SHOWN``; ``printed`` is text, ``ours low high`` are in its unit,
        ``stand_in`` names the network where ours is a stand-in's, else it is empty.

    Raises:
        ValueError: an unknown paper or table.

    Example:
        >>> compared = compare("class_loss_scaling", "1").query("model == 'densenet40' and metric == 'ece'")
        >>> first = compared.iloc[0]
        >>> first["method"], first["printed"], f"{first['ours']:.2f}", first["source"], first["stand_in"]
        ('identity', '5.50', '5.50', 'author-logits', '')
    """
    rows = load("paper")
    rows = rows[(rows["paper"] == check_choice("paper", paper, PAPERS)) & (rows["source"] == "printed")]
    printed = {(row.table, *_cell(row)): row.value for row in rows.itertuples()}
    anywhere = {key[1:]: value for key, value in reversed(printed.items())}
    if table is not None:
        rows = rows[rows["table"] == check_choice("table", table, list(rows["table"].unique()))]
    found = _best(load("ours") if ours is None else ours, paper)
    stand_ins = STAND_INS[paper] if stand_in is None else stand_in
    out = []
    for row in rows.itertuples():
        cell, base = _cell(row), _baseline(_cell(row))
        network = None
        if cell not in found:
            network = stand_ins.get(f"{row.dataset}/{row.model}", stand_ins.get(row.model))
        mine, mine_base = (found.get(_of_network(c, network)) if c else None for c in (cell, base))
        p_base = printed.get((row.table, *base), anywhere.get(base)) if base else None
        out.append(_side_by_side(row, p_base, mine, mine_base, network or ""))
    return pd.DataFrame(out, columns=list(SHOWN))


def summary(compared: pd.DataFrame | None = None) -> pd.DataFrame:
    """How many printed numbers of each paper and table have which verdict.

    Args:
        compared: rows of ``compare``, or some of them. Default: all of every paper.

    Returns:
        DataFrame: index (paper, table); columns printed, one for each of ``VERDICTS``, and "by stand-in": how many of
        those with a verdict have it by a stand-in.
    """
    if compared is None:
        compared = pd.concat([compare(paper) for paper in PAPERS])
    counts = {"printed": 1} | {name: compared["verdict"] == name for name in VERDICTS}
    counts["by stand-in"] = (compared["stand_in"] != "") & (compared["verdict"] != "not run")
    return compared[["paper", "table"]].assign(**counts).groupby(["paper", "table"], sort=False).sum()


def _cell(row) -> tuple:
    return tuple(getattr(row, name) for name in CELL)


def _of_network(cell: tuple, network: str | None) -> tuple:
    """The cell of another network, a model or data set/model; of its own for None."""
    dataset, _, model = (network or cell[1]).rpartition("/")
    return (dataset or cell[0], model, *cell[2:])


def _baseline(cell: tuple) -> tuple | None:
    """The cell that a method is an improvement of; None for cross-entropy as it is."""
    dataset, model, loss, method, *rest = cell
    if method != "identity":
        return (dataset, model, loss, "identity", *rest)
    if loss != "cross_entropy":
        return (dataset, model, "cross_entropy", "identity", *rest)
    return None


def _best(ours: pd.DataFrame, paper: str) -> dict[tuple, object]:
    """Our strongest row for each cell."""
    fits = ours[ours["paper"].isin(["", paper])]
    order = sorted(
        fits.itertuples(),
        key=lambda row: (row.paper == "", _BEST_FIRST[row.source], _BEST_FIRST[row.budget]),
        reverse=True,
    )
    return {_cell(row): row for row in order}


def _half_width(row) -> float:
    return math.hypot((row.high - row.low) / 2, 0.0 if math.isnan(row.std) else 1.96 * row.std)


def _side_by_side(row, p_base: float | None, mine, mine_base, stand_in: str) -> dict:
    shown = {name: getattr(row, name) for name in ("paper", "table", *CELL, "unit", "printed")}
    if mine is None:
        nothing = (math.nan, math.nan, math.nan, 0, "", "", "")
        return shown | dict(zip(OURS, nothing, strict=True)) | {"verdict": "not run"}
    scale = _SCALE[row.unit]
    value = not stand_in and _value_agrees(row, mine, scale)
    effect = None
    if p_base is not None and mine_base is not None:
        effect = _effect_agrees((row.value - p_base) / scale, mine, mine_base)
    numbers = [scale * x for x in (mine.value, mine.low, mine.high)]
    shown |= dict(zip(OURS, (*numbers, mine.n_seeds, mine.budget, mine.source, stand_in), strict=True))
    return shown | {"verdict": _verdict(value, effect, judged=not stand_in and mine.budget == "paper")}


def _value_agrees(row, mine, scale: float) -> bool:
    difference = abs(mine.value - row.value / scale)
    if mine.source == "author-logits":
        decimals = len(row.printed.partition(".")[2])
        return difference <= max(_SAME_LOGITS, 0.5 * 10**-decimals / scale) + 1e-12
    return mine.budget == "paper" and difference <= math.sqrt(2) * _half_width(mine)


def _effect_agrees(printed: float, mine, mine_base) -> bool:
    effect = mine.value - mine_base.value
    width = math.hypot(_half_width(mine), _half_width(mine_base))
    return (effect * printed > 0 and abs(effect) > width) or abs(effect - printed) <= math.sqrt(2) * width


def _verdict(value: bool, effect: bool | None, *, judged: bool) -> str:
    """From the two answers; ``effect`` is None without a baseline, ``judged`` False where the value cannot agree."""
    if effect is None:
        return "reproduced" if value else ("not reproduced" if judged else "not run")
    return ("not reproduced", "partly", "reproduced")[value + effect]
