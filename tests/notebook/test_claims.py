"""Claims: judged by their intervals, joined and counted in one set of words."""

import itertools

import numpy as np
import pytest
from refusals import refused

from book.kit.notebook import claims
from calibkit.metrics import bootstrap_difference
from calibkit.metrics.comparison import Comparison, Estimate

LABELS = np.repeat([0, 1], [80, 20])


def certain(p: float) -> np.ndarray:
    """Every sample predicted as class 0, with probability p."""
    return np.tile([p, 1 - p], (100, 1))


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    methods = Comparison(LABELS, ["ece"])
    for name, p in (("sure", 0.99), ("honest", 0.8)):
        methods.add(name, certain(p))
    return methods


def test_lower_is_read_from_the_whole_interval():
    for interval, verdict in (((-2, -3, -1), "holds"), ((2, 1, 3), "does not hold"), ((-1, -2, 0), "not decided")):
        claim = claims.judged("lower", Estimate(*interval))
        assert claim == ("lower", verdict, "{:+.2f} [{:+.2f}, {:+.2f}]".format(*interval))


def test_a_claim_on_a_pair_is_the_paired_difference_in_points(comparison):
    claim = claims.judged("lower", comparison.difference("honest", "sure").percent)
    low, high = bootstrap_difference(certain(0.99), certain(0.8), LABELS, ["ece"])["ece"]
    assert claim == ("lower", "holds", f"-19.00 [{100 * low:+.2f}, {100 * high:+.2f}]")
    assert claims.judged("lower", comparison.difference("sure", "honest").percent).verdict == "does not hold"


def test_what_was_not_measured_is_not_run():
    assert claims.judged("lower", None) == ("lower", "not run here", "")


def test_joined_verdicts_are_those_of_the_logical_and():
    """One counterexample is enough; what holds with what is open is open."""
    order = ["does not hold", "not decided", "not run here", "holds"]
    for words in itertools.product(claims.VERDICTS, repeat=2):
        assert claims.joint(words) == min(words, key=order.index)
    refused("`verdicts` to be", claims.joint, ["holds", "maybe"])


def test_repetitions_give_two_standard_errors():
    sample = np.array([1.0, 2.0, 4.0, 9.0])
    value, low, high = claims.over_draws(sample)
    error = (((1 - 4) ** 2 + (2 - 4) ** 2 + 0 + (9 - 4) ** 2) / 3) ** 0.5 / 2
    assert value == 4.0 and np.allclose([low, high], [4 - 2 * error, 4 + 2 * error])


def test_the_table_has_a_row_a_claim_in_their_order():
    rows = [claims.checked("b", True, "proof"), claims.checked("a", False), claims.checked("b", False)]
    frame = claims.table(rows, found="found (points)")
    assert frame.index.tolist() == ["b", "a", "b"] and frame.columns.tolist() == ["found (points)", "verdict"]
    assert frame["verdict"].tolist() == ["holds", "does not hold", "does not hold"]
    assert claims.table([]).empty
