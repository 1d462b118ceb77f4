"""What the front page and the decision guide count in words, counted again from the recorded differences."""

import json
import re

from cells_and_pages import BOOK, by_id, chapter, says, text
from counted_differences import (
    CLS,
    CTS,
    OURS,
    PUBLISHED,
    TAIL,
    TS,
    TS_ECE,
    against,
    alone,
    effects,
    less_one,
    strata,
    whole_networks,
    words,
)

from book.kit.notebook.over_networks import select, stratum
from book.kit.results import load
from book.kit.results.difference_intervals import over_networks
from book.kit.results.paired_differences import load_effects
from book.kit.results.verdict_rule import Answer
from book.kit.results.verdicts import answers, everything, informative
from book.papers import PAPERS
from calibkit.networks import load_logits

WORDS = "none one two three four five six seven eight nine ten eleven twelve".split()


def test_class_wise_loss_scaling_on_the_front_page():
    """On published networks a quarter of a point and less than a thousandth of a nat; the intervals end near 0."""
    ece, nll = (less_one(CLS, PUBLISHED, metric) for metric in ("ece", "nll"))
    said = "on published networks is a quarter of a point of ECE and less than a thousandth of a {term}`nat`"
    assert len(ece) == 1 + 3 and said in text("index")
    assert all(-0.003 < of.value < -0.002 and abs(of.high) < 0.0011 for of in ece)
    assert all(-0.001 < of.value < 0 and abs(of.high) < 0.0003 for of in nll)
    assert all(of.below() != "holds" for metric in ("ece", "nll") for of in less_one(CLS, OURS, metric))
    seven = by_id().loc["CLS3g"]
    assert seven["verdict"] == "holds" and seven["lower"] == "7 of 7" and seven["effect"].startswith("-0.19 [")
    assert "Over seven networks for balanced CIFAR-10 it lowers the ECE by 0.2 points on average" in text("index")
    for page in (text("index"), text("which_method"), PAPERS["class_loss_scaling"].found):
        assert "27 to 55%" in page


def test_class_temperatures_on_the_front_page():
    rows = strata(CTS, "ece")[PUBLISHED]["value"]
    assert "by a point on average, and by 0.3 points in the median." in text("index")
    assert round(-100 * rows.median(), 1) == 0.3
    rows = against(TS_ECE, CTS).query("metric == 'ece'")
    rows = rows[stratum(rows) == PUBLISHED]
    assert "by ECE, as in the paper, they lower it by 0.6 points, and by 0.5 in the median" in text("index")
    assert [round(-100 * x, 1) for x in (over_networks(rows).value, rows["value"].median())] == [0.6, 0.5]
    assert all(-0.0125 < of.value < -0.0075 and of.below() == "holds" for of in less_one(CTS, PUBLISHED, "ece"))
    nll = strata(CTS, "nll")[PUBLISHED]
    assert (nll["value"] > 0).sum() == 10 and (alone(nll) == "does not hold").sum() == 5
    many = "by likelihood, beyond chance on five, and after a correction for many tests on one."
    assert many in text("index") and "On ten of these eleven networks" in text("index")
    assert all(of.above() == "holds" for kind in (PUBLISHED, OURS) for of in less_one(CTS, kind, "nll"))


def test_the_green_corner_of_the_opening_figure():
    """Three points lie in it, all for long-tailed data; one of them whichever network is left out."""
    inside, whichever = [], []
    for method in (CTS, CLS):  # for others see test_neural_clamping_on_its_card and test_over_networks.py
        for kind in strata(method, "ece").keys() - {"apart"}:
            of = [less_one(method, kind, metric) for metric in ("ece", "nll")]
            if all(mean.below() == "holds" for mean, *_ in of):
                inside.append((method, kind))
                whichever += [(method, kind)] * all(mean.below() == "holds" for means in of for mean in means)
    said = "CLS on our networks and class temperatures (CTS) on published ones, but they turn unclear when a network"
    assert said in text("index") and whichever == [(CLS, TAIL)]
    assert {*inside} == {(CLS, TAIL), (CLS, "ours, long-tailed"), (CTS, TAIL)}


def test_rare_classes_on_the_front_page():
    for method in (CLS, f"{TS}:class_balanced", f"{CTS}:class_loss_scaling", "prior_correction"):
        for metric, least in (("ece", 0.01), ("nll", 0.005)):
            assert all(of.high < -least for of in less_one(method, TAIL, metric)), (method, metric)
    accuracy = select(effects(), TS, method="prior_correction", metric="accuracy").query("dataset == 'cifar10_lt'")
    assert (accuracy["value"] > 0).all()


