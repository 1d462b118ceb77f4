"""Numbers that pages say in so many words, recomputed from the stored results."""

import numpy as np
import pandas as pd
import pytest
from cells_and_pages import by_id, chapter, checked, says, told
from scipy import special, stats

from book.kit.notebook.over_networks import select, stratum
from book.kit.results import compare, load
from book.kit.results.claims import load_claims
from book.kit.results.difference_intervals import over_networks
from book.kit.results.leaderboard import entries
from book.kit.results.paired_differences import load_effects
from calibkit import Network, _folders, ece
from calibkit.reporting.catalogue import need_of

TS, CTS, CE = "temperature_scaling", "class_temperature_scaling", "cross_entropy"


def test_what_a_test_set_decides_on_two_networks_in_the_protocol():
    kept = pd.read_csv(_folders.stored() / "chapters" / "metrics.csv").query("table == 'paired'")
    of_resnet = kept.query("row == 'in use' and column == 'over 0.5, over 1.0'")["value"].item()
    of_densenet = pd.read_csv(_folders.stored() / "power.csv").query("one == 0.5 and other == 1")["ece"].item()
    says("protocol", f"beyond chance in {of_resnet:g}% of the test sets, not in {of_densenet:.0f}%")
    of_resnet = kept.query("row == 'in use' and column == 'calibrated 0.0, wavy 1.0'")["value"].item()
    of_densenet = pd.read_csv(_folders.stored() / "power.csv").query("one == 0 and other == 1")["ece"].item()
    says("protocol", f"with gaps of either sign, is so in {of_resnet:g}%, not in {of_densenet:.0f}%")


def test_trainings_on_the_leaderboard_and_in_the_comparison():
    compared = load("ours").query("dataset == 'cifar10' and model == 'resnet20' and metric == 'ece'")
    n = compared.query("method == 'identity'").set_index("loss")["n_seeds"]
    once = [of["key"] for of in entries() if of.get("data") == "cifar10" and of["networks"] == 1]
    assert once and {*n[once]} == {2}
    says("leaderboard", "Where a row for CIFAR-10 has one training, the {ref}`comparison <sec-comparison-losses>` has")


IN_CHAPTERS = {  # what the errata say, and what a cell of the chapter prints
    "Four rows of Neural Clamping": ("neural_clamping", "4 contradict themselves"),
    "A printed ECE of 37.26 is above the 34.43": ("neural_clamping", "37.26 > 34.43 (ResNet-110)"),
    "leaves a length of 0.010 instead of 0.040": ("neural_clamping", "λ = 1 0.040 0.010"),
    "one of 0.92 instead of 0.88": ("neural_clamping", "squared norm norm λ = 0.01 0.875 0.921"),
    "the objective [P6] falls by less than a tenth of a percent": ("class_loss_scaling", "[P6] falls by 0.09%"),
    "By this code eight of nine printed ECEs": ("class_temperature_scaling", "8 of the 9 printed ECEs come out"),
    "come out to the last digit, by the text four": ("class_temperature_scaling", "the paper describes it 4 do"),
    "differ by up to 0.25 points": ("class_temperature_scaling", "ResNet-50 Brier 1.59 1.84 1.59"),
    "is +0.27 points with CE": ("class_temperature_scaling", "+0.27 [−4.30, +4.84] 2.84 1.32"),
    "with an interval from −4.30 to +4.84": ("class_temperature_scaling", "+0.27 [−4.30, +4.84]"),
    "has 0.41 to 0.48 of the ECE of one": ("class_temperature_scaling", "CTS then has 0.41 to 0.48 of the ECE"),
    "and the paper prints 0.72 to 0.77": ("class_temperature_scaling", "In the paper's four rows it has 0.72 to 0.77"),
    "of one temperature by −0.27 points": ("class_temperature_scaling", "ECE of one temperature by −0.27 ["),
    "and CTS lies another 0.49 below": ("class_temperature_scaling", "From there to CTS it is another −0.49 ["),
    "−0.1 from the smallest logit to the top one, and −0.01 back": ("acls", "0.640 −0.100 −0.010"),
    "first in nine of ten columns and tied in one": ("acls", "ACLS is first in 9 of 10 columns"),
    "3 instead of 0 in the chapter's first sample": ("acls", "predicted 0 0.0000 3.0000 not zero"),
    "the exact term is 0.80 to 0.97 of it": ("acls", "p_j (1 + p_ŷ) 0.0019 0.0018 ratio from 0.80 to 0.97"),
    "0.05 to 0.29 for the predicted class": ("acls", "predicted constant 1.0000 0.0873 ratio from 0.05 to 0.29"),
    "takes over 72 numbers": ("acls", "have 72 of these numbers too, none with another value"),
}


