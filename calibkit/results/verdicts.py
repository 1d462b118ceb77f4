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
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

import pandas as pd

from calibkit._checks import check_choice
from calibkit.results.rows import CELL, PAPERS, load

VERDICTS = ("reproduced", "partly", "not reproduced", "not run")
SHOWN = ("paper", "table", *CELL, "unit", "printed", "ours", "low", "high", "n_seeds", "budget", "source", "verdict")

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
    then the larger budget.

    Args:
        paper: notebook name, one of ``PAPERS``.
        table: one table of it; None: all.
        ours: rows to compare with. Default: ``load("ours")``.
        stand_in: printed model, or ``"dataset/model"`` where that depends on the data -> the model of ours to hold
            against it, ``"resnet20"``, or, where it was trained on other data too, ``"camvid/deeplabv3_resnet34"``. Its
            verdict is at most "partly", by the effect.

    Returns:
        DataFrame: one row a printed number, columns ``SHOWN``; ``printed`` is text, ``ours low high`` are in its unit.

    Raises:
        ValueError: an unknown paper or table.
    """
    rows = load("paper")
    rows = rows[(rows["paper"] == check_choice("paper", paper, PAPERS)) & (rows["source"] == "printed")]
    printed = {(row.table, *_cell(row)): row.value for row in rows.itertuples()}
    anywhere = {key[1:]: value for key, value in reversed(printed.items())}
    if table is not None:
        rows = rows[rows["table"] == check_choice("table", table, list(rows["table"].unique()))]
    found, stand_ins = _best(load("ours") if ours is None else ours, paper), stand_in or {}
    out = []
    for row in rows.itertuples():
        cell, base = _cell(row), _baseline(_cell(row))
        network = stand_ins.get(f"{row.dataset}/{row.model}", stand_ins.get(row.model, row.model))
        mine, mine_base = (found.get(_with_network(c, network)) if c else None for c in (cell, base))
        p_base = printed.get((row.table, *base), anywhere.get(base)) if base else None
        out.append(_side_by_side(row, p_base, mine, mine_base, own_model=network == row.model))
    return pd.DataFrame(out, columns=list(SHOWN))


def summary() -> pd.DataFrame:
    """How many printed numbers of each paper and table have which verdict; index (paper, table)."""
    counts: dict[tuple[str, str], Counter] = {}
    for paper in PAPERS:
        for row in compare(paper).itertuples():
            counts.setdefault((paper, row.table), Counter()).update(["printed", row.verdict])
    index = pd.MultiIndex.from_tuples(counts, names=["paper", "table"])
    return pd.DataFrame(
        [[c[name] for name in ("printed", *VERDICTS)] for c in counts.values()], index, ["printed", *VERDICTS]
    )


def _cell(row) -> tuple:
    return tuple(getattr(row, name) for name in CELL)


def _with_network(cell: tuple, network: str) -> tuple:
    """The cell of another network, a model or data set/model."""
    dataset, _, model = network.rpartition("/")
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


def _side_by_side(row, p_base: float | None, mine, mine_base, *, own_model: bool) -> dict:
    shown = {name: getattr(row, name) for name in ("paper", "table", *CELL, "unit", "printed")}
    if mine is None:
        nothing = dict.fromkeys(("ours", "low", "high"), math.nan)
        return shown | nothing | {"n_seeds": 0, "budget": "", "source": "", "verdict": "not run"}
    scale = _SCALE[row.unit]
    value = own_model and _value_agrees(row, mine, scale)
    effect = None
    if p_base is not None and mine_base is not None:
        effect = _effect_agrees((row.value - p_base) / scale, mine, mine_base)
    shown |= {"ours": mine.value * scale, "low": mine.low * scale, "high": mine.high * scale}
    shown |= {"n_seeds": mine.n_seeds, "budget": mine.budget, "source": mine.source}
    return shown | {"verdict": _verdict(value, effect, judged=own_model and mine.budget == "paper")}


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
