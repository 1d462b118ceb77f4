"""What may decide a direction, what may only object to one, the size of it, and what seeds do to both; and stand-ins
for networks that were not trained here, before which a measurement of its own comes.
"""

import math
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from constructed_rows import AUTHORS, differs, falls, measured_row, printed
from scipy import stats

from book.kit.results import append, compare, load, summary
from book.kit.results.difference_intervals import chance_of, interval_of
from book.kit.results.record import _done, bases, methods, replays
from book.kit.results.verdict_rule import Answer, Effect, direction
from book.papers import PAPERS
from calibkit.metrics.comparison import Estimate
from calibkit.metrics.intervals import Resampled
from calibkit.networks import PUBLISHED

CTS, TS_ECE = "class_temperature_scaling", "temperature_scaling:ece"


@pytest.fixture
def claim(book):
    """A paper that prints a lower ECE for class temperatures on thirty networks; the first was measured."""
    rows = [{"model": f"m{i}", "method": key, "value": v} for i in range(30) for key, v in ((TS_ECE, "5"), (CTS, "2"))]
    printed(*(row | {"paper": CTS, "table": "I"} for row in rows))
    append(measured_row(0.02, model="m0", method=key) for key in (TS_ECE, CTS))
    return lambda metric, value, chance: differs(
        value, model="m0", method=CTS, base_method=TS_ECE, metric=metric, chance=chance, budget="paper"
    )


@pytest.mark.slow
def test_an_objection_needs_no_correction(claim, book):
    """By NLL worse beyond any doubt; by ECE better, with three p-values."""
    for i in range(1, 30):
        differs(-0.01, model=f"m{i}", method=CTS, base_method=TS_ECE, chance=0.5)
    claim("nll", 0.03, 1e-9)
    for of_ece, verdict in [(0.9, "not decided"), (0.04, "not decided"), (1e-6, "mixed")]:
        claim("ece", -0.01, of_ece)
        found = compare(CTS, stand_in={}).query("model == 'm0' and method == @CTS")
        assert found["direction"].tolist() == [verdict], of_ece


def test_a_stricter_correction_never_decides_more():
    """Nor does the NLL alone decide anything."""
    for sign, nll in product((-1, 0, 1), repeat=2):
        found = direction(-0.02, Effect(Estimate(-0.01, -0.02, 0.0), sign, nll))
        assert (found == Answer.OPEN) == (sign == 0) and (found == Answer.MIXED) == (sign * nll < 0)
        assert direction(-0.02, Effect(Estimate(-0.01, -0.02, 0.0), 0, nll)) == Answer.OPEN


def test_a_number_far_from_the_printed_one_is_not_reproduced(book):
    """3.07 for 8.46: the difference lies within a quarter of the printed one, the value does not."""
    printed({"value": "30.00"}, {"value": "8.46", "method": "temperature_scaling"})
    effect = {"budget": "paper", "method": "temperature_scaling"}
    for value, ours, verdict in [(-0.2677, 0.0307, "same direction"), (-0.21, 0.0800, "reproduced")]:
        differs(value, **effect)
        append([measured_row(ours, method="temperature_scaling")])
        assert compare("mbls")["verdict"].tolist()[1] == verdict
    differs(-0.21, **effect)
    append([measured_row(0.0600, method="temperature_scaling")])
    assert compare("mbls")["verdict"].tolist()[1] == "same direction"


def test_an_infinite_nll_is_worse(claim, book):
    claim("ece", -0.01, 1e-9)
    query = "model == 'm0' and method == @CTS"
    assert compare(CTS, stand_in={}).query(query)["direction"].tolist() == ["same direction"]
    append([measured_row(0.5, model="m0", method=TS_ECE, metric="nll", n_bins="", unit="nats")])
    assert compare(CTS, stand_in={}).query(query)["direction"].tolist() == ["mixed"]


# ------------------------------------------------------------------------------------------------------ p-values
def row(value, arm, seed_error, df, chance=0.0, base="cross_entropy"):
    return SimpleNamespace(
        value=value, low=value - arm, high=value + arm, chance=chance, seed_error=seed_error, seed_df=df,
        loss="cross_entropy", base_loss=base,
    )  # fmt: skip


def test_the_p_value_says_what_the_interval_says():
    for df, ratio in [(1, 0.3), (1, 4.0), (2, 0.3), (2, 1.0), (9, 0.3), (9, 4.0)]:
        for value, arm in product((-3.0, -1.0, 0.4, 2.5), np.geomspace(0.05, 6, 9)):
            of = row(value, arm, ratio * arm / 1.96, df)
            low, high = interval_of(of)[1:]
            assert (chance_of(of) < 0.05) == (not low <= 0 <= high)


def test_the_p_value_without_a_spread_of_seeds_is_that_of_the_normal_distribution():
    assert chance_of(row(1.0, 1.0, 1e-9, 2)) == pytest.approx(0.05)
    assert chance_of(row(1.0, 0.5, 1e-9, 2)) == pytest.approx(2 * stats.norm.sf(2 * 1.959964), rel=1e-5)
    assert chance_of(row(1.0, 0.5, 1e-9, 2, chance=0.2)) == 0.2
    # two losses of one training each are not told apart
    assert chance_of(row(1.0, 0.1, math.nan, math.nan, 1e-9, base="mbls")) == 1.0
    assert chance_of(row(1.0, 0.1, math.nan, math.nan, 1e-9)) == 1e-9