@pytest.mark.parametrize("said", IN_CHAPTERS)
def test_a_number_of_the_errata_is_printed_by_a_checked_cell_of_its_chapter(said):
    chapter, printed = IN_CHAPTERS[said]
    says("errata", said)
    assert printed in checked(chapter)


def test_errors_by_batch_in_the_errata():
    """Six losses on CamVid in two trainings: by how much the ECE by batch is larger, and whose place it changes."""
    more, moved = [], []
    for seed in (0, 1):
        losses = (CE, "ecp", "label_smoothing", "focal", "mbls", "acls")
        facts = [
            Network("camvid", "deeplabv3_resnet34", loss, seed=seed).logits().meta["test_pixels"] for loss in losses
        ]
        whole, by_batch = (np.array([of[name] for of in facts]) for name in ("ece", "ece_by_batch"))
        more += list(100 * (by_batch - whole))
        moved.append(int((whole.argsort().argsort() != by_batch.argsort().argsort()).sum()))
    says("errata", f"By batch the ECE is {min(more):.1f} to {max(more):.1f} points larger on CamVid")
    assert moved == [0, 2]
    says("errata", "Of six losses none changes its place in one training, and two do in the other")


def printed(paper: str, table: str, dataset: str, model: str) -> pd.Series:
    """The printed ECEs of a network in percent, by loss and calibrator."""
    rows = load("paper").query("paper == @paper and table == @table and metric == 'ece' and source == 'printed'")
    return rows.query("dataset == @dataset and model == @model").set_index(["loss", "method"])["value"]


def test_tables_that_contradict_their_paper_in_the_errata():
    higher = []
    for row in load("paper").query("paper == 'mbls' and table == '7'")[["dataset", "model"]].drop_duplicates().values:
        of = printed("mbls", "7", *row)
        higher.append(of["mbls", "identity"] > of[CE, f"{TS}:ece"])
    assert (sum(higher), len(higher)) == (2, 6)
    for model in ("densenet40", "resnet110", "resnet110_sd", "wide_resnet_28"):
        of = printed("class_loss_scaling", "2", "cifar10_lt", model)
        methods = of.index.get_level_values("method")
        assert (
            max(of[CE, "ets:label_smoothing"], of[CE, "pts:label_smoothing"])
            < of[methods.str.contains("class_loss_scaling")].min()
        )
    of = printed("mbls", "1", "cifar10", "resnet50").sort_values()
    assert (len(of), of.index.get_loc(("mbls margin=0 weight=0.05", "identity"))) == (7, 3)


