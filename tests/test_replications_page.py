"""The page on others' replications counts what the files of others hold, and says where each is from."""

import importlib
import re
from pathlib import Path

import pandas as pd
import pytest

from book.kit.results import compare, load
from book.kit.results.claims import load_claims
from book.kit.results.csv_rows import CELL, SOURCES
from calibkit import _folders

pytest.importorskip("sphinx")
page = importlib.import_module("book.kit.sphinx.replications")
ROOT = Path(__file__).resolve().parents[1]
EXTRACTS = ROOT.parent / "shared" / "paper-tables"  # as third parties wrote them; without it, the rows that are stored
CLS, CTS = "temperature_scaling:class_loss_scaling", "class_temperature_scaling"
#: Their names -> ours.
KEYS = {"TS": "temperature_scaling", "SCTL": CLS, "CTS": CTS, "PTS": "pts", "GP": "gp", "DIAG": "diag", "ETS": "ets"}
KEYS |= {"SVS": "structured_vector_scaling", "VS": "vector_scaling", "Uncalibrated": "identity"}
KEYS |= {"ECE": "ece", "NLL": "nll", "ECE_ew": "ece", "ECE_em": "adaptive_ece"}


def others(source: str, file: str) -> pd.DataFrame:
    """Rows network, method, metric, value, and of runs the seed."""
    if (EXTRACTS / file).exists():
        rows = pd.read_csv(EXTRACTS / file)
        if source == "calarena":
            rows["network"] = rows["dataset"] + "/" + rows["model"]
            rows = rows.rename(columns={"ece15": "ece", "logloss": "nll"}).melt(
                ["network", "method"], ["ece", "nll"], "metric"
            )
        return rows.replace({"method": KEYS, "metric": KEYS})
    if source == "calibench":
        rows = pd.read_csv(_folders.stored() / "sketch_runs.csv").rename(columns={"model": "network"})
        return rows.melt(["network", "method", "metric"], var_name="seed").dropna()
    rows = load("third_party").query("source == @source and loss == 'cross_entropy'")
    return rows.assign(network=rows["dataset"] + "/" + rows["model"])


def lower(rows: pd.DataFrame, method: str, metric: str) -> dict[str, bool]:
    """Whether a method is below TS, by network; of several runs their means are."""
    found = {}
    for network in sorted(set(rows["network"])):
        of = rows[(rows["network"] == network) & (rows["metric"] == metric)]
        mine, base = (of.loc[of["method"] == name, "value"] for name in (method, "temperature_scaling"))
        assert len(mine) and len(base)
        found[network] = mine.mean() < base.mean()
    return found


def of(words: dict[str, bool] | list[bool]) -> str:
    values = list(words.values() if isinstance(words, dict) else words)
    return f"{sum(values)} of {len(values)}"


def test_class_loss_and_maps_are_counted_as_in_their_file():
    rows = others("h-calibration", "hcalibration.csv.gz")
    papers = re.compile(r"_c100?$|^cifar|(resnet152|densenet161)_imgnet|imagenet/(resnet152|densenet161)")
    said = " ".join(page.block("class_loss")[0])
    for metric, words in (("ece", "networks of the paper and on {} others"), ("adaptive_ece", "and on {}.")):
        found = lower(rows, CLS, metric)
        inside, outside = ([x for n, x in found.items() if bool(papers.search(n)) == of_paper] for of_paper in (1, 0))
        assert len(inside) == 8 and f"on {of(inside)} {words.format(of(outside))}" in said
    assert "8 of 8 printed numbers come out to the last digit" in said
    many = re.compile("imgnet|cars|birds|imagenet|cub200")
    for method, words in (("gp", "in ECE and NLL on {} networks"), ("diag", "the map DIAG on {}.")):
        ece, nll = (lower(rows, method, metric) for metric in ("ece", "nll"))
        assert words.format(of([ece[n] and nll[n] for n in ece if many.search(n)])) in " ".join(page.block("maps")[0])


