"""What the front page and the decision guide count in words, counted again from the recorded differences."""

from functools import cache
from pathlib import Path

import pandas as pd

from book.kit.notebook.over_networks import beyond_chance, select
from book.kit.results import load
from book.kit.results.paired_differences import chance_of, load_effects, over_networks

BOOK = Path(__file__).resolve().parents[2] / "book"
WORDS = "none one two three four five six seven eight nine ten eleven twelve".split()
TS, TS_ECE, CTS = "temperature_scaling", "temperature_scaling:ece", "class_temperature_scaling"


@cache
def effects() -> pd.DataFrame:
    found = load_effects().query("source != 'public' and not loss.str.fullmatch('(mbls|acls) margin=[0-9]+')")
    return found.assign(chance=[chance_of(row) for row in found.itertuples()])


@cache
def against(base: str, method: str, metrics: tuple[str, ...] = ("ece", "nll")) -> pd.DataFrame:
    """A calibrator against another on every network, with a word for each test: one family, as in the comparison."""
    rows = select(effects(), base, method=method)
    rows = rows[rows["metric"].isin(metrics)]
    return rows.assign(word=beyond_chance(rows))


def whole_networks(*methods: str) -> set[str]:
    """Those on which all of the methods are measured."""
    of = select(effects(), TS, metric="ece")
    return {name for name, rows in of.groupby("network") if {*methods} <= {*rows["method"]}}


def text(page: str) -> str:
    return (BOOK / f"{page}.md").read_text()


def test_class_temperatures_with_ten_classes_on_the_front_page():
    rows = against(TS, CTS).query("dataset == 'cifar10'")
    nll, ece = (rows[rows["metric"] == metric] for metric in ("nll", "ece"))
    worse = nll[nll["word"] == "worse"]
    assert {*worse["source"]} == {"published-logits"}
    said = f"the NLL rises beyond chance on {WORDS[len(worse)]} of {WORDS[len(nll)]} networks, all published"
    assert f"{said}; the ECE falls beyond chance on {WORDS[(ece['word'] == 'better').sum()]}" in text("index")
    assert "on two and rises on none" in text("index") and not (ece["word"] == "worse").any()


def test_class_temperatures_with_a_hundred_classes_on_the_front_page():
    said = "CTS lowers the ECE of all four published networks beyond chance, not of our two"
    assert f"{said}, and raises the NLL of all six" in text("index")
    rows = against(TS, CTS).query("dataset == 'cifar100'")
    ece, nll = (rows[rows["metric"] == metric] for metric in ("ece", "nll"))
    lower = ece[ece["word"] == "better"]
    assert (len(ece), len(lower), {*lower["source"]}) == (6, 4, {"published-logits"})
    assert len(nll) == 6 and (nll["word"] == "worse").all()


def test_class_temperatures_by_class_wise_losses_on_the_front_page():
    """Lower in both on average over all networks, as are those with equal weights."""
    assert "CTS fitted by CLS is lower in both on average; so are class temperatures with plain" in text("index")
    for objective in ("class_loss_scaling", "class_balanced"):
        rows = select(effects(), TS, method=f"{CTS}:{objective}")
        for metric in ("ece", "nll"):
            assert over_networks(rows[rows["metric"] == metric])[2] < 0  # the upper end


def test_class_temperatures_in_the_guide():
    counts = against(TS_ECE, CTS).query("metric == 'ece'")["word"].value_counts()
    said = f"a lower ECE than one temperature by ECE beyond chance on {WORDS[counts['better']]} networks"
    assert f"{said}, a higher one on {WORDS[counts['worse']]}," in text("which_method")
    assert "on more than twenty" in text("which_method") and counts["not decided"] > 20


def test_the_increasing_map_in_the_guide():
    """On most published networks better in both scores, on none worse; of ours one test of sixteen is decided."""
    rows = against(TS, "order_preserving", ("ece", "nll", "brier"))
    rows = rows[rows["metric"] != "brier"]
    counts = rows.groupby(["source", "metric"])["word"].value_counts().unstack(fill_value=0)
    published = counts.loc["published-logits"]
    assert (published["better"] > published["not decided"]).all() and (rows["word"] != "worse").all()
    assert counts.loc["ours", "better"].sum() <= 2


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
    said = f"is a little better in NLL than temperature scaling on {WORDS[better]} of {WORDS[len(of['nll'])]}"
    assert f"{said} balanced networks, and in ECE the two are not told apart" in text("which_method")
    assert (of["ece"] == "not decided").all()


def test_bins_and_curves_in_the_guide():
    higher, methods = [], ("histogram_binning", "isotonic", "spline")
    for method in methods:
        rows = select(effects(), TS, method=method)
        rows = rows[rows["network"].isin(whole_networks(*methods))]
        n = rows["network"].nunique()
        assert (rows["metric"] == "nll").sum() < n / 2  # an infinite NLL has no row
        higher.append((rows[rows["metric"] == "ece"]["value"] > 0).sum())
    said = "give some true class the probability 0 on most networks; on {}, {} and {} of {} their ECE is higher"
    assert said.format(*higher, n) in text("which_method")
