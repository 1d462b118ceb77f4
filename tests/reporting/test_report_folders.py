"""Where ``calibkit report`` puts its files by default: a folder of its own for each source."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from calibkit.__main__ import main

KIND = ["--kind", "logits", "--calibrators", "temperature_scaling"]


@pytest.fixture
def here(sample, here):
    """A folder with the same outputs in many places."""
    z, y = sample(300)
    for folder in ("exp.1", "exp.2", "a"):
        Path(folder).mkdir()
        np.save(Path(folder) / "logits.npy", z)
        np.save(Path(folder) / "labels.npy", y)
    for name in ("mine.npz", "a/mine.npz", "mine.v2.npz"):
        np.savez(name, logits=z, labels=y)
    return here


def reported(folder):
    return json.loads((folder / "report.json").read_text())["source"]


@pytest.mark.slow
def test_a_report_lies_beside_under_the_name_of_its_source(here):
    for source, folder in (
        ("mine.npz", "mine-report"),
        ("mine.v2.npz", "mine.v2-report"),
        ("exp.1", "exp.1-report"),
        ("exp.1/", "exp.1-report"),
        ("a/../exp.2", "exp.2-report"),
    ):
        before = set(here.iterdir())
        assert main(["report", source, *KIND[2:]]) == 0
        assert set(here.iterdir()) - before == {here / folder}
        assert reported(here / folder) in (source, source.rstrip("/"))
        shutil.rmtree(here / folder)


@pytest.mark.slow
def test_a_report_of_another_source_is_not_overwritten(here, shell):
    assert main(["report", "mine.npz", *KIND]) == 0
    kept = {path: path.read_bytes() for path in (here / "mine-report").iterdir()}
    printed = shell(["report", "a/mine.npz", *KIND], 1)
    assert printed.out == ""
    assert printed.err == (
        "Expected `out` to be given, as 'mine-report' holds the report on 'mine.npz', but got none\n"
    )
    assert {path: path.read_bytes() for path in (here / "mine-report").iterdir()} == kept
    assert main(["report", "a/mine.npz", "--out", "other", *KIND]) == 0 and reported(here / "other") == "a/mine.npz"
    assert main(["report", "a/mine.npz", "--out", "mine-report", *KIND]) == 0  # as it was told to
    assert reported(here / "mine-report") == "a/mine.npz"


@pytest.mark.slow
def test_a_report_of_the_same_source_is_made_anew(here):
    for again in ("mine.npz", "./mine.npz", "a/../mine.npz"):
        for source in ("mine.npz", again):
            assert main(["report", source, *KIND]) == 0
        assert reported(here / "mine-report") in (again, str(Path(again)))


@pytest.mark.slow
def test_a_folder_without_a_report_of_a_source_is_used(here):
    for text in ("{", "[]", '{"source": 3}'):
        (here / "mine-report").mkdir(exist_ok=True)
        (here / "mine-report" / "report.json").write_text(text)
        assert main(["report", "mine.npz", *KIND]) == 0
        assert reported(here / "mine-report") == "mine.npz"


ZOO = "cifar10/resnet20-cross_entropy-s0"


def test_what_a_network_by_its_name_cannot_have_is_refused(here, shell):
    for command in ("report", "compare"):
        for words, message in (
            (["nothere.npy"], "Expected `path` to be one that can be used, but got 'nothere.npy'"),
            (["a/labels.npy"], "Expected `labels` to be a test set with labels of its own, or None, beside arrays"),
            (["--kind", "probabilities"], "Expected `kind` to be that of the names, logits, but got 'probabilities'"),
        ):
            printed = shell([command, ZOO, *words, "--calibrators", "temperature_scaling"], 1)
            assert printed.out == "" and printed.err.startswith(message) and printed.err.count("\n") == 1
