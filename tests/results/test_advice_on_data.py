"""What the front page, the guide, boxes and cards say in passing, counted again from the recorded results."""

import re

import numpy as np
import pandas as pd
import pytest
from cells_and_pages import chapter, says, text
from counted_differences import (
    CLS,
    CTS,
    OURS,
    PUBLISHED,
    TAIL,
    TS,
    against,
    alone,
    effects,
    less_one,
    strata,
    whole_networks,
    words,
)

from book.kit.notebook.over_networks import select
from book.kit.results import compare, load
from book.kit.results.difference_intervals import interval_of, over_networks
from book.kit.results.paired_differences import load_effects
from book.kit.sphinx.others_calibrators import less, wide
from book.papers import PAPERS
from book.papers.mbls import WITHOUT_MARGIN
from calibkit import _folders, calibrator, ece
from calibkit.networks import load_logits
from calibkit.reporting.catalogue import need_of
from calibkit.training import recipe_of

booktables = pytest.importorskip("book.kit.sphinx.booktables")
opening = pytest.importorskip("book.kit.sphinx.opening_figure")
OUR_TAIL, CE, EQUAL = "ours, long-tailed", "cross_entropy", f"{TS}:class_balanced"
MAP, GP, PRIOR = "order_preserving", "gp_calibration", "prior_correction"


def values(method: str, metric: str, base: str = TS, **where: str) -> pd.Series:
    return select(effects(), base, metric=metric, method=method, **where).set_index("network")["value"]


def means(method: str, metric: str, kind: str) -> np.ndarray:
    """Over the networks of a stratum, and over all of them but one, for each."""
    of = strata(method, metric)[kind].sort_values("network")["value"]
    return np.array([of.mean(), *(of.drop(i).mean() for i in of.index)])


#: Of two numbers that a page puts beside each other the first is the larger one.
FALLS = [
    ("ece cifar10 resnet20 identity", f"ece cifar10 resnet20 {TS}"),
    (f"ece cifar10_lt resnet20 {TS}", f"ece cifar10_lt resnet20 {EQUAL}"),
    (f"ece cifar10_lt resnet20 {TS}", f"ece cifar10_lt resnet20 {PRIOR}"),
    (f"ece camvid deeplabv3_resnet34 {EQUAL}", f"ece camvid deeplabv3_resnet34 {TS}"),
    ("ece cifar100 resnet20 matrix_scaling", "ece cifar100 resnet20 identity"),
    (f"ece cifar10_lt densenet40 {TS}", f"ece cifar10_lt densenet40 {EQUAL}"),
    (f"ece cifar10_lt densenet40 {EQUAL}", f"ece cifar10_lt densenet40 {CLS}"),
    ("accuracy cifar100 resnet20_b identity", "accuracy cifar100 resnet20_b neural_clamping"),
    (f"ece cifar100 resnet110 brier | {TS}:ece", f"ece cifar100 resnet110 brier | {TS} grid=0.01:ece"),
    ("ece cifar10 resnet20 mbls margin=2 | identity", "ece cifar10 resnet20 mbls | identity"),
    ("ece cifar10 resnet20 mbls margin=10 | identity", "ece cifar10 resnet20 mbls | identity"),
]


@pytest.mark.parametrize(("larger", "smaller"), FALLS)
def test_a_number_that_a_page_calls_the_larger_one(larger, smaller):
    assert float(booktables.number(larger).rstrip("%")) > float(booktables.number(smaller).rstrip("%"))


def test_how_many_networks_the_pages_count():
    for key in (MAP, GP):
        rows = against(TS, key, ("ece", "nll", "brier"))
        assert {*rows[rows["source"] == "published-logits"].groupby("metric").size()} == {15}
        assert (len(strata(key, "ece")[PUBLISHED]), len(strata(key, "ece")[TAIL])) == (11, 4)
    assert len(strata(CTS, "nll")[PUBLISHED]) == 11
    losses = load("ours").query("dataset in ('cifar100', 'tiny_imagenet_20') and source == 'ours' and metric == 'ece'")
    assert "we trained each loss once" in text("which_method")
    assert {*losses[losses["method"] == "identity"]["n_seeds"]} == {1}


def test_the_gap_that_the_opening_figure_closes():
    data = load_logits(opening.NETWORK)
    before, after = (
        ece(calibrator(key).fit(*data.val)(data.test_logits), data.test_labels) for key in ("identity", TS)
    )
    assert after < before / 2


