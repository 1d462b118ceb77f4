"""What the pages say of MbLS, ACLS, the increasing map and GP calibration, counted again from recorded differences."""

from cells_and_pages import chapter, says, text
from counted_differences import (
    CTS,
    OURS,
    PUBLISHED,
    TAIL,
    TS,
    against,
    alone,
    effects,
    left_out,
    less_one,
    of_losses,
    strata,
    words,
)

from book.kit.notebook.display_names import CHANGES
from book.kit.notebook.over_networks import APART, select, stratum
from book.kit.results import load
from book.kit.results.claims import ledger
from book.kit.results.difference_intervals import over_networks
from book.kit.results.paired_differences import load_effects
from book.kit.sphinx import frontpage
from book.kit.sphinx.others_calibrators import MANY, less, wide
from book.papers import PAPERS
from calibkit.training import VARIANTS


def test_the_margin_and_one_temperature_on_the_front_page_its_card_and_in_its_box():
    for said in (PAPERS["mbls"].found, chapter("mbls"), text("index")):
        assert "Averaged over nine networks for balanced data" in said
    assert "five of them trained once, both scores are clearly worse" in text("index")
    for metric in ("ece", "nll"):  # of those for balanced data see test_over_networks.py
        rows = select(load_effects(), TS, "cross_entropy", loss="mbls", method="identity", metric=metric)
        assert len(rows) == 12 and over_networks(rows).below() == "does not hold"
    chosen = {("resnet8", "mbls margin=10"): "not decided", ("resnet20", "mbls margin=8"): "does not hold"}
    for (model, loss), said in chosen.items():
        of = {"loss": loss, "method": "identity", "metric": "ece", "model": model}
        assert words(TS, "cross_entropy", **of).tolist() == [said]
    assert "a ResNet-8 comes as low in ECE as cross-entropy with one temperature. A ResNet-20 does not" in text("index")


def test_the_means_of_acls_in_the_ledger_and_in_its_chapter():
    """Clearly above one temperature over all networks, over the balanced ones and on all four for CIFAR-10."""
    ten = select(load_effects(), TS, "cross_entropy", loss="acls", method="identity", metric="ece")
    nine = ten[stratum(ten) == OURS]
    assert (len(ten), len(nine)) == (10, 9)
    assert over_networks(ten).below() == over_networks(nine).below() == "does not hold"
    on_cifar10 = nine[nine["dataset"] == "cifar10"]
    assert (on_cifar10["value"] > 0).all() and "on all four of our networks" in chapter("acls")
    assert alone(on_cifar10).tolist() == ["does not hold"] * 4 and "is clearly better calibrated" in chapter("acls")


def test_the_margin_without_a_temperature_on_the_front_page_its_card_and_in_its_box():
    """The signs, the means and the counts of networks, over those for balanced data."""
    pages = (PAPERS["mbls"].found.replace("\n", " "), chapter("mbls"), text("index"))
    to_ce, to_ls = (of_losses("mbls", base) for base in ("cross_entropy", "label_smoothing"))
    assert (len(to_ce), (to_ce["value"] < 0).sum()) == (9, 7) and over_networks(to_ce).below() == "holds"
    assert all("its ECE is lower than that of cross-entropy on seven of the nine" in said for said in pages)
    assert "the ECE of MbLS is on average lower than that of cross-entropy" in text("index")
    assert "seven of the nine, and clearly on average" in text("index")
    right = over_networks(of_losses("mbls", "cross_entropy", "accuracy")).percent
    assert right.above(-0.6) == right.within(0.6) == "holds" and round(right.value, 1) == 0
    assert "The accuracy is on average that of cross-entropy within 0.6 points, as the paper says" in text("index")
    assert over_networks(to_ls).below() == "holds" and len(to_ls) == 9
    assert "not decided" in {over_networks(to_ls.drop(i)).below() for i in to_ls.index}
    assert all("Over all nine that hangs on a few of them" in said for said in pages[:2])
    on_cifar10 = to_ls[to_ls["dataset"] == "cifar10"]
    assert len(on_cifar10) == 4 and over_networks(on_cifar10).below() == "holds"
    assert all(over_networks(on_cifar10.drop(i)).below() == "holds" for i in on_cifar10.index)
    assert all("over the four networks for CIFAR-10" in said for said in pages[:2])
    clear = to_ls[alone(to_ls) == "holds"]["dataset"]
    assert clear.tolist() == ["cifar10"] * 3 and "does not hold" not in {*alone(to_ls)}
    says("index", "it is clearly lower on three of nine networks, all for CIFAR-10, and clearly higher on none")
    assert to_ce[alone(to_ce) == "does not hold"]["model"].tolist() == ["resnet8_whitened"]
    assert {*to_ce[to_ce["value"] > 0]["model"]} == {"resnet8", "resnet8_whitened"}
    assert "It is higher on the two ResNet-8s for CIFAR-10, clearly on the whitened one" in text("index")


