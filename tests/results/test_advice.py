"""What the front page and the decision guide count in words, counted again from the recorded differences."""

from functools import cache
from pathlib import Path

import pandas as pd

from book.kit.notebook.over_networks import beyond_chance, select
from book.kit.results.paired_differences import chance_with_seeds, load_effects

BOOK = Path(__file__).resolve().parents[2] / "book"
WORDS = "none one two three four five six seven eight nine ten".split()
TS, TS_ECE, CTS = "temperature_scaling", "temperature_scaling:ece", "class_temperature_scaling"


@cache
def effects() -> pd.DataFrame:
    found = load_effects().query("source != 'public' and not loss.str.fullmatch('(mbls|acls) margin=[0-9]+')")
    return found.assign(chance=[chance_with_seeds(row) for row in found.itertuples()])


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


def test_class_temperatures_and_the_likelihood_on_the_front_page():
    rows = against(TS, CTS).query("dataset == 'cifar10' and metric == 'nll'")
    worse = rows[rows["word"] == "worse"]
    assert {*worse["source"]} == {"published-logits"}
    said = f"the NLL rises beyond chance on {WORDS[len(worse)]} of {WORDS[len(rows)]} networks, all published"
    assert said in text("index")


def test_class_temperatures_on_a_hundred_classes():
    assert (
        "CTS lowers the ECE of the two published ones beyond chance, not of our two, and raises the NLL of all four"
        in (text("index"))
    )
    ece = against(TS_ECE, CTS).query("dataset == 'cifar100' and metric == 'ece'")
    lower = ece[ece["word"] == "better"]
    assert (len(ece), len(lower), {*lower["source"]}) == (4, 2, {"published-logits"})
    nll = against(TS, CTS).query("dataset == 'cifar100' and metric == 'nll'")
    assert len(nll) == 4 and (nll["word"] == "worse").all()


def test_class_temperatures_in_the_guide():
    counts = against(TS_ECE, CTS).query("metric == 'ece'")["word"].value_counts()
    said = f"a lower ECE than one temperature by ECE beyond chance on {WORDS[counts['better']]} networks"
    assert f"{said}, a higher one on {WORDS[counts['worse']]}," in text("which_method")
    assert "on more than twenty" in text("which_method") and counts["not decided"] > 20


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
