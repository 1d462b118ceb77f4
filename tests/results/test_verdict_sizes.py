"""The third question of the rule, and what seeds do to the second."""

import math

import pytest
from constructed_rows import AUTHORS, differs, falls, measured_row

from book.kit.results import append, compare

TS = "temperature_scaling"


# --------------------------------------------------------------------------------------------- size, and the budget
def test_a_training_at_the_papers_budget_has_a_size(book):
    falls()
    append([measured_row(0.012, method=TS)])
    cases = [
        (-0.0454, 0.005, "equal", "reproduced"),  # the margin is a quarter of 4.54 points, at most one
        (-0.0390, 0.003, "equal", "reproduced"),
        (-0.0390, 0.006, "not decided", "same direction"),
        (-0.0200, 0.004, "different", "same direction"),
        (+0.0200, 0.004, "different", "opposite direction"),
    ]
    for value, width, size, verdict in cases:
        differs(value, width, budget="paper")
        row = compare("mbls").iloc[1]
        assert (row["size"], row["verdict"]) == (size, verdict)
        assert row["visible"] == pytest.approx(100 * width)


def test_two_tenths_of_a_point_are_the_smallest_margin(book):
    """Of half a printed point a quarter would be less."""
    falls("1.50", "1.00")
    append([measured_row(0.01, method=TS)])
    for off, size in [(0.0018, "equal"), (-0.0018, "equal"), (0.0024, "different"), (-0.0024, "different")]:
        differs(-0.005 + off, 0.0001, budget="paper")
        assert compare("mbls").iloc[1]["size"] == size


def test_the_reduced_budget_has_no_size_and_no_value(book):
    falls()
    append([measured_row(0.055, budget="reduced"), measured_row(0.0096, method=TS, budget="reduced")])
    differs(-0.0454)
    found = compare("mbls")
    assert list(found["verdict"]) == ["not run", "same direction"] and set(found["size"]) == {""}


def test_on_the_authors_images_the_value_of_a_difference_counts(book):
    falls()
    append([measured_row(0.01, method=TS, **AUTHORS)])
    differs(-0.0390, 0.02, **AUTHORS)
    assert compare("mbls")["size"].iloc[1] == "equal"


# -------------------------------------------------------------------------------------------------------- seeds
def test_seeds_widen_a_difference_and_its_p_value(book):
    """Test sets alone: -3 +- 2 points. A seed's error of 1 point beside 1.02 has 4.17 degrees of freedom."""
    falls()
    append([measured_row(0.05, method=TS, budget="reduced", n_seeds=2)])
    differs(-0.03, 0.02, chance=0.003, seed_error=0.01, seed_df=1, n_seeds=2, base_seeds=2)
    row = compare("mbls").iloc[1]
    assert row["verdict"] == "not decided"
    assert row["effect_high"] - row["effect"] == pytest.approx(2.733 * math.hypot(2 / 1.96, 1), rel=1e-3)
    differs(-0.03, 0.02, chance=0.003, seed_error=0.0001, seed_df=1, n_seeds=2, base_seeds=2)
    assert compare("mbls")["verdict"].iloc[1] == "same direction"
