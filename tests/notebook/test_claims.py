"""Claims: judged by their intervals, joined and counted in one set of words."""

import itertools

import numpy as np
import pytest

from book.kit.notebook import claims
from calibkit.metrics import bootstrap_difference
from calibkit.metrics.comparison import Comparison, Estimate

LABELS = np.repeat([0, 1], [80, 20])


def certain(p: float) -> np.ndarray:
    """Every sample predicted as class 0, with probability p."""
    return np.tile([p, 1 - p], (100, 1))


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    methods = Comparison(LABELS, ["ece", "accuracy"])
    for name, p in (("sure", 0.99), ("honest", 0.8)):
        methods.add(name, certain(p))
    return methods


@pytest.mark.parametrize(
    ("interval", "verdict"),
    [((-2, -3, -1), "holds"), ((2, 1, 3), "does not hold"), ((0, -1, 1), "not decided"), ((-1, -2, 0), "not decided")],
)
def test_lower_is_read_from_the_whole_interval(interval, verdict):
    claim = claims.judged("lower", Estimate(*interval))
    assert claim == ("lower", verdict, "{:+.2f} [{:+.2f}, {:+.2f}]".format(*interval))


def test_a_claim_on_a_pair_is_the_paired_difference_in_points(comparison):
    claim = claims.compared("lower", comparison, "honest", "sure")
    low, high = bootstrap_difference(certain(0.99), certain(0.8), LABELS, ["ece"])["ece"]
    assert claim == ("lower", "holds", f"-19.00 [{100 * low:+.2f}, {100 * high:+.2f}]")
    assert claims.compared("lower", comparison, "sure", "honest").verdict == "does not hold"
    same = claims.compared("on par", comparison, "honest", "sure", Estimate.below, "accuracy")
    assert same.verdict == "not decided" and same.found == "+0.00 [+0.00, +0.00]"


@pytest.mark.parametrize("names", [("honest", "liar"), ("liar", "honest")])
def test_what_was_not_measured_is_not_run(comparison, names):
    assert claims.compared("lower", comparison, *names) == ("lower", "not run here", "")
    assert claims.compared("lower", None, "honest", "sure").verdict == "not run here"


def test_a_metric_that_was_not_measured_is_refused(comparison):
    with pytest.raises(ValueError, match="Expected `metric` to be"):
        claims.compared("lower", comparison, "honest", "sure", metric="nll")


@pytest.mark.parametrize("words", list(itertools.product(claims.VERDICTS, repeat=2)))
def test_joined_verdicts_are_those_of_the_logical_and(words):
    verdict = claims.joint(words)
    if "does not hold" in words:  # one counterexample is enough
        assert verdict == "does not hold"
    elif set(words) == {"holds"}:
        assert verdict == "holds"
    else:
        assert verdict == ("not decided" if "not decided" in words else "not run here")
    assert verdict == claims.joint(reversed(words))


def test_another_word_is_no_verdict():
    with pytest.raises(ValueError, match="Expected `verdicts` to be"):
        claims.joint(["holds", "maybe"])


def test_direction_mirrors_the_sign():
    change = Estimate(1.5, 1.0, 2.0)
    assert claims.direction(change) == "higher"
    assert claims.direction(Estimate(-1.5, -2.0, -1.0)) == "lower"
    assert claims.direction(Estimate(1.5, 0.0, 3.0)) == "no difference beyond chance"


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