def test_what_is_typed_of_class_wise_loss_scaling():
    """The weights alone, the printed numbers that come out, the averages of Table 2, and the total loss."""
    box = chapter("class_loss_scaling").partition(" ## ")[0]
    kept = pd.read_csv(_folders.stored() / "chapters" / "class_loss_scaling.csv").query("table == 'controls'")
    kept = kept.pivot(index="row", columns="column", values="value")
    alone = kept.loc["CIFAR-10-LT DenseNet-40", "ECE weights"]
    says("errata", f"the weights by loss alone {alone:.2f}%")
    assert f"weights by the loss alone to {alone:.2f}%" in box
    assert "On balanced CIFAR-10 the gain is 0.2 points" in box

    models = {"cifar10": ["densenet40", "resnet110"]}
    models["cifar10_lt"] = ["densenet40", "resnet110", "resnet110_sd", "wide_resnet_28"]
    found = compare("class_loss_scaling")
    public = pd.concat(found[(found["dataset"] == name) & found["model"].isin(of)] for name, of in models.items())
    assert {*public["source"]} == {"published-logits"}
    n = (public["verdict"] == "reproduced").sum()
    assert f"on the six networks whose logits we have, {n} of the {len(public)} printed numbers come out" in box
    kept_right = (public["metric"] == "accuracy") & ~public["method"].str.startswith(CTS)
    n = (kept_right | (public["method"] == "identity")).sum()
    assert f"{n} are of the network as it is, or accuracies that" in chapter("class_loss_scaling")

    lowest, best = [], []
    table = load("paper").query("paper == 'class_loss_scaling' and table == '2' and source == 'printed'")
    for _, of in table.groupby(["dataset", "model"]):
        ece_of, accuracy = (of[of["metric"] == name].set_index("method")["value"] for name in ("ece", "accuracy"))
        ece_of = ece_of.drop("identity")
        means = ece_of.groupby(ece_of.index.str.partition(":").get_level_values(2)).mean()
        own = means["class_loss_scaling"]
        lowest.append(own < means[["label_smoothing", "focal"]].min())
        best.append(accuracy.idxmax() == f"{CTS}:class_loss_scaling")
    assert (sum(lowest), len(lowest), all(best)) == (6, 8, True)
    says("errata", "the lowest ECE on six of the eight long-tailed networks", "the highest accuracy on all eight")

    tail = kept.index.str.startswith("CIFAR-10-LT")
    total, mean = (100 * (kept[f"{name} CLS"] / kept[f"{name} NLL"] - 1) for name in ("sum", "mean"))
    assert len(kept) == 7 and total[~tail].abs().max() < 0.2 and total[tail].max() < 0
    said = f"the mean over samples is {mean[tail].min():.1f} to {mean[tail].max():.1f}% higher"
    assert said in load_claims().set_index("id").loc["CLS9", "found"]


def test_numbers_of_the_protocol():
    cell = {"dataset": "cifar10", "model": "densenet40", "loss": CE, "metric": "ece"}
    ours = load("ours")
    replay = ours[(ours[[*cell]] == cell).all(axis=1) & (ours["method"] == f"{TS} solver=sctl")]["value"].item()
    assert printed("class_loss_scaling", "1", "cifar10", "densenet40")[CE, TS] == 0.96 == round(100 * replay, 2)
    far = compare("class_loss_scaling").query("dataset == 'cifar100_lt' and model == 'resnet110' and method == @TS")
    far = far[(far["metric"] == "ece") & (far["printed"] == "8.46")]["ours"]
    says("protocol", f"such as {far.iloc[0]:.2f} where 8.46 is printed")

    alone = ours[ours["dataset"].str.startswith("cifar") & (ours["metric"] == "ece") & (ours["n_seeds"] == 1)]
    low, high = (50 * (alone["high"] - alone["low"])).quantile([0.1, 0.9])
    says("protocol", f"of an ECE mostly reaches {low:.1f} to {high:.1f} points to either side")

    seen = pd.read_csv(_folders.stored() / "power.csv").set_index(["one", "other"])
    says("protocol", "seen four times in five with 8,800 images each for an easy task and 27,000 for a hard one")
    assert "1.0 points 8,800 27,000" in checked("metrics")
    says("protocol", f"seen in {seen.loc[(0, 1), 'ece']:g}% of the test sets")
    assert seen.loc[(0, 0.5), "ece"] < 10 and seen.loc[(0, 1), "holm"] < 20  # rarely
    assert seen.loc[(1, 1.5), "ece"] > 95 and (seen["nll"] >= seen["ece"]).all()
    assert (seen[seen.index.get_level_values("one") < 0]["ece"] <= 5).all()
    kept = pd.read_csv(_folders.stored() / "chapters" / "metrics.csv").query("table == 'paired' and row == 'reflected'")
    equal = kept[
        kept["column"].isin(["over 1.0, under 1.0", "too cold 0.2, too warm 0.2", "wavy 1.0, counter-wavy 1.0"])
    ]
    low, high = equal["value"].agg(["min", "max"])
    says("protocol", f"between equally good methods in {low:g} to {high:g}% of test sets")
    assert len(equal) == 3 and low > 10

    contains = pd.read_csv(_folders.stored() / "coverage.csv").set_index("difference").iloc[:, 1:]
    says("protocol", f"each interval contains it {contains.iloc[:, 1].min()} times or more")
    assert f"{stats.t.ppf(0.975, 1):.1f}" == "12.7"


