"""Make torchvision importable where its compiled operators do not fit the installed torch.

A torchvision built for CUDA does not load its operators beside a CPU build of torch, and then ``import torchvision``
(and everything that imports it, torchmetrics too) fails although data sets, transforms and models need none of them.
Declaring the two operators that torchvision registers at import is enough. Call this before importing either.
"""

from __future__ import annotations

import importlib.util
from importlib.machinery import PathFinder

import torch

_LIBRARIES: list[torch.library.Library] = []


def ensure_importable() -> None:
    """Declare torchvision's ``nms`` operators unless its own library loads; without torchvision, do nothing."""
    spec = importlib.util.find_spec("torchvision")
    if spec is None or _LIBRARIES:
        return
    compiled = PathFinder.find_spec("_C", list(spec.submodule_search_locations))
    if compiled is not None:
        try:
            torch.ops.load_library(compiled.origin)
            return
        except OSError:
            pass
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _LIBRARIES.append(library)