def test_class_temperatures_in_the_guide():
    counts = against(TS_ECE, CTS).query("metric == 'ece'")["word"].value_counts()
    said = (
        f"its ECE is lower beyond chance on {WORDS[counts['better']]} network and higher on {WORDS[counts['worse']]}."
    )
    assert f"{said} On the other {counts['not decided']} it is not decided" in text("which_method")
    mean = by_id().loc["CTS3"]
    assert mean["effect"].startswith("-0.47 [") and mean["verdict"].startswith("holds in ECE")
    assert "its ECE on published networks is half a point lower on average, clearly." in text("which_method")
    rows = against(TS, CTS)
    worse = (rows["word"] == "worse") & (rows["metric"] == "nll") & (stratum(rows) == PUBLISHED)
    assert worse.sum() == 1 and "and after a correction for many tests on one" in text("index")
    published = rows[(rows["source"] == "published-logits") & (rows["metric"] == "ece")]
    assert published["word"].value_counts().to_dict() == {"not decided": 12, "better": 3}
    mean = over_networks(published)
    assert -0.0095 < mean.value < -0.0085 and mean.below() == "holds"
    said = "0.9 points lower on average, clearly lower on 3 of the 15 and clearly higher on none"
    assert f"That of class temperatures is {said}" in text("which_method")
    assert (select(effects(), TS, metric="nll", method=CTS)["value"] > 0).mean() > 0.5


def test_a_temperature_fitted_by_ece_in_the_guide():
    """In steps of 0.01: lower on published networks, nothing clear on ours, far higher on the dated newsgroups."""
    fine = f"{TS} grid=0.01:ece"
    rows = against(TS, fine)
    published, own = rows["source"] == "published-logits", stratum(rows) != "apart"
    ece, nll = (rows["metric"] == metric for metric in ("ece", "nll"))
    counts = rows[published & ece]["word"].value_counts()
    assert (published & ece).sum() == 15 and (counts["better"], counts["worse"]) == (6, 1)
    said = "The ECE of the temperature in steps of 0.01 is clearly lower on 6 of the 15 and clearly higher on one."
    assert f"clearly lower on 4 of 15 published networks. {said}" in text("which_method")
    mean = over_networks(rows[published & ece])
    assert -0.0065 < mean.value < -0.0055 and mean.below() == "holds" and "is 0.6 points lower" in text("which_method")
    assert (
        over_networks(rows[published & nll]).above() == "holds" and over_networks(rows[published & nll]).value < 0.005
    )
    assert -0.001 < rows[published & ece & (rows["dataset"] == "cifar10")]["value"].mean() < 0
    assert "On the seven for CIFAR-10 it is less than a tenth" in text("which_method")
    assert over_networks(rows[~published & own & ece]).below() == "not decided"
    dated = rows[(rows["dataset"] == "20newsgroups") & ece]["value"].item()
    assert "on the newsgroups split by date it rises by five points" in text("which_method") and 0.045 < dated < 0.055


def test_five_hundred_samples_of_a_hundred_classes_in_the_guide():
    """As the chapter on one temperature prints it."""
    cells = json.loads((BOOK.parent / "notebooks" / "temperature_scaling.ipynb").read_text())["cells"]
    outputs = [out.get("data", {}) for cell in cells for out in cell.get("outputs", [])]
    texts = ["".join(of.get(kind, "")) for of in outputs for kind in ("text/plain", "text/markdown")]
    row = re.search(r"^CIFAR-100 .* (\d+) +(\d+)$", next(x for x in texts if "nearly always pays" in x), re.MULTILINE)
    assert f"it did better than no calibration from {max(map(int, row.groups()))} images on" in text("which_method")
    rows = re.findall(r"^CIFAR\S* .* (\d+) +(\d+)$", row.string, re.MULTILINE)
    assert "A few hundred usually do" in text("index") and max(int(n) for pair in rows for n in pair) <= 300
    said = r"none of the \d richer fits beats\s+\*one temperature\* in every draw within 5,000 images"
    assert any(re.search(said, x) for x in texts)


def test_the_network_of_the_front_page():
    assert "fitted to 5,000 samples" in text("index") and "the mean of three trainings" in text("index")
    found = load("ours").query("dataset == 'cifar10' and model == 'resnet20' and source == 'ours'")
    found = found[(found["loss"] == "cross_entropy") & found["method"].isin(["identity", TS])]
    assert {*found[found["metric"] == "ece"]["n_seeds"]} == {3}
    assert len(load_logits("cifar10/resnet20-cross_entropy-s0").val_labels) == 5000


def test_the_corrected_prior_in_the_guide():
    rows = load_effects().query("method == 'prior_correction' and metric == 'nll'").assign(loss="cross_entropy")
    to_ts = rows[rows["base_method"] == TS].set_index(["dataset", "model"])["value"].astype(float)
    assert (to_ts["cifar10_lt"] < 0).all() and (to_ts["cifar100_lt"] > 0).all()
    of = load("ours").query("metric == 'nll' and loss == 'cross_entropy' and dataset == 'cifar10_lt'")
    of = of.pivot_table(index=["model", "source"], columns="method", values="value").dropna(subset=["prior_correction"])
    for weights in ("class_balanced", "class_loss_scaling"):
        assert (of["prior_correction"] < of[f"{TS}:{weights}"]).all()


