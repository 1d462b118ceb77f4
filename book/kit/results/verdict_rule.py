r"""The rule of the verdicts: three questions to a printed number, each answered by itself.

**Replay.** On the paper's own logits nothing is random. Does the printed number come out, to 0.05 percentage points
(0.0005 in nats) or half a unit of its last digit? By the authors' own optimiser where that is known, which may stop
before its end; else by the optimum.

**Direction.** Is the method better, or worse, than the comparator that its claim names, as printed? Both are measured
on the same test images, and the difference of the printed metric is tested, all tests of one paper and kind together by
Holm's method at 5%. Beyond chance on the printed side, the direction is the *same*; on the other, *opposite*; else it
is *not decided*. The NLL may object to what a calibration error says, because it is proper; it never decides in its
place. Where it lies beyond chance on the other side of 0 than the printed metric, the answer is *mixed*. To object, it
need not pass the correction: one that hid an objection would let weaker evidence decide more. Two losses that were
trained once each are not told apart: another seed may change the side. What a method cannot change has no direction,
nor has a printed difference that the tolerance of the replay swallows, or that is less than a unit of its last digit.

**Size.** Is the difference as large as printed, within a margin that is fixed beforehand: 0.2 points (0.002 in nats) or
a quarter of the printed difference, whichever is more, but at most one point (0.01 in nats)? *Equal* if the whole
interval of ours lies within the margin, *different* if it lies outside, else *not decided*. On the paper's logits the
images are the same, and the value alone counts. For a number to be *reproduced* by a training of ours, the value, too,
must lie within the margin of the printed one.
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import NamedTuple

from calibkit.metrics.comparison import Estimate

#: Who answers: we, others on the paper's networks, a stand-in of ours.
OURS, OTHERS, STAND_IN = "ours", "others", "a stand-in"
#: What the authors' code gives and ours does not.
BY_THEIR_CODE = "by the authors' code"


class Answer(StrEnum):
    """What became of a printed number, by falling weight: the text, as tables and pages have it.

    Example:
        >>> Answer.SAME_BY_STAND_IN, Answer("another elsewhere").like
        (<Answer.SAME_BY_STAND_IN: 'same direction, by a stand-in'>, 'not reproduced')
    """

    REPRODUCED = "reproduced"
    REPRODUCED_BY_THEIR_CODE = f"reproduced {BY_THEIR_CODE}", OURS, "reproduced"
    SAME = "same direction"
    MIXED = "mixed"
    OPEN = "not decided"
    OPPOSITE = "opposite direction"
    NOT_REPRODUCED = "not reproduced"
    SAME_ELSEWHERE = "the same elsewhere", OTHERS, "reproduced"
    ANOTHER_ELSEWHERE = "another elsewhere", OTHERS, "not reproduced"
    SAME_BY_STAND_IN = "same direction", STAND_IN
    MIXED_BY_STAND_IN = "mixed", STAND_IN
    OPEN_BY_STAND_IN = "not decided", STAND_IN
    OPPOSITE_BY_STAND_IN = "opposite direction", STAND_IN
    NOT_RUN = "not run"

    word: str  # the text without whose it is
    by: str  # ``OURS``, ``OTHERS`` or ``STAND_IN``
    like: str  # the answer of ours that says the same

    def __new__(cls, word: str, by: str = OURS, like: str = "") -> Answer:
        """The member; a stand-in's has its name in the text."""
        text = f"{word}, by {by}" if by == STAND_IN else word
        self = str.__new__(cls, text)
        self._value_, self.word, self.by, self.like = text, word, by, like or word
        return self


ALPHA = 0.05
#: As fractions, or in nats; the margin of the size is a share of the printed difference, within its least and most.
TOLERANCE, SHARE, LEAST, MOST = 0.0005, 0.25, 0.002, 0.01


class Effect(NamedTuple):
    """A difference that was measured, of the printed metric and of the NLL."""

    estimate: Estimate  # with its interval over test sets and, of several seeds, over seeds
    sign: int  # -1 or 1 where it is beyond chance after Holm's correction, else 0
    nll: int  # likewise of the NLL, before the correction; 0 where the printed metric is no calibration error


def replays(printed: str, unit_scale: float, value: float) -> bool:
    """Whether a measured value, a fraction or in nats, is the printed text, to the tolerance.

    Example:
        >>> replays("5.50", 100.0, 0.0555), replays("5.50", 100.0, 0.0556), replays("5", 100.0, 0.0549)
        (True, False, True)
    """
    half_unit = 0.5 * 10.0 ** -len(printed.partition(".")[2]) / unit_scale
    return abs(value - float(printed) / unit_scale) <= max(TOLERANCE, half_unit) + 1e-12


def direction(printed: float, effect: Effect) -> Answer:
    """The answer for a printed difference that is not 0: see the module's text.

    Example:
        >>> better = Effect(Estimate(-0.01, -0.02, -0.005), -1, 0)
        >>> direction(-0.02, better).name, direction(+0.02, better).name
        ('SAME', 'OPPOSITE')
        >>> direction(-0.02, better._replace(nll=1)).name, direction(-0.02, better._replace(sign=0, nll=-1)).name
        ('MIXED', 'OPEN')
    """
    if effect.sign == 0:
        return Answer.OPEN
    if effect.nll == -effect.sign:
        return Answer.MIXED
    return Answer.SAME if effect.sign == math.copysign(1, printed) else Answer.OPPOSITE


def margin(printed: float) -> float:
    """How far from a printed difference one of ours may lie and still be as large.

    Example:
        >>> [margin(printed) for printed in (-0.004, 0.02, -0.18)]
        [0.002, 0.005, 0.01]
    """
    return min(max(LEAST, SHARE * abs(printed)), MOST)


def size(printed: float, estimate: Estimate, *, same_images: bool) -> str:
    """Whether a difference is as large as printed: "equal", "different" or "not decided".

    Example:
        >>> size(-0.04, Estimate(-0.035, -0.052, -0.031), same_images=False)
        'not decided'
        >>> size(-0.04, Estimate(-0.035, -0.045, -0.031), same_images=False)
        'equal'
        >>> size(-0.04, Estimate(-0.02, -0.03, -0.01), same_images=True)
        'different'
    """
    low, high = (estimate.value,) * 2 if same_images else estimate[1:]
    found = Estimate(estimate.value - printed, low - printed, high - printed).within(margin(printed))
    return {"holds": "equal", "does not hold": "different"}.get(found, found)


def visible(estimate: Estimate) -> float:
    """The smallest difference that would have been seen: the longer arm of the interval."""
    return max(estimate.value - estimate.low, estimate.high - estimate.value)