def test_calarena_and_sketch_are_counted_as_in_their_files():
    rows = others("calarena", "calarena_cv.csv")
    said = " ".join(page.block("arena")[0])
    for method, name in (("ets", "ETS"), ("structured_vector_scaling", "structured VS"), ("vector_scaling", "VS")):
        ece, nll = (of(lower(rows, method, metric)) for metric in ("ece", "nll"))
        assert f"on {ece} and {nll} networks with {name}" in said and ece.endswith(" of 28")
    rows = others("calibench", "calibench_imagenet_sketch.csv.gz")
    said = " ".join(page.block("sketch")[0])
    for method, name in ((CTS, "CTS"), ("pts", "PTS"), ("ets", "ETS")):
        ece, nll = (of(lower(rows, method, metric)) for metric in ("ece", "nll"))
        assert f"{name}: the mean ECE is lower than that of TS on {ece} networks, the mean NLL on {nll}." in said
    plain = rows[(rows["method"] == "identity") & (rows["metric"] == "ece")].groupby("network")["value"]
    assert (plain.max() - plain.min() < 1e-6).all() and "On 7 of 7 the uncalibrated ECE is the same" in said


def test_how_many_of_their_networks_the_papers_print():
    """Of Table 1 of class-wise loss scaling eight; of CalArena's in the comparison all but three."""
    printed, rows = load("paper").query("source == 'printed'"), load("third_party")
    cells = {
        source: {*map(tuple, of[["dataset", "model"]].to_numpy())}
        for source, of in [("paper", printed), *rows.groupby("source")]
    }
    table = printed.query("paper == 'class_loss_scaling' and table == '1'")
    ten = {*map(tuple, table[["dataset", "model"]].to_numpy())}
    run = cells["h-calibration"]
    page = (ROOT / "book" / "replications.md").read_text()
    assert (len(ten & run), len(ten), len(run - ten)) == (8, 10, 7)
    assert "on eight of the ten networks of the paper's Table 1 and on seven others" in page
    assert len(cells["calarena"]) == 28 and "has 28 image networks" in page
    beside = {cell for cell in cells["calarena"] - cells["paper"] if cell[0].startswith("cifar") or cell[0] == "cub200"}
    assert beside == {("cifar10", "lenet5"), ("cifar100", "lenet5"), ("cub200", "resnet50")}
    said = "Three of them no paper prints, a LeNet-5 for each CIFAR and a ResNet-50 for CUB."
    assert said in (ROOT / "notebooks" / "comparison.py").read_text()


def test_what_the_training_losses_are_said_to_have():
    said = {name: " ".join(page.block(name)[0]) for name in ("log", "smoothing", "flsd", "baseline")}
    assert "21 of 21 printed numbers are in the logs" in said["log"]
    assert "with ACLS by 0.011, with MbLS by 0.027, with FL by 0.037 nats" in said["log"]
    assert "with a temperature has the lowest ECE on 5 of 5" in said["smoothing"]
    assert "3.73 to 18.39%" in said["baseline"] and "inside the interval" in said["flsd"]


def test_every_source_has_its_commit_date_licence_and_protocol():
    rows = page.third_parties()
    assert {*SOURCES["third_party"], *(name for names, _ in page.BLOCKS.values() for name in names)} == set(rows.index)
    for row in rows.itertuples():
        assert re.fullmatch(r"[0-9a-f]{7}|#\d+", row.commit) and re.fullmatch(r"20\d\d-\d\d-\d\d", row.date), row
        assert row.repository.count("/") == 1 and row.licence and row.protocol, row


def test_what_answers_printed_numbers():
    """Weights of classes by others: the six networks of Table 1 that we have no logits of, and again in Table 3."""
    found = compare("class_loss_scaling").query("method == @CLS and elsewhere_verdict != ''")
    assert found["table"].value_counts().to_dict() == {"1": 6, "3": 6}
    assert set(found["elsewhere_verdict"]) == {"the same elsewhere"}
    rows = load("third_party")
    twice = rows[rows.duplicated(list(CELL), keep=False)]
    assert len(twice) and (twice.groupby(list(CELL))["source"].last() == "calarena").all()


def test_the_ledger_links_claims_to_sections_that_there_are():
    text, claims = (ROOT / "book" / "replications.md").read_text(), set(load_claims()["id"])
    for section, ids in page.CLAIMS.items():
        assert f"({section})=" in text and set(ids) <= claims
        assert page.linked(ids[0]) == f"; {{ref}}`others <{section}>`"
    assert page.linked("NC1") == ""
    assert set(re.findall(r"\{replications\} (\w+)", text)) == {"sources", *page.BLOCKS}
