"""What a chapter says of a paper's claims: one set of words, one way to judge, one table.

A claim about a number *holds* if its whole 95% interval is on the claimed side, *does not hold* if the whole interval
is on the other, and is *not decided* else: see :class:`calibkit.metrics.comparison.Estimate`, whose methods ``below``,
``above`` and ``within`` are the judges. What needs a network that is absent is *not run here*.

.. code-block:: python

    from book.kit.notebook import claims

    gaps = {other: comparison.difference("MbLS", other).percent for other in ("CE", "LS")}
    found = [claims.judged(f"lower ECE than {other}", gap) for other, gap in gaps.items()]
    claims.table(found)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import pandas as pd

from calibkit._checks import check_choice
from calibkit.metrics.comparison import Estimate

NOT_RUN = "not run here"
#: Every word that a claim can get.
VERDICTS = ("holds", "not decided", "does not hold", NOT_RUN)

Judge = Callable[[Estimate], str]


class Claim(NamedTuple):
    """What is claimed, its verdict, and what was found."""

    text: str  # what the paper says
    verdict: str  # one of ``VERDICTS``
    found: str = ""  # the evidence


def judged(text: str, estimate: Estimate | None, judge: Judge = Estimate.below) -> Claim:
    """A claim on one number with its interval; on None, a number that nobody has, it is not run.

    Example:
        >>> judged("on par", Estimate(-0.4, -0.9, 0.1), lambda change: change.above(-1.0))
        Claim(text='on par', verdict='holds', found='-0.40 [-0.90, +0.10]')
        >>> judged("lower", None).verdict
        'not run here'
    """
    return Claim(text, NOT_RUN) if estimate is None else Claim(text, judge(estimate), f"{estimate:+.2f}")


def checked(text: str, true: bool, found: str = "") -> Claim:
    """A claim that is either so or not, as an identity is."""
    return Claim(text, "holds" if true else "does not hold", found)


def over_draws(sample: np.ndarray) -> Estimate:
    """The mean of repetitions (D,), D >= 2, with two standard errors on both sides.

    Example:
        >>> f"{over_draws(np.array([1.0, 3.0])):.0f}"
        '2 [0, 4]'
    """
    mean, error = sample.mean(), 2 * sample.std(ddof=1) / np.sqrt(len(sample))
    return Estimate(mean, mean - error, mean + error)


def joint(verdicts: Iterable[str]) -> str:
    """The verdict on several claims as one: it holds if all hold, and does not if one does not.

    Example:
        >>> joint(["holds", "not decided"]), joint(["not decided", "does not hold"]), joint([])
        ('not decided', 'does not hold', 'not run here')
    """
    given = {check_choice("verdicts", word, VERDICTS) for word in verdicts}
    worst_first = ("does not hold", "not decided", NOT_RUN, "holds")
    return next((word for word in worst_first if word in given), NOT_RUN)


def table(claims: Iterable[Claim], found: str = "found") -> pd.DataFrame:
    """Claims as a table to show, one a row; ``found`` heads the evidence.

    Example:
        >>> table([checked("2 is even", True)]).to_dict("index")
        {'2 is even': {'found': '', 'verdict': 'holds'}}
    """
    rows = [{"claim": claim.text, found: claim.found, "verdict": claim.verdict} for claim in claims]
    return pd.DataFrame(rows, columns=["claim", found, "verdict"]).set_index("claim")
