"""Shared by all tests: one thread, no display, torchvision importable, a shell, and logits: some whose true
temperature is known, and some that Jung et al. 2023 published or used, with what public code made of them."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("MPLBACKEND", "Agg")

import numpy as np
import oracles
import pytest
import torch
from data_parameters import with_logits
from drawn_logits import true_logits

from calibkit import _folders
from calibkit.__main__ import main
from calibkit._extras import ensure_torchvision_importable
from calibkit.logits import Logits
from calibkit.networks import published as published_files

ensure_torchvision_importable()  # before any test imports torchmetrics
torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))


def pytest_runtest_setup(item):
    if item.get_closest_marker("gpu") and not torch.cuda.is_available():
        pytest.skip("no CUDA device")


@pytest.fixture
def overconfident() -> tuple[torch.Tensor, torch.Tensor]:
    """Logits (4000, 5) that are 3 times those which the labels were drawn from: the true temperature is 3."""
    rng = np.random.default_rng(0)
    true = torch.from_numpy(rng.normal(scale=1.5, size=(4000, 5)))
    labels = (true.softmax(1).cumsum(1) < torch.from_numpy(rng.random((4000, 1)))).sum(1).clamp(max=4)
    return 3.0 * true, labels


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """The present folder, which is empty."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def own_results(tmp_path, monkeypatch) -> Path:
    """An empty folder in the place of ``book/results``."""
    folder = tmp_path / "results"
    folder.mkdir()
    monkeypatch.setattr(_folders, "stored", lambda: folder)
    return folder


@pytest.fixture
def data_cache(tmp_path, monkeypatch) -> Path:
    """An empty folder in the place of the data cache."""
    folder = tmp_path / "cache"
    folder.mkdir()
    monkeypatch.setenv("CALIBKIT_DATA", str(folder))
    return folder


@pytest.fixture
def shell(capsys) -> Callable:
    """A function that runs a command, which must end with ``status``, and returns what it printed: ``out``, ``err``."""

    def run(words: list[str], status: int = 0, main: Callable[[list[str]], int] = main):
        capsys.readouterr()  # what was printed before
        assert main(words) == status
        return capsys.readouterr()

    return run


@pytest.fixture
def too_sure() -> Logits:
    """400 held-out and 500 test samples of four classes whose best temperature is 2."""
    z, y = true_logits(900, 4)
    return Logits(2 * z[:400], y[:400], 2 * z[400:], y[400:])


#: See "source" in the file.
SETS = oracles.numbers("posthoc")["sets"]


class Published(NamedTuple):
    name: str
    logits: Logits
    oracle: dict


@pytest.fixture(params=with_logits(SETS))
def published(request) -> Published:
    """Each of the three sets."""
    return Published(request.param, Logits.load(published_files()[request.param]), SETS[request.param])


@pytest.fixture(params=with_logits(["sctl-cifar10-densenet40"]))
def cifar10(request) -> Published:
    """CIFAR-10, DenseNet-40: 5,000 validation images."""
    return Published(request.param, Logits.load(published_files()[request.param]), SETS[request.param])
