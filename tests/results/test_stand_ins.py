"""A network that was not trained here may have a stand-in; a measurement of its own always comes first."""

import math

import pytest
from constructed_rows import AUTHORS, differs, measured_row, printed

from book.kit.results import append, compare, load, summary
from book.papers import PAPERS

TS = "temperature_scaling"
IN = {"resnet50": "resnet20"}


@pytest.fixture
def falls(book):
    """A paper whose TS takes a ResNet-50 from 5.50 to 0.96."""
    printed({"value": "5.50"}, {"value": "0.96", "method": TS})


def of_stand_in(effect=-0.01, value=0.0096, **columns):
    """What a stand-in measured: a number after TS and its difference."""
    columns = {"model": "resnet20"} | columns
    append([measured_row(value, method=TS, budget="reduced", **columns)])
    differs(effect, **columns)


def found(**options):
    """Of TS: ours, verdict, the stand-in's name, number and verdict."""
    row = compare("mbls", **options).iloc[1]
    ours = "" if math.isnan(row["ours"]) else round(row["ours"], 3)
    value = "" if math.isnan(row["stand_in_value"]) else round(row["stand_in_value"], 3)
    return [ours, row["verdict"], row["stand_in"], value, row["stand_in_verdict"]]


def test_its_direction_alone_is_an_answer(falls):
    """Its value, the printed one to the digit, is none."""
    for effect, verdict in [(-0.01, "same direction"), (0.01, "opposite direction"), (-0.001, "not decided")]:
        of_stand_in(effect)
        assert found(stand_in=IN) == ["", "not run", "resnet20", 0.96, verdict]


@pytest.mark.parametrize("own", [AUTHORS, {"budget": "reduced"}])
def test_an_own_row_comes_first(falls, own):
    """Beside the stand-in's, whatever it was measured on."""
    of_stand_in()
    append([measured_row(0.19, method=TS, **own)])
    differs(0.01, **own)
    assert found(stand_in=IN) == [19.0, "opposite direction", "", "", ""]


def test_an_own_number_without_a_difference_leaves_room_at_the_reduced_budget_alone(falls):
    """At that of the paper it is the paper's network, trained as the paper has it: its number is shown."""
    of_stand_in()
    append([measured_row(0.19, method=TS, budget="reduced")])
    assert found(stand_in=IN)[2:] == ["resnet20", 0.96, "same direction"]
    append([measured_row(0.19, method=TS, budget="paper")])
    assert found(stand_in=IN) == [19.0, "not run", "", "", ""]


def test_it_may_be_of_other_data_and_depend_on_the_data(falls):
    of_stand_in(dataset="cifar100")
    nothing = ["", "not run", "", "", ""]
    assert found(stand_in=IN) == nothing  # not measured on CIFAR-10
    assert found(stand_in={"resnet50": "cifar100/resnet20"})[2:] == ["cifar100/resnet20", 0.96, "same direction"]
    of_data = IN | {"cifar10/resnet50": "cifar100/resnet20"}
    assert found(stand_in=of_data)[2:] == ["cifar100/resnet20", 0.96, "same direction"]
    assert found(stand_in={"cifar100/resnet50": "cifar100/resnet20"}) == nothing


def test_the_record_of_the_paper_is_the_default(falls):
    of_stand_in()
    assert PAPERS["mbls"].stand_ins["cifar10/resnet50"] == "resnet20"
    assert found() == found(stand_in=IN)
    assert summary().loc[("mbls", "1"), "same direction, by a stand-in"] == 1


def test_every_stand_in_was_measured_for_a_printed_network():
    paper, ours = load("paper"), load("ours")
    measured_networks = {*zip(ours["dataset"], ours["model"], strict=True)}
    for name, of in PAPERS.items():
        rows = paper[paper["paper"] == name]
        for wanted, network in of.stand_ins.items():
            data, _, model = wanted.rpartition("/")
            cells = rows[(rows["model"] == model) & rows["dataset"].isin([data] if data else rows["dataset"])]
            assert len(cells), wanted
            of_data, _, instead = network.rpartition("/")
            candidates = {(of_data or dataset, instead) for dataset in cells["dataset"]}
            assert candidates & measured_networks, network


def test_what_is_measured_on_published_logits_stands_in_the_tables():
    """Class-wise loss scaling, ResNet-110 on CIFAR10-LT: 34 cells on published logits, none by the ResNet-20."""
    compared = compare("class_loss_scaling", "2").query("dataset == 'cifar10_lt' and model == 'resnet110'")
    assert len(compared) == 34
    assert set(compared["source"]) == {"published-logits"} and set(compared["stand_in"]) == {""}