def test_class_wise_loss_scaling_gains_where_classes_are_rare_by_equal_weights():
    for tail, even, gap in ((TAIL, PUBLISHED, 0.004), (OUR_TAIL, OURS, 0.0029)):
        whole = means(CLS, "ece", tail)
        assert (means(EQUAL, "ece", tail) < whole / 2).all()
        assert whole.max() < means(CLS, "ece", even).min() - gap and whole[0] < means(CLS, "ece", even)[0] - 0.01
    for key in (TS, "ets", "pts", CTS):
        rows = values(f"{key}:class_loss_scaling", "ece", CTS + ":nll" if key == CTS else key, dataset="cifar10_lt")
        assert len(rows) == 5 and (rows < 0).all()
    found = words(EQUAL, method=CLS, metric="ece", dataset="cifar100_lt")
    assert sorted(found) == ["does not hold"] * 2 + ["not decided"] * 2
    for dataset in ("cifar10", "cifar100"):
        assert (values(CLS, "ece", EQUAL, dataset=dataset).abs() < 0.004).all()


def test_the_corrected_prior_on_the_front_page_and_in_the_comparison():
    prior, equal = (values(key, "ece", dataset="cifar10_lt").mean() for key in (PRIOR, EQUAL))
    assert "lowers the ECE about as much on average" in text("index") and 0.75 < prior / equal < 1.33
    hundred = {metric: words(TS, method=PRIOR, dataset="cifar100_lt", metric=metric) for metric in ("ece", "nll")}
    assert [*hundred["ece"]] == ["not decided"] * 2 and [*hundred["nll"]] == ["does not hold"] * 2
    assert (values(PRIOR, "accuracy", dataset="cifar100_lt") < 0).all()
    for metric in ("ece", "nll"):  # no other choice of a calibrator gains as much
        rows = select(effects(), TS, metric=metric, dataset="cifar10_lt")
        plain = rows[~rows["method"].str.contains(":|prior")].groupby("network")["value"].min()
        own = values(PRIOR, metric, dataset="cifar10_lt")
        assert len(own) == 5 and (own < plain[own.index]).all()


def test_the_two_curves_gain_alike():
    for kind in (PUBLISHED, TAIL):
        for metric in ("ece", "nll"):
            assert (abs(means(GP, metric, kind) - means(MAP, metric, kind)) < 0.0015).all()
    assert not load("paper")["method"].str.contains(f"{MAP}|{GP}|{PRIOR}").any()  # no paper compares with them
    rows = select(effects(), TS, metric="ece", method=MAP)
    about = over_networks(rows[rows["source"] == "published-logits"]).value
    assert "by about a point on average" in text("which_method") and -0.0125 < about < -0.0075


def test_the_limits_on_the_front_page():
    ours = load("ours")
    recipe = ours.query("source == 'ours' and budget == 'paper'")
    networks = {("20newsgroups_random", "gpool_cnn"), ("cifar100_lt", "resnet110"), ("cifar100_lt", "resnet110_sd")}
    assert {*zip(recipe["dataset"], recipe["model"], strict=True)} == networks
    assert not ours["dataset"].str.startswith("imagenet").any()
    clamped = select(load_effects(), TS, method="neural_clamping", metric="ece")
    assert {*clamped["dataset"]} == {"cifar100"} and (clamped["source"] == "public").sum() == 2
    assert {*ours[ours["dataset"] == "camvid"]["model"]} == {"deeplabv3_resnet34"}
    assert {*ours[ours["dataset"].str.startswith("20news")]["model"]} == {"gpool_cnn"}
    assert "trained once for 20 of 350 epochs" in text("index")
    own = pd.concat([compare("mbls").query("loss.str.startswith('mbls')"), compare("acls").query("loss == 'acls'")])
    assert {*own["verdict"]} == {"not decided", "not run"}
    assert "No number that is printed for MbLS or ACLS itself is decided on the paper's own network" in text("index")
    for budget, epochs in (("reduced", 20), ("paper", 350)):
        assert recipe_of("cifar10", budget, "mbls", model="resnet50").epochs == epochs
    runs = ours.query("dataset == 'cifar10' and model == 'resnet50' and source == 'ours'")
    assert {*runs["budget"]} == {"reduced"} and {*runs["n_seeds"]} == {1}
    five = (CE, "label_smoothing", WITHOUT_MARGIN, "mbls", "acls")
    right = ours[ours["loss"].isin(five)].query("source == 'ours' and metric == 'accuracy' and method == 'identity'")
    right = (100 * right.query("dataset == 'cifar10'").set_index("model")["value"]).round()
    for model, (count, percent) in {"resnet8": (5, 92), "resnet50": (4, 92), "resnet8_whitened": (5, 93)}.items():
        assert [*right[model]] == [percent] * count and f"is right on {percent}%" in chapter("comparison")