def test_the_margin_itself_and_the_focal_loss_on_the_front_page():
    ece, nll = (of_losses("mbls", "mbls margin=0 weight=0.05", metric) for metric in ("ece", "nll"))
    assert (len(nll), (nll["value"] < 0).sum(), (alone(nll) == "holds").sum()) == (6, 4, 2)
    both, of_ece = (rows[alone(rows) == "holds"] for rows in (nll, ece))
    assert {*both["dataset"]} == {"cifar10"} and {*both["model"]} == {"resnet8", "resnet8_whitened"}
    assert {*of_ece["network"]} - {*both["network"]} == {"cifar100/resnet8_whitened, mbls"}
    said = "Its NLL is lower on four, clearly on the two for CIFAR-10."
    for page in (PAPERS["mbls"].found, chapter("mbls").replace("The NLL", "Its NLL")):
        assert "on three: two ResNet-8s for CIFAR-10 and one for CIFAR-100" in page.replace("\n", " ")
        assert said in page.replace("\n", " ")
    assert "whichever of the six is left out" in chapter("comparison")
    said = "its ECE is lower on five of the six networks that we trained with the two, and its NLL on four."
    assert (ece["value"] < 0).sum() == 5 and f"{said} Both scores are clearly lower on two" in text("index")
    assert "on average its ECE is clearly lower than with the same penalty without one" in text("index")
    assert {over_networks(rows).below() for rows in (nll, *(nll.drop(i) for i in nll.index))} == {"not decided"}
    says("index", "The mean of the NLL is not clear.")
    more, right = (of_losses("focal", "mbls", metric)["value"] for metric in ("ece", "accuracy"))
    assert (len(more), (more > 0).sum(), len(right), (right < 0).sum()) == (5, 4, 5, 5)
    assert "a higher ECE on four of the five networks with both, and a lower accuracy on all five" in text("index")


def test_what_acls_gains_on_the_front_page():
    to_ce, to_mbls = (of_losses("acls", base) for base in ("cross_entropy", "mbls"))
    assert (len(to_ce), (to_ce["value"] < 0).sum()) == (9, 9) and over_networks(to_ce).below() == "holds"
    assert (len(to_mbls), (to_mbls["value"] < 0).sum()) == (9, 6)
    assert sorted(alone(to_mbls)) == ["does not hold"] + ["holds"] * 4 + ["not decided"] * 4
    assert to_mbls[alone(to_mbls) == "does not hold"]["dataset"].tolist() == ["20newsgroups_random"]
    said = "its ECE is lower than that of MbLS on six of the nine, clearly on four, and clearly higher on one, the text"
    assert said in text("index")
    assert "its ECE is lower than that of cross-entropy on all nine. The gradient" in text("index")
    scaled = [of_losses("acls", "cross_entropy", metric, TS) for metric in ("ece", "nll")]
    assert {(len(rows), over_networks(rows).below()) for rows in scaled} == {(9, "does not hold")}
    assert (to_ce[["n_seeds", "base_seeds"]].min(axis=1) == 1).sum() == 5
    said = "either. Averaged over nine networks for balanced data, five of them trained once, both scores"
    assert said in text("index")
    unclear = scaled[0][alone(scaled[0]) == "not decided"]
    assert sorted(unclear["dataset"]) == ["cifar100"] * 3 + ["tiny_imagenet_20"]
    assert "With ACLS, on all three networks for CIFAR-100 and on Tiny-ImageNet's twenty classes" in text("index")
    assert (alone(to_ce) == "holds").all() and "five of them once, ACLS has a clearly lower" in PAPERS["acls"].found
    of_many = scaled[1][(scaled[1]["dataset"] == "cifar100") & scaled[1]["model"].str.startswith("resnet8")]
    assert alone(of_many).tolist() == ["does not hold"] * 2 and "The NLL is higher beyond" in PAPERS["acls"].found
    assert "trained once with it, we see no clear difference in ECE to cross-entropy plus one" in text("index")


def test_acls_against_the_margin_in_its_chapter():
    """In ECE clearly lower on four networks and clearly higher on the text, in AECE on the ResNet-20, too."""
    of = {"loss": "acls", "method": "identity"}
    ece, adaptive = (words("identity", "mbls", metric=metric, **of) for metric in ("ece", "adaptive_ece"))
    clear = {"cifar10/resnet8", "cifar10/resnet8_whitened", "cifar100/resnet20", "cifar100/resnet8_whitened"}
    assert len(ece) == 10 and {*ece.index[ece == "holds"]} == clear
    higher, text_network = "does not hold", "20newsgroups_random/gpool_cnn"
    assert ece.index[ece == higher].tolist() == [text_network]
    assert {*adaptive.index[adaptive == higher]} == {text_network, "cifar10/resnet20"}
    said = (
        "clearly below MbLS on both ResNet-8s for CIFAR-10 and, by test images alone, on two of three networks for "
        "CIFAR-100. On the text network it is clearly above"
    )
    assert said in " ".join(chapter("acls").replace("# ", "").split())


