"""The two stored files: their schema, the printed numbers as printed, and notes that fit their rows."""

import re
from collections import Counter

import pytest

from book.kit.results import load, summary
from book.papers import PAPERS
from calibkit.calibrators import CALIBRATORS
from calibkit.keys import Key
from calibkit.losses import LOSSES
from calibkit.metrics import METRICS
from calibkit.objectives import OBJECTIVES

#: Training methods that a paper prints beside its own and that are not losses of this package.
ELSEWHERE = {"cutmix", "cape_bin", "mc_dropout", "patra"}
CTS = "class_temperature_scaling"
#: How many numbers each paper prints.
PRINTED = {CTS: 234, "class_loss_scaling": 788, "neural_clamping": 290, "mbls": 211, "acls": 312 - 8}


@pytest.mark.parametrize("which", ["paper", "ours"])
def test_file_keeps_its_schema(which):
    """Keys are written as they are read."""
    frame = load(which)  # raises on a wrong column, number, unit, source, or a key that stands twice
    assert (frame["metric"].isin({*METRICS, "accuracy_drop", "miou"})).all()
    for key in frame["method"].unique():
        parsed = Key.parse(key)
        assert parsed.name in CALIBRATORS and str(parsed) == key
        assert parsed.objective is None or parsed.objective.name in OBJECTIVES, key
    for key in frame["loss"].unique():
        assert Key.parse(key).name in {*LOSSES, *ELSEWHERE} and str(Key.parse(key)) == key


def test_every_printed_number_is_there():
    """Eight accuracies are printed twice in one table of the ACLS supplement."""
    printed = load("paper").query("source == 'printed'")
    twice = printed["note"].str.contains("printed twice").sum()
    counts = Counter(printed["paper"])
    assert counts.keys() == PAPERS.keys() == PRINTED.keys(), "PRINTED wants a number for each paper"
    assert counts == PRINTED and twice == 8


def test_printed_cells():
    cells = [
        # numbers read in the papers: CTS Table I, SCTL Table 1, Neural Clamping Table 1, ACLS Table 3, MbLS Table 1
        ((CTS, "I", "cifar100", "resnet110", "cross_entropy", CTS, "ece"), "1.74"),
        (("class_loss_scaling", "1", "cifar10", "densenet40", "cross_entropy", "temperature_scaling", "ece"), "0.96"),
        (("class_loss_scaling", "1", "cifar10", "densenet40", "cross_entropy", f"{CTS}:nll", "ece"), "1.01"),
        (("neural_clamping", "1", "cifar100", "resnet110", "cross_entropy", "neural_clamping", "ece"), "0.0085"),
        (("acls", "3", "tiny_imagenet", "resnet101", "cross_entropy", "identity", "adaptive_ece"), "4.97"),
        (("mbls", "1", "tiny_imagenet", "resnet50", "mbls", "identity", "ece"), "1.64"),
        (("mbls", "1", "tiny_imagenet", "resnet50", "ecp", "identity", "ece"), "4.00"),
    ]
    frame = load("paper").query("source == 'printed'")
    columns = ["paper", "table", "dataset", "model", "loss", "method", "metric"]
    for where, printed in cells:
        assert frame[(frame[columns] == list(where)).all(axis=1)]["printed"].item() == printed


@pytest.mark.slow
def test_every_printed_number_has_a_verdict():
    """Those that stand twice in one table are one row."""
    counts = summary()
    assert counts["printed"].sum() == 1835 - 8
    assert list(dict.fromkeys(paper for paper, _ in counts.index)) == list(PAPERS)


def test_notes_of_ours_fit_their_rows():
    """As many fits as the row says, the options of its key, a temperature only of a method that has a single one."""
    ours = load("ours")
    assert not ours["note"][ours["method"].str.startswith(("pts", CTS))].str.contains("T = ").any()
    for row in ours.itertuples():
        if fits := re.match(r"(\d+) fits? of one network", row.note):
            assert int(fits[1]) == row.n_seeds, row
        objective = Key.parse(row.method).objective
        if objective is not None and (gamma := re.search(r"gamma=([\d.]+)", row.note)):
            assert float(gamma[1]) == objective.options.get("gamma", 0.0), row
