"""Numbers that pages say in so many words, recomputed from the stored results."""

from pathlib import Path

import pandas as pd

from book.kit.notebook.over_networks import select, stratum
from book.kit.results import load
from book.kit.results.difference_intervals import over_networks
from book.kit.results.leaderboard import entries
from book.kit.results.paired_differences import load_effects
from calibkit import _folders

BOOK = Path(__file__).resolve().parents[2] / "book"
TS, CE = "temperature_scaling", "cross_entropy"


def says(page: str, *texts: str) -> None:
    text = (BOOK / f"{page}.md").read_text()
    assert all(said in text for said in texts), [said for said in texts if said not in text]


def test_what_a_test_set_decides_on_two_networks_in_the_protocol():
    kept = pd.read_csv(_folders.stored() / "chapters" / "metrics.csv").query("table == 'paired'")
    of_resnet = kept.query("row == 'in use' and column == 'over 0.5, over 1.0'")["value"].item()
    of_densenet = pd.read_csv(_folders.stored() / "power.csv").query("one == 0.5 and other == 1")["ece"].item()
    says("protocol", f"beyond chance in {of_resnet:g}% of the test sets instead of {of_densenet:g}%")


def test_the_margin_over_four_data_sets_on_the_front_page_and_over_six_in_the_ledger():
    rows = select(load_effects(), TS, CE, loss="mbls", method="identity")
    ece, nll = (rows[rows["metric"] == metric] for metric in ("ece", "nll"))
    left_out = stratum(ece) != "ours, balanced"
    assert {*ece[left_out]["dataset"]} == {"camvid", "20newsgroups"} and len(ece) == 6
    four = over_networks(ece[~left_out]).percent
    says("index", f"(+{four.value:.1f} points [{four.low:.1f}, +{four.high:.1f}])".replace("-", "\N{MINUS SIGN}"))
    assert (over_networks(ece).below(), four.below()) == ("does not hold", "not decided")
    assert over_networks(nll[stratum(nll) == "ours, balanced"]).below() == "does not hold"
    cifar = over_networks(ece[ece["dataset"] == "cifar10"])
    assert cifar.below() == "does not hold"


def test_the_networks_of_neural_clamping_in_the_ledger():
    rows = select(load_effects(), TS, method="neural_clamping", metric="ece")
    assert rows["loss"].value_counts().to_dict() == {CE: 3, "label_smoothing": 1}


def test_trainings_on_the_leaderboard_and_in_the_comparison():
    compared = load("ours").query("dataset == 'cifar10' and model == 'resnet20' and metric == 'ece'")
    n = compared.query("method == 'identity'").set_index("loss")["n_seeds"]
    once = [of["key"] for of in entries() if of.get("data") == "cifar10" and of["networks"] == 1]
    assert once and {*n[once]} == {2}
    says("leaderboard", "Where a row for CIFAR-10 has one training, the {ref}`comparison <sec-comparison-losses>` has")