def test_changes_of_the_recipe_beside_acls_in_its_chapter():
    """Over test images and seeds; the temperatures are those of the recorded fits."""
    assert {*CHANGES} == {*VARIANTS}
    of = {"dataset": "cifar10", "model": "resnet20", "metric": "ece"}
    for method, base, base_method, word in (
        ("identity", "acls", "identity", "does not hold"),
        ("identity", "cross_entropy", "identity", "not decided"),
        ("identity", "cross_entropy", TS, "does not hold"),
        (TS, "cross_entropy", TS, "not decided"),
    ):
        rows = select(load_effects(), base_method, base, method=method, **of)
        rows = rows[rows["loss"].isin(CHANGES)]
        assert len(rows) == 3 and {*alone(rows)} == {word}
    right = select(load_effects(), "identity", "cross_entropy", loss="cutmix", **of | {"metric": "accuracy"})
    own = load("ours").query("dataset == 'cifar10' and model == 'resnet20' and method == @TS and metric == 'ece'")
    own = own.set_index("loss")["note"].str.extract(r"T = ([\d.]+)", expand=False).astype(float)[[*CHANGES]]
    assert alone(right[right["method"] == "identity"]).tolist() == ["does not hold"]  # a higher accuracy
    assert own.index[own < 1].tolist() == ["cutmix"] and "its own temperature is below 1" in chapter("acls")


def test_the_loss_without_held_out_samples_in_the_guide():
    """On four networks of CIFAR-10 ACLS is clearly below cross-entropy alone, and on none below its temperature."""
    assert "train with a margin, `acls` or `mbls`" in text("which_method")
    for base, lower in (("identity", True), (TS, False)):
        of = {"loss": "acls", "method": "identity", "metric": "ece", "dataset": "cifar10"}
        word, rows = words(base, "cross_entropy", **of), select(load_effects(), base, "cross_entropy", **of)
        assert len(word) == 4 and (word == "holds").sum() == 4 * lower and ((rows["value"] < 0) == lower).all()


def test_a_temperature_after_the_margin_in_the_comparison():
    """On each of six networks it leaves more than a temperature after cross-entropy."""
    said = "After MbLS, with a temperature of its own, more error is left on each, counted without a test."
    rows = select(load_effects(), TS, "cross_entropy", loss="mbls", method=TS, metric="ece")
    rows = rows[(rows["dataset"] == "cifar10") | (rows["dataset"] == "cifar100") & rows["model"].str.match("resnet8")]
    assert said in chapter("comparison") and len(rows) == 6 and (rows["value"] > 0).all()


def test_means_that_turn_when_a_network_is_left_out_are_named_on_the_front_page():
    """On a card, the mean of class temperatures over networks trained with label smoothing."""
    rows = select(load_effects(), f"{TS}:ece", "label_smoothing", loss="label_smoothing", method=CTS, metric="ece")
    rows = rows[stratum(rows) == OURS]
    assert over_networks(rows).below() == "holds" and len(rows) == 9
    assert {of.below() for of in left_out(rows)} == {"holds", "not decided"}
    assert "and class temperatures on networks with label smoothing. CTS" in text("index")
    assert "Over the nine trained with label smoothing there is one" in chapter("class_temperature_scaling")
    for metric, clear in {"ece": "not decided", "adaptive_ece": "holds"}.items():
        rows = select(load_effects(), "identity", "mbls", loss="acls", method="identity", metric=metric)
        images = rows[rows["dataset"] != "20newsgroups_random"]
        assert [over_networks(of).below() for of in (rows, images)] == [clear, "holds"]
        assert {of.below() for of in left_out(rows)} == {"holds", "not decided"}
    assert "Its average is clear in AECE alone, and hangs on a few networks. On images alone both" in chapter("acls")
    right = left_out(of_losses("mbls", "cross_entropy", "accuracy"))
    assert {of.percent.within(0.6) for of in right} == {"holds"}


def test_rows_of_the_ledger_that_turn_without_the_sets_apart_are_named_in_it():
    every, effects = ledger().set_index("id"), load_effects()
    others = ledger(effects=effects[~effects["dataset"].isin(APART)]).set_index("id")
    rows = [of[(of["paper"].isin(["mbls", "acls"])) & ~others["effect"].eq("")] for of in (every, others)]
    turned = rows[0]["verdict"] != rows[1]["verdict"]
    higher = [of["nll"].str.contains(r"\[\+") for of in rows]  # the whole interval above zero
    assert {*turned.index[turned]} == {"MbLS3"} and others.loc["MbLS3", "verdict"] == "holds"
    assert {*turned.index[higher[0] != higher[1]]} == {"MbLS3c", "MbLS3h"}
    said = text("ledger")
    assert "They matter in three rows. Without these sets MbLS3 holds" in said and "clear in MbLS3c and MbLS3h." in said


