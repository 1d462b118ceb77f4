"""Result files of a test's own, and a small network to record into them."""

import shutil
from dataclasses import replace

import pytest

from calibkit import _folders


@pytest.fixture
def book(own_results, monkeypatch):
    """Result files of a test's own, in a world without published networks."""
    monkeypatch.setattr("book.kit.results.evidence.PUBLISHED", {})
    return own_results


@pytest.fixture
def toy(too_sure, book, tmp_path):
    """A Logits file of a ResNet-20 whose best temperature is 2, and a results folder of its own."""
    shutil.copy(_folders.PACKAGE.parent / "book" / "results" / "paper.csv", book)
    facts = {"dataset": "cifar10", "model": "resnet20", "loss": "cross_entropy", "budget": "reduced"}
    return replace(too_sure, meta=facts).save(tmp_path / "toy.npz")