def test_one_temperature_in_the_guide():
    """In a hundredth of a second; the best of all calibrators on two networks of 23; choices move tenths of a point."""
    assert pd.read_csv(_folders.stored() / "fits.csv", index_col="method").loc[TS].astype(float).max() < 0.1
    rows = select(effects(), TS)
    rows = rows[rows["network"].isin(whole_networks("pts", "spline")) & ~rows["method"].str.contains(":|prior")]
    others = rows[rows["method"] != "identity"]
    for metric in ("ece", "nll"):
        best = others[others["metric"] == metric].groupby("network")["value"].min()
        assert len(best) == 23 and (best >= 0).sum() <= 2, metric
    rows = rows[(rows["metric"] == "ece") & ~rows["method"].str.contains("matrix_scaling$|binning|isotonic")]
    moved = rows[rows["method"] != "identity"]["value"]
    assert rows[rows["method"] == "identity"]["value"].median() > 0.01 and (moved.abs() < 0.01).mean() > 0.5
    assert values(f"{CTS}:nll", "nll").min() > -0.1
    ets = values("ets", "nll")
    assert f"On {(ets.abs() < 1e-9).sum()} of {len(ets)} networks {{term}}`ETS` *is*" in text("which_method")
    assert {need_of(GP).parameters(classes) for classes in (10, 1000)} == {24}
    needs = {key: need_of(key).samples(10) for key in (MAP, GP, "structured_matrix_scaling")}
    assert {*needs.values()} == {1000} and need_of("structured_vector_scaling").samples(10) == 500


def test_numbers_of_methods_in_the_guide():
    for key in ("ms_odir", "dir_odir"):
        of_key = words(TS, method=key, dataset="cifar100_lt", metric="nll")
        assert sorted(of_key) == ["does not hold", "holds", "holds", "not decided"]
    assert all(of.below() != "holds" for kind in (OURS, OUR_TAIL) for of in less_one(CTS, kind, "ece"))
    assert (less(wide("calarena"), "nll")[["histogram_uniform", "histogram_quantile", "bbq"]].min() > 0).all()
    assert not load("ours").query("dataset == 'camvid' and method == 'pts' and metric == 'ece'").empty
    rows = select(load_effects(), TS, CE, metric="ece", method="identity")
    lower = rows[alone(rows) == "holds"]
    assert {*zip(lower["dataset"], lower["loss"], strict=True)} == {("camvid", "label_smoothing")}
    assert (lower["value"] < -0.01).all()
    assert (values(TS, "ece", "identity", dataset="camvid", loss=CE).abs() < 0.002).all()
    smoothed = words("identity", CE, loss="label_smoothing", method="identity", metric="ece", dataset="cifar10")
    assert smoothed.to_dict() == {
        "cifar10/resnet20": "holds",
        "cifar10/resnet8": "does not hold",
        "cifar10/resnet8_whitened": "does not hold",
        "cifar10/resnet50": "not decided",
    }
    says("which_method", "On both ResNet-8s `mbls` is no better than cross-entropy, and `label_smoothing` is worse")


def test_boxes_and_cards_of_the_losses():
    found = words(TS, CE, loss="mbls", method="identity", metric="ece", dataset="cifar10")
    assert found.tolist() == ["does not hold"] * 4
    assert "Sure for the ResNet-20 and the ResNet-8s. The ResNet-50, trained once, agrees" in text("which_method")
    for metric, word in (("ece", "not decided"), ("nll", "does not hold")):
        of = words(TS, CE, loss="mbls", method="identity", metric=metric, dataset="20newsgroups_random")
        assert of.tolist() == [word]
    printed = load("paper").query("model == 'resnet50' and metric == 'accuracy' and dataset == 'cifar10'")
    for paper in ("mbls", "acls"):
        said = re.search(r"the paper's (\d\d\.\d\d)%\.\)", PAPERS[paper].found)
        assert said[1] in {*printed[(printed["paper"] == paper) & (printed["loss"] == paper)]["printed"]}