def test_the_increasing_map_on_the_front_page():
    says(
        "index",
        "on nine of eleven published networks for balanced data, most of them trained with the Brier score, and on all",
        "on all four for long-tailed data",
    )
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
    of_ece = rows[(rows["source"] == "published-logits") & (rows["metric"] == "ece")].groupby("dataset")["value"].mean()
    assert (100 * of_ece[["cifar100", "cifar10"]]).round(1).tolist() == [-2.1, -0.5]
    assert "(2.1 points). On the seven for CIFAR-10 it is half a point" in text("which_method")
    said = "clearly better in NLL on 10 of 15 published networks, in ECE on 4, worse on none"
    brier = rows[(rows["source"] == "published-logits") & (rows["loss"] == "brier") & (rows["metric"] == "nll")]
    assert len(brier) == 8 and (brier["word"] == "better").all()
    says("which_method", "Eight of the 15 were trained with the Brier score, and it is clear in NLL on all eight")
    says("index", "After a correction for many tests this is clear on ten of the fifteen in NLL and on four in ECE.")
    entropy = rows[(rows["loss"] == "cross_entropy") & (rows["metric"] == "nll")].groupby("source")["word"]
    by_source = {name: (int((of == "better").sum()), len(of)) for name, of in entropy}
    assert by_source == {"published-logits": (2, 7), "ours": (0, 14)}
    assert "clear in NLL on two of seven published networks and on none of our 14" in text("which_method")
    tail = rows[(rows["dataset"] == "cifar100_lt") & (rows["metric"] == "ece")]["value"]
    assert tail.round(3).tolist() == [0.007, 0.008] and "its ECE was 0.7 and 0.8 points higher" in text("which_method")
    assert counts.loc["ours", "better"].sum() == 0 and said in text("which_method")
    assert "On none of our own networks trained with cross-entropy is the difference clear" in text("index")
    says("which_method", "On none of the networks that we trained ourselves with cross-entropy is the difference clear")


def test_gp_calibration_in_the_guide():
    """Like the map; where test and held-out samples are alike it costs next to nothing."""
    rows = against(TS, "gp_calibration", ("ece", "nll", "brier"))
    published = rows[rows["source"] == "published-logits"].groupby("metric")["word"].value_counts()
    assert published["nll", "better"] == 10 and published["ece", "better"] == 4 and (rows["word"] != "worse").all()
    assert "it is clearly better on as many published networks as the map" in text("which_method")
    alike = rows[(rows["metric"] == "nll") & ~rows["dataset"].isin(["camvid", "20newsgroups"])]["value"]
    assert "alike it cost at most 0.002 nats" in text("which_method") and 0.0015 < alike.max() < 0.0025
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
    says("which_method", "all but one network with 196 to 1,000 classes, and on three of seven with 10 or 100")
    imagenet = [less(values, metric).loc["imagenet"][["diag", "gp"]] for metric in ("ece", "nll")]
    assert all(of.shape == (4, 2) and (of < 0).all(axis=None) for of in imagenet)
    assert "better in both ECE and NLL on four of four ImageNet networks" in text("which_method")


def test_the_increasing_map_in_the_comparison():
    """On published networks trained with the Brier score hundredths of a nat; on long-tailed CIFAR-100 one network."""
    rows = select(effects(), TS, metric="nll", method="order_preserving")
    brier = rows[(rows["loss"] == "brier") & (rows["source"] == "published-logits")]
    assert -0.1 < over_networks(brier).value < -0.02 and over_networks(brier).below() == "holds"
    assert (rows["dataset"] == "cifar100_lt").sum() == 2


def test_what_five_metrics_say_of_the_proposals_in_the_comparison():
    metrics = ("ece", "adaptive_ece", "classwise_ece", "brier", "nll")
    found = {metric: frontpage.proposals(metric) for metric in metrics}
    sides = {name.split(" (")[0]: [found[metric][name].below() for metric in metrics] for name in found["ece"]}
    assert [name for name, said in sides.items() if {*said} == {"holds"}] == [
        "CLS, published, long-tailed",
        "CLS, ours, long-tailed",
    ]
    assert [name for name, said in sides.items() if {*said} >= {"holds", "does not hold"}] == [
        "CTS, published, balanced"
    ]
    otherwise = ["does not hold"] * 3 + ["not decided", "does not hold"]
    assert sides["MbLS, ours, balanced"] == sides["ACLS, ours, balanced"] == otherwise
