"""What ``pip install .`` leaves out: how an import that misses it says so, and torchvision beside another torch."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.machinery import PathFinder

import torch


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Around the imports of an extra of ``pyproject.toml``: where one is absent, ModuleNotFoundError says the cure."""
    try:
        yield
    except ModuleNotFoundError as error:
        text = f"{error.name} is not installed, and this needs it: in the checkout, pip install '.[{extra}]'"
        raise ModuleNotFoundError(text, name=error.name) from error


@cache
def ensure_torchvision_importable() -> torch.library.Library | None:
    """Declare torchvision's ``nms`` operators unless its own library loads; without torchvision, do nothing.

    A torchvision built for CUDA does not load its operators beside a CPU build of torch. Then it cannot be imported,
    nor can torchmetrics, which imports it, although data sets, transforms and models need no such operator. The two
    that it registers at import are enough. Call this before importing either.
    """
    spec = importlib.util.find_spec("torchvision")
    if spec is None or spec.submodule_search_locations is None:
        return None
    compiled = PathFinder.find_spec("_C", list(spec.submodule_search_locations))
    if compiled is not None:
        with suppress(OSError):
            torch.ops.load_library(compiled.origin)
            return None
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return library
