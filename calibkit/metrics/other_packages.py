"""The binning rules of other packages, for ``ece(..., like=...)`` and ``adaptive_ece(..., like=...)``.

A rule takes the confidences c (N,) and the number of bins n, and gives the key that is binned (N,), lower and upper
edges (B,), and the closed side. What is in no bin is left out, what is in two counts twice, as in the package. Their
sums run in float32 or float64; ours in float64, so values agree to about 1e-6. Not reproduced: probmetrics rounds by
taking logarithms first, and netcal counts float32 values in float64 bins but averages them in float32 bins; both show
only where a confidence is on an edge.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from calibkit.metrics.sample import Sample

Bins = tuple[Tensor, Tensor, Tensor, Literal["left", "right"]]
Rule = Callable[[Tensor, int], Bins]
#: The keys of ``WIDTH_RULES`` and ``MASS_RULES``.
WidthRule = Literal[
    "torchmetrics", "torch-uncertainty", "probmetrics", "netcal", "relplot", "uncertainty-calibration", "calzone",
    "pycalib", "mapie",
]  # fmt: skip
MassRule = Literal["focal_calibration", "torch-uncertainty", "netcal", "uncertainty-calibration", "mapie"]


def error_like(sample: Sample, n_bins: int, rule: Rule) -> float:
    """ECE of the top label in the bins of ``rule``."""
    key, lower, upper, closed = rule(sample.confidence, n_bins)
    error = 0.0
    for low, high in zip(lower.to(key.device), upper.to(key.device), strict=True):
        inside = (key >= low) & (key < high) if closed == "left" else (key > low) & (key <= high)
        error += sample.gap[inside].sum().abs().item()
    return error / len(sample)


def _left(key: Tensor, inner: Tensor | np.ndarray) -> Bins:
    """[a, b) between the inner edges, open to both ends."""
    inner = torch.as_tensor(inner, device="cpu")
    ends = inner.new_full((1,), inf)
    return key, torch.cat([-ends, inner]), torch.cat([inner, ends]), "left"


def _right(key: Tensor, inner: Tensor | np.ndarray) -> Bins:
    """(a, b] in float64."""
    return *_left(key.double(), inner)[:3], "right"


def _clipped(c: Tensor) -> Tensor:
    eps = torch.finfo(c.dtype).eps
    return c.clamp(eps, 1.0 - eps).double()


def _in_float32(c: Tensor, n: int) -> Bins:
    """Float64 input included; 1.0 has a bin of its own."""
    return _left(c.float(), torch.linspace(0, 1, n + 1, dtype=torch.float32, device="cpu")[1:])


def _pycalib(c: Tensor, n: int) -> Bins:
    """Lower edges are upper - width, which leaves gaps between bins."""
    upper = torch.from_numpy(np.arange(1.0 / n, 1.0 + 1.0 / n, 1.0 / n))
    return c.double(), torch.where(upper == 1.0 / n, -inf, upper - 1.0 / n), upper, "right"


def _focal_calibration(c: Tensor, n: int) -> Bins:
    """Between values interpolated at N / n ranks; the smallest confidence and its ties are in no bin."""
    ordered = np.sort(c.double().cpu().numpy())
    edges = torch.from_numpy(np.interp(np.linspace(0, len(ordered), n + 1), np.arange(len(ordered)), ordered))
    return c.double(), edges[:-1], edges[1:], "right"


def _even_ranks(c: Tensor, n: int) -> Bins:
    """Even parts of the sorted rows, so ties are split in row order."""
    ranks = c.argsort(stable=True).argsort().double()
    return _left(ranks, np.cumsum([len(part) for part in np.array_split(np.arange(len(c)), n)], dtype=float)[:-1])


def _midpoints(c: Tensor, n: int) -> Bins:
    """Between the midpoints of the neighbours at each cut of the sorted confidences."""
    parts = c.sort().values.tensor_split(min(n, len(c)))
    middles = [(left[-1:] + right[:1]) / 2.0 for left, right in zip(parts[:-1], parts[1:], strict=True)]
    return _right(c, torch.cat([*middles, c[:0]]).double().unique().cpu())


def _quantiles(c: Tensor, n: int) -> np.ndarray:
    return np.quantile(c.double().cpu().numpy(), np.linspace(0, 1, n))


WIDTH_RULES: dict[WidthRule, Rule] = {
    "torchmetrics": _in_float32,
    "torch-uncertainty": _in_float32,
    "probmetrics": _in_float32,
    "netcal": lambda c, n: _left(_clipped(c), np.linspace(0, 1, n + 1)[1:-1]),
    "relplot": lambda c, n: _left((c / (1.0 / n)).double(), np.arange(1.0, n + 1)),  # 1.0 has a bin of its own
    "uncertainty-calibration": lambda c, n: _right(c, np.arange(1, n) / n),
    "calzone": lambda c, n: _right(c, np.linspace(0, 1, n + 1)[1:-1]),
    "pycalib": _pycalib,
    "mapie": lambda c, n: _right(c, np.linspace(0, 1, n)[:-1]),  # one bin fewer
}
MASS_RULES: dict[MassRule, Rule] = {
    "focal_calibration": _focal_calibration,
    "torch-uncertainty": _even_ranks,
    "netcal": lambda c, n: _left(_clipped(c), _quantiles(_clipped(c), n + 1)[1:-1]),  # itself refuses equal quantiles
    "uncertainty-calibration": _midpoints,
    "mapie": lambda c, n: _right(c, _quantiles(c, n)),  # one bin fewer, and one for the minimum
}
