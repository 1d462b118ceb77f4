"""What the front page, the guide and two cards say of MbLS and ACLS, counted again from the recorded differences."""

from counted_differences import BOOK, OURS, TS, text

from book.kit.notebook.over_networks import select, stratum
from book.kit.results.difference_intervals import over_networks
from book.kit.results.paired_differences import load_effects
from book.papers import PAPERS


def test_the_margin_and_one_temperature_on_the_front_page_its_card_and_in_its_box():
    """In ECE higher, whichever network is left out, but clearly only with the ResNet-8; in NLL clearly higher."""
    for said in (PAPERS["mbls"].found, (BOOK.parent / "notebooks" / "mbls.py").read_text(), text("index")):
        assert (
            "Averaged over five networks for balanced data" in said
            and "though without the ResNet-8 that may be chance" in said
        )
    assert "its ECE is higher, though" in text("index") and "its likelihood is clearly worse" in text("index")
    rows = select(load_effects(), TS, "cross_entropy", loss="mbls", method="identity")
    rows = rows[rows["metric"].isin(["ece", "nll"])]
    seven, rows = dict([*rows.groupby("metric")]), rows[stratum(rows) == OURS]
    ece, nll = (
        {name: over_networks(of[of["network"] != name]) for name in ["", *of["network"]]}
        for of in (rows[rows["metric"] == metric] for metric in ("ece", "nll"))
    )
    assert len(ece) == len(nll) == 1 + 5 and len(seven["ece"]) == len(seven["nll"]) == 7
    assert all(of.value > 0 and of.below() != "holds" for of in ece.values())
    assert {of.below() for of in nll.values()} == {"does not hold"}
    assert ece[""].below() == over_networks(seven["ece"]).below() == "does not hold"
    assert ece["cifar10/resnet8, mbls"].below() == over_networks(seven["nll"]).below() == "not decided"
    assert "over all seven it is not" in text("ledger") and "Leave out the ResNet-8" in text("ledger")


def test_the_means_of_acls_in_the_ledger_and_in_its_chapter():
    """Clearly above one temperature over four networks, not over all five, and on each network for CIFAR-10."""
    assert "over the four networks without CamVid, but not over all five" in text("ledger")
    five = select(load_effects(), TS, "cross_entropy", loss="acls", method="identity", metric="ece")
    four = five[stratum(five) == OURS]
    assert (len(five), len(four)) == (5, 4)
    assert (over_networks(five).below(), over_networks(four).below()) == ("not decided", "does not hold")
    on_cifar10 = four[four["dataset"] == "cifar10"]
    assert {over_networks(on_cifar10.loc[[i]]).below() for i in on_cifar10.index} == {"does not hold"}


def test_the_margin_without_a_temperature_on_the_front_page_and_in_the_guide():
    """Its gain over cross-entropy alone is there on all networks but one."""
    rows = select(load_effects(), "identity", "cross_entropy", loss="mbls", method="identity", metric="ece")
    every, less = rows["value"], rows[rows["dataset"] == "cifar10"].set_index("model")["value"]
    rows = rows[rows["dataset"] == "cifar10"].set_index("model", drop=False)
    assert less["resnet20"] < -0.03 and over_networks(rows.loc[["resnet8"]]).below() == "does not hold"
    assert 0 < less["resnet8"] < 0.01 and (every < 0).sum() == len(every) - 1 == 6
    assert "is lower on six of seven networks. The exception is the ResNet-8, which loses a little" in text("index")


def test_the_loss_without_held_out_samples_in_the_guide():
    """On both networks of CIFAR-10 ACLS is below cross-entropy alone, and on neither below its one temperature."""
    assert "train with `acls`" in text("which_method")
    for base, lower in (("identity", True), (TS, False)):
        rows = select(
            load_effects(), base, "cross_entropy", loss="acls", method="identity", metric="ece", dataset="cifar10"
        )
        assert len(rows) == 2
        assert all((over_networks(rows.loc[[i]]).below() == "holds") == lower for i in rows.index)