def test_numbers_of_the_guide():
    for key, numbers in {"ets": 3, "order_preserving": 10, "pts": 91}.items():
        assert need_of(key).parameters(10) == need_of(key).parameters(1000) == numbers
    says("which_method", "`ets`, three parameters", "`order_preserving`, ten parameters", "`pts`, about ninety")
    found = load("ours").query("dataset == 'cifar100_lt' and model == 'resnet20' and method == 'identity'")
    assert abs(found.query("metric == 'accuracy'")["value"].item() - 1 / 3) < 0.03  # right on a third
    assert load("ours").query("dataset == 'camvid' and method == 'pts' and metric == 'nll'").empty  # it is infinite

    effects = load_effects()
    for method in ("ms_odir", "dir_odir"):
        rows = select(effects, TS, method=method, metric="nll")
        assert 0.15 < rows[rows["dataset"] == "camvid"]["value"].item() < 0.5  # tenths of a nat
        ten = rows[(rows["dataset"] == "cifar10") & (rows["source"] == "published-logits")]["value"]
        assert -0.0105 < ten.min() < -0.005 and (ten < 0).all()  # as structured matrices: up to a hundredth
    largest = select(effects, f"{TS}:ece", method=CTS, metric="ece").sort_values("value").iloc[0]
    assert [*largest[["dataset", "model", "loss", "source"]]] == ["cifar100", "resnet110", "brier", "published-logits"]
    few = load("third_party").query("source == 'calarena' and metric == 'nll' and note.str.startswith('10000 fitted')")
    nll = few.assign(network=few["dataset"] + few["model"]).pivot(index="network", columns="method", values="value")
    assert 0.05 < (nll["vector_scaling"] - nll[TS]).mean() < 0.15  # a tenth


def test_class_temperatures_on_long_tailed_data_on_their_card():
    rows = select(load_effects(), TS, method=CTS)
    for dataset, n, word in (("cifar10_lt", 5, "holds"), ("cifar100_lt", 4, "does not hold")):
        of = rows[rows["dataset"] == dataset]
        for metric in ("ece", "nll"):
            values = of[of["metric"] == metric]
            assert (len(values), over_networks(values).below()) == (n, word)
    lost = rows[(rows["metric"] == "accuracy") & (stratum(rows) == "published, balanced")]["value"].min()
    assert -0.0035 < lost < -0.0025  # three tenths of a point


def test_what_the_page_on_running_fetches():
    """Four files without a known size hold logits in float32 and labels in 8 bytes, as the others of that paper do, and
    one holds the weights of a ResNet-110.
    """
    files = pd.read_csv(_folders.PACKAGE / "data" / "published.csv").query("skipped.isna()")
    *unknown, weights = files[files["bytes"].isna()]["target"]
    assert all("cifar100lt" in name for name in unknown) and weights == "weights/cifar100_resnet110"
    size = files["bytes"].sum() + len(unknown) * (9_787 + 10_000) * (4 * 100 + 8) + 4 * 1.7e6
    says("running", f"of other people's networks, about {round(size / 1e6, -1):.0f} MB")


