r"""The rule of the verdicts: three questions to a printed number, each answered by itself.

**Replay.** On the paper's own logits nothing is random. Does the printed number come out, to 0.05 percentage points
(0.0005 in nats) or half a unit of its last digit? By the authors' own optimiser where that is known, which may stop
before its end; else by the optimum.

**Direction.** Is the method better, or worse, than the comparator that its claim names, as printed? Both are measured
on the same test images, and the difference of the printed metric and that of the NLL are tested, all tests of one paper
and kind together by Holm's method at 5 %. The direction is the *same* if at least one of the two lies beyond chance on
the printed side and neither on the other; *opposite* if it is the other way round; else *not decided*. To decide, a
difference must pass Holm's correction; to object, it need not: a correction that hid an objection would let weaker
evidence decide more. Two losses that were trained once each are not told apart: another seed may change the side. The
NLL has a say in what is printed of calibration errors, because it is proper and its paired difference has more power;
the printed metric has one, because it is the claim. What a method cannot change has no direction, nor has a printed
difference that the tolerance of the replay swallows, or that is less than a unit of its last digit.

**Size.** Is the difference as large as printed, within a margin that is fixed beforehand: 0.2 points (0.002 in nats) or
a quarter of the printed difference, whichever is more? *Equal* if the whole interval of ours lies within the margin,
*different* if it lies outside, else *not decided*. On the paper's logits the images are the same, and the value alone
counts.
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import NamedTuple

from calibkit.metrics.comparison import Estimate

#: Who answers: we, others on the paper's networks, a smaller network of ours.
OURS, OTHERS, STAND_IN = "ours", "others", "a stand-in"
#: What the authors' code gives and ours does not.
BY_THEIR_CODE = "by the authors' code"


class Answer(StrEnum):
    """What became of a printed number, by falling weight: the text, as tables and pages have it.

    Attributes:
        word: the text without whose it is.
        by: ``OURS``, ``OTHERS`` or ``STAND_IN``.
        like: the answer of ours that says the same.

    Example:
        >>> Answer.SAME_BY_STAND_IN, Answer("another elsewhere").like
        (<Answer.SAME_BY_STAND_IN: 'same direction, by a stand-in'>, 'not reproduced')
    """

    REPRODUCED = "reproduced"
    REPRODUCED_BY_THEIR_CODE = f"reproduced {BY_THEIR_CODE}", OURS, "reproduced"
    SAME = "same direction"
    OPEN = "not decided"
    OPPOSITE = "opposite direction"
    NOT_REPRODUCED = "not reproduced"
    SAME_ELSEWHERE = "the same elsewhere", OTHERS, "reproduced"
    ANOTHER_ELSEWHERE = "another elsewhere", OTHERS, "not reproduced"
    SAME_BY_STAND_IN = "same direction", STAND_IN
    OPEN_BY_STAND_IN = "not decided", STAND_IN
    OPPOSITE_BY_STAND_IN = "opposite direction", STAND_IN
    NOT_RUN = "not run"

    word: str
    by: str
    like: str

    def __new__(cls, word: str, by: str = OURS, like: str = "") -> Answer:
        """The member; a stand-in's has its name in the text."""
        text = f"{word}, by {by}" if by == STAND_IN else word
        self = str.__new__(cls, text)
        self._value_, self.word, self.by, self.like = text, word, by, like or word
        return self


LEVEL = 0.05
#: As fractions, or in nats.
TOLERANCE, MARGIN, SHARE = 0.0005, 0.002, 0.25


class Effect(NamedTuple):
    """A difference that was measured, of the printed metric and of the NLL.

    Attributes:
        estimate: with its interval over test sets and, of several seeds, over seeds.
        sign: -1 or 1 where it is beyond chance after Holm's correction, else 0.
        nll: likewise of the NLL; 0 where the printed metric is no calibration error.
        objections: the signs of the two where they are beyond chance before the correction.
    """

    estimate: Estimate
    sign: int
    nll: int
    objections: tuple[int, int] = (0, 0)


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
        >>> direction(-0.02, better._replace(nll=1)).name
        'OPEN'
        >>> direction(-0.02, Effect(Estimate(-0.01, -0.02, -0.005), 0, 1, objections=(-1, 1))).name
        'OPEN'
    """
    signs = {effect.sign, effect.nll} - {0}
    if len(signs) != 1 or len(signs | {*effect.objections} - {0}) != 1:
        return Answer.OPEN
    return Answer.SAME if signs.pop() == math.copysign(1, printed) else Answer.OPPOSITE


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
    margin = max(MARGIN, SHARE * abs(printed))
    low, high = (estimate.value,) * 2 if same_images else estimate[1:]
    low, high = low - printed, high - printed
    if -margin <= low and high <= margin:
        return "equal"
    return "different" if low > margin or high < -margin else "not decided"


def visible(estimate: Estimate) -> float:
    """The smallest difference that would have been seen: the longer arm of the interval."""
    return max(estimate.value - estimate.low, estimate.high - estimate.value)
