"""Words for families of differences, and the rows that a base selects."""

import pandas as pd
from refusals import refused

from book.kit.notebook import over_networks


def test_holm_works_within_the_rows_given():
    """0.02 alone is beyond 5%; of three such it is not, as 3 x 0.02 > 0.05."""
    three = pd.DataFrame({"value": [-1.0, 1.0, -1.0], "chance": [0.02, 0.02, 0.02]})
    assert over_networks.beyond_chance(three[:1]).tolist() == ["better"]
    assert over_networks.beyond_chance(three[1:2]).tolist() == ["worse"]
    assert set(over_networks.beyond_chance(three)) == {"not decided"}


def test_no_difference_is_no_decision():
    assert over_networks.beyond_chance(pd.DataFrame({"value": [0.0], "chance": [0.0]})).tolist() == ["not decided"]


def test_words_keep_the_index():
    frame = pd.DataFrame({"value": [-1.0, 1.0], "chance": [1e-9, 1e-9]}, index=[7, 3])
    found = over_networks.beyond_chance(frame)
    assert found.to_dict() == {7: "better", 3: "worse"} and over_networks.tally(found) == "1 / 1 / 0"


def test_a_network_of_ours_with_the_name_of_a_published_one_is_called_ours():
    frame = pd.DataFrame({"dataset": "cifar10", "model": "resnet50", "loss": ["cross_entropy", "brier", "mbls"] * 2})
    names = over_networks.network_names(frame.assign(source=["ours"] * 3 + ["published-logits"] * 3))
    assert [name.endswith(" (ours)") for name in names] == [True, True, False, False, False, False]


def test_select_takes_the_base_of_the_same_loss():
    frame = pd.DataFrame(
        {
            "dataset": "d", "model": "m", "metric": "ece", "method": ["a", "a", "a"],
            "loss": ["brier", "brier", "cross_entropy"], "base_loss": ["brier", "cross_entropy", "cross_entropy"],
            "base_method": ["ts", "ts", "identity"], "value": [1, 2, 3], "source": "ours",
        }
    )  # fmt: skip
    assert over_networks.select(frame, "ts")["network"].tolist() == ["d/m, brier"]
    assert over_networks.select(frame, "ts", "cross_entropy")["value"].tolist() == [2]
    assert over_networks.select(frame, "ts", metric="nll").empty
    refused("`column`", over_networks.select, frame, "ts", metrik="nll")