def test_parametrised_temperatures_in_the_guide():
    rows = against(TS, "pts", ("ece", "nll", "brier"))
    rows = rows[rows["network"].isin(whole_networks("pts")) & rows["dataset"].isin(["cifar10", "cifar100"])]
    of = {metric: rows[rows["metric"] == metric]["word"] for metric in ("nll", "ece")}
    better = (of["nll"] == "better").sum()
    assert "is slightly better in NLL on a few balanced networks" in text("which_method") and 2 <= better <= 3
    assert (of["ece"] == "not decided").all()


def test_bins_and_curves_in_the_guide():
    higher, methods = [], ("histogram_binning", "isotonic", "spline")
    for method in methods:
        rows = select(effects(), TS, method=method)
        rows = rows[rows["network"].isin(whole_networks(*methods))]
        n = rows["network"].nunique()
        assert (rows["metric"] == "nll").sum() < n / 2  # an infinite NLL has no row
        higher.append((rows[rows["metric"] == "ece"]["value"] > 0).sum())
    assert "give some true class the probability 0 on most networks" in text("which_method")
    said = "on {} (histogram binning), {} (isotonic) and {} (spline) of the {} networks that all three were fitted to"
    assert said.format(*higher, n) in text("which_method")


def test_one_temperature_is_never_a_tenth_of_a_nat_behind_in_the_guide():
    """Of the calibrators fitted by plain likelihood to one network, the best against one temperature."""
    rows = select(effects(), TS, metric="nll")
    plain = rows[~rows["method"].str.contains(":|prior") & (rows["method"] != "neural_clamping")]
    assert "no other calibrator was as much as 0.1" in text("which_method")
    assert plain["value"].min() > -0.1
    said = "no other calibrator fitted by plain likelihood was as much as 0.1 nats ahead"
    assert f"on the networks of this chapter {said}" in chapter("comparison")


def test_weights_and_rare_classes_in_the_guide():
    weights, balanced = CLS, f"{TS}:class_balanced"
    further = select(load_effects(), balanced, metric="ece", method=weights)
    assert (further[further["dataset"] == "cifar10_lt"]["value"] < 0).all()
    assert "lower the ECE a little further on every network for long-tailed CIFAR-10" in text("which_method")
    found = words(balanced, method=weights, metric="ece", dataset="cifar100_lt").tolist()
    assert len(found) == 4 and found.count("does not hold") == 2
    assert "On long-tailed CIFAR-100 they make two of four networks clearly worse" in text("which_method")
    found = words(TS, method=balanced, metric="ece", dataset="cifar100_lt").tolist()
    assert len(found) == 4 and found.count("holds") == 2
    assert "With a hundred, equal weights clearly help on two of four networks" in text("which_method")


def test_structured_matrices_in_the_guide():
    rows = select(effects(), TS, metric="nll", method="structured_matrix_scaling")
    ten = rows[(rows["dataset"] == "cifar10") & (rows["source"] == "published-logits")]["value"]
    assert -0.0105 < ten.min() and ten.max() < -0.004
    says("which_method", "gained on three published networks with ten balanced classes, nothing clear on our four")
    tail = rows[rows["dataset"] == "cifar100_lt"]["value"]
    assert len(tail) == 4 and (tail > 0).all() and 0.08 < tail.max() < 0.12
    assert "a loss on four of four networks with a hundred long-tailed classes" in text("which_method")
    rows = rows[(rows["dataset"] == "cifar10_lt") & (rows["source"] == "published-logits")]
    assert sorted(rows["value"].round(3)) == [-0.049, -0.025, -0.014, 0.021]
    assert ((rows["low"] > 0) | (rows["high"] < 0)).all()
    assert "it gained 0.014 to 0.049 nats three times, and lost 0.021 once" in text("which_method")


def test_printed_numbers_that_the_front_page_says_something_about():
    """By others' measurements and on another network are parts of them; what others found else is of two scalers."""
    compared = everything()
    found = answers(compared)[informative(compared)]
    elsewhere = found.isin([Answer.SAME_ELSEWHERE, Answer.ANOTHER_ELSEWHERE])
    counts = len(found), int(elsewhere.sum()), int(found.str.contains("stand-in").sum())
    said = "for {} of the papers' 1,827 printed numbers. Of these, {} rest on others' measurements and {} on another"
    assert said.format(*counts) in text("index") and len(compared) == 1827
    others = compared[answers(compared) == Answer.ANOTHER_ELSEWHERE]
    assert {*others["paper"]} == {"class_loss_scaling"} and {*others["method"]} == {"ets", TS}


def test_the_exception_of_focal_losses_in_the_guide():
    """Scalers of matrices are more than 0.1 nats ahead of one temperature on the messages by date."""
    found = json.loads((BOOK / "leaderboard" / "calibrators" / "ms_odir.json").read_text())["rows"]
    ahead = {name for name, (nll, *_) in found.items() if nll < -0.1}
    assert ahead == {f"20newsgroups/gpool_cnn-{loss}-s0" for loss in ("flsd", "focal")}
    assert "and so are focal losses on the newsgroups split by date" in text("which_method")