def test_the_printed_class_loss_in_its_chapter():
    """A sum over the class: on four long-tailed networks no better than the likelihood."""
    for scaler, base, counts in ((TS, TS, (2, 2)), (CTS, f"{CTS}:nll", (2, 0))):
        of = {"method": f"{scaler}:class_loss_scaling variant=paper", "metric": "ece", "dataset": "cifar10_lt"}
        found = [*words(base, **of)]
        assert (len(found), found.count("does not hold"), found.count("holds")) == (4, *counts)
    said = "clearly higher than by likelihood on two of the four published networks and clearly lower on two."
    assert said in chapter("class_loss_scaling").replace("# ", "")


def test_the_printed_lead_of_neural_clamping_on_the_front_page():
    """With the focal loss, over one temperature."""
    of = [
        row
        for start in ("", " init=theorem")
        for row in select(load_effects(), TS, method=f"neural_clamping{start}", metric="ece").itertuples()
    ]
    lead = load("paper").query("paper == 'neural_clamping' and table == '1' and model == 'resnet110'")
    lead = lead.query("metric == 'ece' and source == 'printed'").set_index("method")["value"]
    lead = lead["neural_clamping"] - lead[TS]
    assert (round(100 * lead, 2), len(of)) == (-0.87, 8)
    assert sum(interval_of(row).low < lead < interval_of(row).high for row in of) == 6
    assert "0.87 points, lies in six of our eight intervals" in text("index")


def test_neural_clamping_on_its_card():
    """The interval against its own temperature has both zero and the printed gain; accuracy is lost on all four."""
    alone = "neural_clamping part=output"
    printed = load("paper").query("paper == 'neural_clamping' and table == '3' and metric == 'ece'")
    printed = printed[printed["source"] == "printed"].set_index("method")["value"]
    gain = 1 - printed["neural_clamping"] / printed[alone]
    said = re.search(r"the (\d+)% that the paper reports", PAPERS["neural_clamping"].found)
    assert round(100 * gain) == int(said[1])
    own = load("ours").query("dataset == 'cifar100' and metric == 'ece' and method == @alone")
    own = own.set_index(["model", "loss"])["value"]
    rows = select(load_effects(), alone, method="neural_clamping", metric="ece")
    assert len(rows) == 4
    for row in rows.itertuples():
        interval = interval_of(row)
        assert interval.low < -gain * own[row.model, row.loss] and interval.high > 0
    assert words(TS, method="neural_clamping", metric="accuracy").tolist() == ["holds"] * 4
    assert "holds" not in {*words(TS, method="neural_clamping", metric="ece")}
    starts = ("neural_clamping", "neural_clamping init=theorem")
    for start, where in zip(starts, ("from a random start", "from that of Theorem 1"), strict=True):
        assert {*words(TS, method=start, metric="nll")} == {"does not hold"}
        lost = -100 * select(load_effects(), TS, method=start, metric="accuracy")["value"]
        text = " ".join(PAPERS["neural_clamping"].found.split())
        said = f"{lost.min():.1f} to {lost.max():.1f} points {where}"
        assert len(lost) == 4 and said in text
    of_56 = select(load_effects(), "identity", model="resnet56_b", method="neural_clamping", metric="accuracy")
    assert f"{-100 * of_56['value'].item():.2f} points on a public ResNet-56" in chapter("neural_clamping")
    assert "Only one of them tests the focal loss" in text and "clearly on two of four" in text
    assert [*words(TS, method=starts[1], metric="accuracy")].count("holds") == 2
    controls = load_effects().query("method == 'neural_clamping' and metric == 'ece'")["base_method"]
    gammas = controls[controls.str.startswith("temperature_scaling:focal gamma=")].str.partition("=")[2].astype(float)
    assert sorted(gammas) == [0, 0, 0, 0.25]


def test_class_temperatures_on_their_card():
    """On most networks of the paper the ECE falls and the likelihood gets worse."""
    printed = load("paper").query("paper == 'class_temperature_scaling' and source == 'printed'")
    cells = {*zip(printed["dataset"], printed["model"], printed["loss"], strict=True)}
    rows = select(effects(), TS, method=CTS).query("source == 'published-logits'")
    rows = rows[[cell in cells for cell in zip(rows["dataset"], rows["model"], rows["loss"], strict=True)]]
    of = rows.pivot(index="network", columns="metric", values="value")
    assert len(of) == 10 and ((of["ece"] < 0) & (of["nll"] > 0)).mean() > 0.5
