"""What the front page, the guide and two cards say of MbLS and ACLS, counted again from the recorded differences."""

from cells_and_pages import chapter, says, text
from counted_differences import OURS, TS, alone, words

from book.kit.notebook.over_networks import select, stratum
from book.kit.results.difference_intervals import over_networks
from book.kit.results.paired_differences import load_effects
from book.papers import PAPERS


def test_the_margin_and_one_temperature_on_the_front_page_its_card_and_in_its_box():
    """In ECE and in NLL clearly higher, whichever network is left out."""
    for said in (PAPERS["mbls"].found, chapter("mbls"), text("index")):
        assert "Averaged over seven networks for balanced data" in said
    assert "four of them trained once, both scores are clearly worse" in text("index")
    rows = select(load_effects(), TS, "cross_entropy", loss="mbls", method="identity")
    rows = rows[rows["metric"].isin(["ece", "nll"])]
    ten, rows = dict([*rows.groupby("metric")]), rows[stratum(rows) == OURS]
    ece, nll = (
        {name: over_networks(of[of["network"] != name]) for name in ["", *of["network"]]}
        for of in (rows[rows["metric"] == metric] for metric in ("ece", "nll"))
    )
    assert len(ece) == len(nll) == 1 + 7 and len(ten["ece"]) == len(ten["nll"]) == 10
    assert {of.below() for of in (*ece.values(), *nll.values())} == {"does not hold"}
    assert over_networks(ten["ece"]).below() == "does not hold"
    assert over_networks(ten["nll"]).below() == "not decided" and "over all ten it is not" in text("ledger")


def test_the_means_of_acls_in_the_ledger_and_in_its_chapter():
    """Clearly above one temperature over six networks, not over all seven, and on each network for CIFAR-10."""
    assert "over the six networks without CamVid, but not over all seven" in text("ledger")
    seven = select(load_effects(), TS, "cross_entropy", loss="acls", method="identity", metric="ece")
    six = seven[stratum(seven) == OURS]
    assert (len(seven), len(six)) == (7, 6)
    assert (over_networks(seven).below(), over_networks(six).below()) == ("not decided", "does not hold")
    on_cifar10 = six[six["dataset"] == "cifar10"]
    assert alone(on_cifar10).tolist() == ["does not hold"] * 3 and "on all three of our networks" in chapter("acls")


def test_the_margin_without_a_temperature_on_the_front_page_and_in_the_guide():
    """Its gain over cross-entropy alone is there on all networks but one."""
    rows = select(load_effects(), "identity", "cross_entropy", loss="mbls", method="identity", metric="ece")
    every, on_cifar10 = rows["value"], rows[rows["dataset"] == "cifar10"].set_index("model")
    assert alone(on_cifar10).to_dict() == {"resnet20": "holds", "resnet50": "holds", "resnet8": "not decided"}
    assert 0 < on_cifar10.loc["resnet8", "value"] < 0.01 and (every < 0).sum() == len(every) - 1 == 9
    assert "is lower on nine of ten networks. The exception is the ResNet-8 for CIFAR-10, where" in text("index")


def test_label_smoothing_is_told_apart_on_the_front_page():
    """MbLS against it: on six of ten networks lower, on two of three for CIFAR-10 clearly, as on no mean."""
    where = {"loss": "mbls", "method": "identity", "metric": "ece"}
    word = words("identity", "label_smoothing", **where)
    assert word[["cifar10/resnet20", "cifar10/resnet8", "cifar10/resnet50"]].tolist() == [
        "not decided",
        "holds",
        "holds",
    ]
    rows = select(load_effects(), "identity", "label_smoothing", **where)
    assert (len(rows), (rows["value"] < 0).sum()) == (10, 6) and over_networks(rows).below() == "not decided"
    says("index", "Against label smoothing it is lower on six of ten that have both, and clearly on the two most")
    assert "over the ten networks with both the two do not differ clearly" in chapter("mbls")
    assert "Over the ten networks with both the two do not differ clearly" in " ".join(PAPERS["mbls"].found.split())


def test_what_acls_gains_on_the_front_page():
    where = {"loss": "acls", "method": "identity", "metric": "ece"}
    to_ce, to_mbls = (select(load_effects(), "identity", base, **where) for base in ("cross_entropy", "mbls"))
    assert (len(to_ce), (to_ce["value"] < 0).sum()) == (7, 7) and over_networks(to_ce).below() == "holds"
    assert over_networks(to_mbls).below() == "not decided" and len(to_mbls) == 7
    assert words("identity", "mbls", **where)["cifar10/resnet8"] == "holds"
    says("index", "clearly lower with that network on CIFAR-10, and over all seven")
    says("index", "its ECE is lower on seven of seven networks")
    for metric, word in (("ece", "not decided"), ("nll", "does not hold")):
        assert words(TS, "cross_entropy", **where | {"metric": metric})["cifar100/resnet8"] == word
    says("index", "its ECE is as low, and its NLL clearly higher")


def test_acls_against_the_margin_in_its_chapter():
    """In ECE clearly lower on two networks and clearly higher on none, in AECE clearly higher on the ResNet-20."""
    of = {"loss": "acls", "method": "identity"}
    ece, adaptive = (words("identity", "mbls", metric=metric, **of) for metric in ("ece", "adaptive_ece"))
    assert len(ece) == 7 and {*ece.index[ece == "holds"]} == {"cifar10/resnet8", "cifar100/resnet20"}
    assert "does not hold" not in {*ece} and adaptive["cifar10/resnet20"] == "does not hold"
    said = "clearly below MbLS on the ResNet-8 and, by test images alone, with CIFAR-100, and clearly above it on none"
    assert said in " ".join(chapter("acls").replace("# ", "").split())


def test_the_loss_without_held_out_samples_in_the_guide():
    """On three networks of CIFAR-10 ACLS is below cross-entropy alone, and on none below its one temperature."""
    assert "train with a margin, `acls` or `mbls`" in text("which_method")
    for base, lower in (("identity", True), (TS, False)):
        word = words(base, "cross_entropy", loss="acls", method="identity", metric="ece", dataset="cifar10")
        assert len(word) == 3 and ((word == "holds") == lower).all()


def test_a_temperature_after_the_margin_in_the_comparison():
    """On each of four networks it leaves more than a temperature after cross-entropy."""
    said = "After MbLS, with a temperature of its own, more error is left on each."
    rows = select(load_effects(), TS, "cross_entropy", loss="mbls", method=TS, metric="ece")
    rows = rows[(rows["dataset"] == "cifar10") | (rows["dataset"] + rows["model"] == "cifar100resnet8")]
    assert said in chapter("comparison") and len(rows) == 4 and (rows["value"] > 0).all()
