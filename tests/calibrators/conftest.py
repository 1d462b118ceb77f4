"""Logits that Jung et al. 2023 published or used, with what public code made of them."""

import json
from pathlib import Path
from typing import NamedTuple

import pytest

from calibkit.logits import Logits, external, load

#: See "source" in the file.
SETS = json.loads((Path(__file__).resolve().parents[1] / "data" / "posthoc_oracle.json").read_text())["sets"]


class Published(NamedTuple):
    name: str
    logits: Logits
    oracle: dict


def published_logits(name: str) -> Published:
    if name not in external():
        pytest.skip(f"no logits/{name}.npz under $CALIBKIT_DATA")
    return Published(name, load(external()[name]), SETS[name])


@pytest.fixture(params=SETS)
def published(request) -> Published:
    """Each of the three sets."""
    return published_logits(request.param)


@pytest.fixture
def cifar10() -> Published:
    """CIFAR-10, DenseNet-40: 5,000 validation images."""
    return published_logits("sctl-cifar10-densenet40")