def test_sums_in_another_order_are_no_difference():
    draws = np.linspace(0.9, 1.1, 100)
    for mean, null in ((True, None), (False, np.full(100, 0.5))):
        one = Resampled(1.0, draws, mean, null)
        other = Resampled(1.0 + 3e-15, draws + np.linspace(2.7e-15, 3.8e-15, 100), mean, null)
        assert other.difference(one) == (0.0, 0.0, 0.0)
        assert other.chance(one) == 1.0


# ------------------------------------------------------------------------------------------------- what is stored
def test_a_method_is_done_with_all_its_bases_on_its_own_network(book):
    where = {"dataset": "cifar10", "model": "resnet20", "loss": "cross_entropy", "budget": "reduced", "source": "ours"}
    append([measured_row(0.01, method=CTS, **where)])
    for base in bases("cross_entropy", CTS):
        assert not _done(where, 1, [CTS])
        differs(-0.01, method=CTS, base_method=base, **where)
    assert _done(where, 1, [CTS]) == {CTS} and not _done(where, 2, [CTS])
    for other in ({"dataset": "cifar100"}, {"model": "resnet110"}, {"loss": "focal"}, {"budget": "paper"}):
        assert not _done(where | other, 1, [CTS])


@pytest.mark.slow
def test_what_is_stored_of_published_logits_is_what_is_recorded():
    wanted = {of: {*methods(of[2])} for of in PUBLISHED.values()}
    for name, of in PUBLISHED.items():
        wanted[of].update(replays(name))
    stored = load("ours").query("source == 'published-logits'")
    for found in stored.drop_duplicates(["dataset", "model", "loss", "method"]).itertuples():
        assert found.method in wanted[found.dataset, found.model, found.loss]


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


# ------------------------------------------------------------------------------------------------------ stand-ins
IN = {"resnet50": "resnet20"}


def of_stand_in(effect=-0.01, value=0.0096, **columns):
    """What a stand-in measured: a number after TS and its difference."""
    columns = {"model": "resnet20"} | columns
    append([measured_row(value, method=TS, budget="reduced", **columns)])
    differs(effect, **columns)


def of_ts(**options):
    """Of TS: ours, verdict, the stand-in's name, number and verdict."""
    row = compare("mbls", **options).iloc[1]
    ours = "" if math.isnan(row["ours"]) else round(row["ours"], 3)
    value = "" if math.isnan(row["stand_in_value"]) else round(row["stand_in_value"], 3)
    return [ours, row["verdict"], row["stand_in"], value, row["stand_in_verdict"]]


def test_its_direction_alone_is_an_answer(book):
    """Its value, the printed one to the digit, is none."""
    falls()
    for effect, verdict in [(-0.01, "same direction"), (0.01, "opposite direction"), (-0.001, "not decided")]:
        of_stand_in(effect)
        assert of_ts(stand_in=IN) == ["", "not run", "resnet20", 0.96, verdict]


@pytest.mark.parametrize("own", [AUTHORS, {"budget": "reduced"}])
def test_an_own_row_comes_first(book, own):
    """Beside the stand-in's, whatever it was measured on."""
    falls()
    of_stand_in()
    append([measured_row(0.19, method=TS, **own)])
    differs(0.01, **own)
    assert of_ts(stand_in=IN) == [19.0, "opposite direction", "", "", ""]


def test_an_own_number_without_a_difference_leaves_room_at_the_reduced_budget_alone(book):
    """At that of the paper it is the paper's network, trained as the paper has it: its number is shown."""
    falls()
    of_stand_in()
    append([measured_row(0.19, method=TS, budget="reduced")])
    assert of_ts(stand_in=IN)[2:] == ["resnet20", 0.96, "same direction"]
    append([measured_row(0.19, method=TS, budget="paper")])
    assert of_ts(stand_in=IN) == [19.0, "not run", "", "", ""]


def test_it_may_be_of_other_data_and_depend_on_the_data(book):
    falls()
    of_stand_in(dataset="cifar100")
    nothing = ["", "not run", "", "", ""]
    assert of_ts(stand_in=IN) == nothing  # not measured on CIFAR-10
    assert of_ts(stand_in={"resnet50": "cifar100/resnet20"})[2:] == ["cifar100/resnet20", 0.96, "same direction"]
    of_data = IN | {"cifar10/resnet50": "cifar100/resnet20"}
    assert of_ts(stand_in=of_data)[2:] == ["cifar100/resnet20", 0.96, "same direction"]
    assert of_ts(stand_in={"cifar100/resnet50": "cifar100/resnet20"}) == nothing


def test_the_record_of_the_paper_is_the_default(book):
    falls()
    of_stand_in()
    assert PAPERS["mbls"].stand_ins["cifar10/resnet50"] == "resnet20"
    assert of_ts() == of_ts(stand_in=IN)
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
