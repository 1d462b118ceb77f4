"""Names as parameters of a test, each marked with what it reads below $CALIBKIT_DATA."""

from collections.abc import Iterable

import pytest


def with_data(names: Iterable[str], path: str = "{}") -> list:
    """Names of data sets, or parts of the paths of files."""
    return [pytest.param(name, marks=pytest.mark.data(path.format(name))) for name in names]


def with_logits(names: Iterable[str]) -> list:
    """Names of published logits."""
    return with_data(names, "logits/{}.npz")