@pytest.mark.slow
def test_pairs_of_temperatures_and_the_corrected_wave_in_the_metrics_chapter():
    """Its text on pairs, and its third and fourth exercises, by a simulation of our own."""
    rng, ts = np.random.default_rng(1), (1.0, 1.05, 1.45, 1.5, 1.55)
    errors = []
    for _ in range(100):
        z = 20 * rng.standard_normal((10_000, 10))
        labels = (z / 1.5 + rng.gumbel(size=z.shape)).argmax(1)
        errors.append([100 * ece(special.softmax(z / t, axis=1), labels) for t in ts])
    top = np.array([special.softmax(z / t, axis=1).max(1).mean() for t in ts])
    true = np.diff(100 * abs(top - top[3]))
    change, each = np.diff(errors, axis=1), np.std(errors, axis=0, ddof=1)
    paired, apart = change.std(axis=0, ddof=1), np.hypot(each[1:], each[:-1])
    assert paired[0] < abs(change[:, 0].mean()) / 5 and abs(change[:, 0].mean()) < apart[0]
    assert (paired[2:] > apart[2:] / 2).all() and (change[:, 2:].mean(0) / true[2:] < 1 / 3).all()
    assert (paired[2:] > 2 * (1.01 - 0.96)).all()  # more than twice the difference

    noise = []
    for _ in range(100):
        c = special.softmax(5 * rng.standard_normal((2000, 10)), axis=1).max(1)
        truth = c + 0.08 * np.sin(4 * np.pi * c)
        gap = np.bincount((15 * c).astype(int).clip(max=14), (rng.random(2000) < truth) - truth)
        noise.append(abs(gap).sum() / 20)  # percent of 2,000
    assert 1.5 < np.mean(noise) < 2.5  # about two points


def test_what_lists_and_boxes_take_from_checked_cells():
    clean, best = told("temperature_scaling", "several times over, from # to #.")
    under, alone = told("temperature_scaling", "takes too much away: #% ECE, against #%")
    assert best > 2 * clean and under > alone  # a clean temperature can do harm
    assert "beyond chance on none" in checked("temperature_scaling")
    (overfit,) = told("temperature_scaling", "the share of mistakes: #% after")
    (held_out,) = told("temperature_scaling", "ECE of #% shows that the held-out images are right")
    assert overfit > 2 * held_out
    few, every = told("class_temperature_scaling", "**On # of # networks the fifth digit moves the ECE of CTS by less")
    assert few > every / 2  # on most it does not
    cts, low, high, one = told(
        "class_temperature_scaling",
        "moves the ECE of CTS by # points, from # to #%, and the ECE of one temperature by #.",
    )
    assert cts > 0.5 > 10 * one  # the fifth digit can decide
    on_val, on_test = told(
        "class_temperature_scaling", "by # points compared with TS-ECE. On the test images the difference is #,"
    )
    assert on_val > 0.5 > -on_test  # partly the noise of the validation set


@pytest.mark.slow
def test_the_backbones_of_the_ledger():
    of = load("ours").query("dataset == 'cifar10' and metric == 'ece' and method == 'identity' and source == 'ours'")
    of = 100 * of.pivot(index="model", columns="loss", values="value").loc[["resnet20", "resnet50", "resnet8"]]
    row = by_id().loc["MbLS4"]
    for loss, said in (("mbls", "is {}, {} and {}%"), (CE, "cross-entropy's {}, {} and {}%")):
        assert said.format(*of[loss].map("{:.1f}".format)) in row["effect"]
    spread = of.max() - of.min()
    assert spread["mbls"] < spread[CE] and of.loc["resnet8", "mbls"] > of.loc["resnet8", CE]


def test_a_printed_error_that_one_temperature_raises_in_the_class_loss_chapter():
    """Of the WRN-28 for CIFAR-100-LT; its rows and those of LS and FL are all of the opposite direction."""
    rows = compare("class_loss_scaling", "2").query("dataset == 'cifar100_lt' and model == 'wide_resnet_28'")
    of = rows.query("metric == 'ece'").set_index("method")
    before, after = of.loc[["identity", TS], "printed"]
    assert f"seems to raise the printed ECE, from {before} to {after}%, and lowers" in chapter("class_loss_scaling")
    assert of.loc[TS, "stand_in_value"] < of.loc["identity", "stand_in_value"]
    every = pd.concat([compare("class_loss_scaling", table) for table in "1234"])
    opposite = every[(every["verdict"] == "opposite direction") | (every["stand_in_verdict"] == "opposite direction")]
    plain = opposite[~opposite["method"].str.contains("label_smoothing|focal")]
    assert len(opposite) > len(plain) > 0 and {*plain["model"]} == {"wide_resnet_28"}
