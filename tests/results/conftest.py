"""Result files of a test's own, and a small network to record into them."""

import shutil

import numpy as np
import pytest

from calibkit import _folders
from calibkit.logits import Logits


@pytest.fixture
def book(own_results, monkeypatch):
    """Result files of a test's own, in a world without published networks."""
    monkeypatch.setattr("book.kit.results.evidence.PUBLISHED", {})
    return own_results


@pytest.fixture
def toy(book, tmp_path):
    """A small Logits file whose best temperature is 2, and a results folder of its own."""
    shutil.copy(_folders.PACKAGE.parent / "book" / "results" / "paper.csv", book)
    rng = np.random.default_rng(0)
    z = rng.normal(size=(900, 4)) * 2
    y = (z + rng.gumbel(size=z.shape)).argmax(1)
    facts = {"dataset": "cifar10", "model": "resnet20", "loss": "cross_entropy", "budget": "reduced"}
    return Logits(2 * z[:400], y[:400], 2 * z[400:], y[400:], facts).save(tmp_path / "toy.npz")
