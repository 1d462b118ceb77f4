"""What the pages say of the increasing map and of GP calibration, counted again from the recorded differences."""

from cells_and_pages import text
from counted_differences import PUBLISHED, TAIL, TS, against, effects, less_one, strata

from book.kit.notebook.over_networks import select
from book.kit.results.difference_intervals import over_networks
from book.kit.sphinx.others_calibrators import MANY, less, wide


def test_the_increasing_map_on_the_front_page():
    said = (
        "on nine of eleven published networks for balanced data, most of them trained with the Brier score, and on all"
    )
    assert said in text("index") and "on all four for long-tailed data" in text("index")
    losses = strata("order_preserving", "ece")[PUBLISHED]["loss"]
    assert (losses == "brier").sum() > len(losses) / 2
    for kind, lower in ((PUBLISHED, 9), (TAIL, 4)):
        both = [strata("order_preserving", metric)[kind].set_index("network")["value"] < 0 for metric in ("ece", "nll")]
        assert (both[0] & both[1]).sum() == lower
        assert all(
            of.below() == "holds" for metric in ("ece", "nll") for of in less_one("order_preserving", kind, metric)
        )


def test_the_increasing_map_in_the_guide():
    """On most published networks lower in both scores, on none worse beyond chance; of ours no test is decided."""
    rows = against(TS, "order_preserving", ("ece", "nll", "brier"))
    rows = rows[rows["metric"] != "brier"]
    counts = rows.groupby(["source", "metric"])["word"].value_counts().unstack(fill_value=0)
    published = counts.loc["published-logits"]
    assert published["better"].to_dict() == {"ece": 4, "nll": 10} and (rows["word"] != "worse").all()
    said = "clearly better in NLL on 10 of 15 published networks, in ECE on 4, worse on none"
    brier = rows[(rows["source"] == "published-logits") & (rows["loss"] == "brier") & (rows["metric"] == "nll")]
    assert len(brier) == 8 and (brier["word"] == "better").all()
    assert "Eight of the 15 were trained with the Brier score, and it is clear in NLL on all eight" in text(
        "which_method"
    )
    front = "After a correction for many tests this is clear on ten of the fifteen in NLL and on four in ECE."
    assert front in text("index")
    assert counts.loc["ours", "better"].sum() == 0 and said in text("which_method")
    assert "On none of our own networks trained with cross-entropy is the difference clear" in text("index")
    assert "On none of the networks that we trained ourselves with cross-entropy is the difference clear" in text(
        "which_method"
    )


def test_gp_calibration_in_the_guide():
    """Like the map; where test and held-out samples are alike it costs next to nothing."""
    rows = against(TS, "gp_calibration", ("ece", "nll", "brier"))
    published = rows[rows["source"] == "published-logits"].groupby("metric")["word"].value_counts()
    assert published["nll", "better"] == 10 and published["ece", "better"] == 4 and (rows["word"] != "worse").all()
    assert "it is clearly better on as many published networks as the map" in text("which_method")
    alike = rows[(rows["metric"] == "nll") & ~rows["dataset"].isin(["camvid", "20newsgroups"])]["value"]
    assert "alike it cost at most 0.0005 nats" in text("which_method") and 0 < alike.max() < 0.00055
    to_map = [select(effects(), TS, metric="nll", method=key) for key in ("gp_calibration", "order_preserving")]
    gp, of_map = (of.set_index("dataset")["value"] for of in to_map)
    assert "its NLL is higher than the map's" in text("which_method")
    assert all(gp[name] > of_map[name] for name in ("camvid", "20newsgroups"))


def test_maps_of_others_in_the_guide():
    """DIAG against one temperature: lower in both on all but one of 8 networks, and on three of seven."""
    values = wide("h-calibration")
    both = (less(values, "ece")["diag"] < 0) & (less(values, "nll")["diag"] < 0)
    many = both.index.get_level_values("dataset").isin(MANY)
    assert (many.sum(), both[many].sum(), both[~many].sum(), (~many).sum()) == (8, 7, 3, 7)
    said = "all but one network with 196 to 1,000 classes, and on three of seven with 10 or 100"
    assert said in text("which_method")
    imagenet = [less(values, metric).loc["imagenet"][["diag", "gp"]] for metric in ("ece", "nll")]
    assert all(of.shape == (4, 2) and (of < 0).all(axis=None) for of in imagenet)
    assert "better in both ECE and NLL on four of four ImageNet networks" in text("which_method")


def test_the_increasing_map_in_the_comparison():
    """On published networks trained with the Brier score hundredths of a nat; on long-tailed CIFAR-100 one network."""
    rows = select(effects(), TS, metric="nll", method="order_preserving")
    brier = rows[(rows["loss"] == "brier") & (rows["source"] == "published-logits")]
    assert -0.1 < over_networks(brier).value < -0.02 and over_networks(brier).below() == "holds"
    assert (rows["dataset"] == "cifar100_lt").sum() == 1
