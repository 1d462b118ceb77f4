"""A network that was not trained here may have a stand-in; a measurement of its own always comes first."""

import pytest
from constructed_rows import measured, measured_row, printed

from calibkit.results import STAND_INS, compare, load, summary, table
from calibkit.results.rows import PAPERS

TS = "temperature_scaling"
IN = {"resnet50": "resnet20"}


@pytest.fixture
def falls(book):
    """A paper whose TS takes a ResNet-50 from 5.50 to 0.96."""
    printed(book, {"value": "5.50"}, {"value": "0.96", "method": TS})
    return book


def pair(before, after, **columns):
    return [measured_row(v, method=m, **columns) for v, m in ((before, "identity"), (after, TS))]


def found(**options):
    compared = compare("mbls", **options)
    return [*zip(compared["ours"].round(3), compared["stand_in"], compared["verdict"], strict=True)]


def test_its_value_is_not_held_against_the_printed_one(falls):
    measured(falls, *pair(0.055, 0.0096, model="resnet20"))
    assert found(stand_in=IN) == [(5.5, "resnet20", "not run"), (0.96, "resnet20", "partly")]
    measured(falls, *pair(0.055, 0.09, model="resnet20"))
    assert found(stand_in=IN)[1] == (9.0, "resnet20", "not reproduced")


@pytest.mark.parametrize("own", [{"source": "author-logits"}, {}, {"budget": "reduced"}])
def test_an_own_row_comes_first(falls, own):
    """Beside the stand-in's, whatever it was measured on."""
    measured(falls, *pair(0.20, 0.19, model="resnet20"), *pair(0.055, 0.0096, **own))
    alone = found(stand_in={})
    assert found(stand_in=IN) == alone and [row[1] for row in alone] == ["", ""]
    assert alone[1][2] == ("partly" if own == {"budget": "reduced"} else "reproduced")


def test_method_and_baseline_are_of_one_network(falls):
    """Only TS is missing: the stand-in's falls from 9 to 8; from our own 5.5 that would be a rise."""
    measured(falls, *pair(0.09, 0.08, model="resnet20"), measured_row(0.055, budget="reduced"))
    assert found(stand_in=IN) == [(5.5, "", "not run"), (8.0, "resnet20", "partly")]


def test_it_may_be_of_other_data_and_depend_on_the_data(falls):
    measured(falls, *pair(0.055, 0.0096, model="resnet20", dataset="cifar100"))
    nothing = [(pytest.approx(float("nan"), nan_ok=True), "", "not run")] * 2
    assert found(stand_in=IN) == nothing  # not measured on CIFAR-10
    assert found(stand_in={"resnet50": "cifar100/resnet20"})[1] == (0.96, "cifar100/resnet20", "partly")
    of_data = IN | {"cifar10/resnet50": "cifar100/resnet20"}
    assert found(stand_in=of_data)[1] == (0.96, "cifar100/resnet20", "partly")
    assert found(stand_in={"cifar100/resnet50": "cifar100/resnet20"}) == nothing


def test_the_one_table_is_the_default(falls):
    measured(falls, *pair(0.055, 0.0096, model="resnet20"))
    assert STAND_INS["mbls"]["cifar10/resnet50"] == "resnet20"
    assert found() == found(stand_in=IN)
    assert summary().loc[("mbls", "1"), "by stand-in"] == 1


def test_a_table_marks_it(falls):
    measured(falls, *pair(0.20, 0.055, model="resnet20"), measured_row(0.055))
    compared = compare("mbls", stand_in=IN)
    assert list(table(compared)["stand_in"]) == ["", "resnet20"]
    assert table(compared, "method").iloc[0].to_list() == [
        "5.50 / 5.50\N{NO-BREAK SPACE}=",
        "0.96 / (5.50)\N{NO-BREAK SPACE}~",
    ]


def test_every_stand_in_was_measured_for_a_printed_network():
    paper, ours = load("paper"), load("ours")
    measured_networks = {*zip(ours["dataset"], ours["model"], strict=True)}
    assert set(STAND_INS) == set(PAPERS)
    for name, networks in STAND_INS.items():
        rows = paper[paper["paper"] == name]
        for wanted, network in networks.items():
            data, _, model = wanted.rpartition("/")
            cells = rows[(rows["model"] == model) & rows["dataset"].isin([data] if data else rows["dataset"])]
            assert len(cells), wanted
            of_data, _, instead = network.rpartition("/")
            candidates = {(of_data or dataset, instead) for dataset in cells["dataset"]}
            assert candidates & measured_networks, network


def test_what_is_measured_on_published_logits_stands_in_the_tables():
    """Class-wise loss scaling, ResNet-110 on CIFAR10-LT: 34 cells on the authors' logits, none by the ResNet-20."""
    compared = compare("class_loss_scaling", "2").query("dataset == 'cifar10_lt' and model == 'resnet110'")
    assert len(compared) == 34
    assert set(compared["source"]) == {"author-logits"} and set(compared["stand_in"]) == {""}
