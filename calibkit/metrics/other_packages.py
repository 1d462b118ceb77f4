"""The binning rules of other packages, for ``ece(..., like=...)`` and ``adaptive_ece(..., like=...)``.

A rule takes the confidences (N,) and the number of bins, and gives the key that is binned (N,), lower and upper edges
(B,), and the closed side. What is in no bin is left out, what is in two counts twice, as in the package. Their sums
run in float32 or float64; ours in float64, so values agree to about 1e-6. Not reproduced: probmetrics rounds by taking
logarithms first, and netcal counts float32 values in float64 bins but averages them in float32 bins; both show only
where a confidence is on an edge.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from calibkit.metrics.sample import Sample

Rule = Callable[[Tensor, int], tuple[Tensor, Tensor, Tensor, str]]
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


def _linspace(n: int) -> Tensor:
    return torch.from_numpy(np.linspace(0.0, 1.0, n))


def _bins(key: Tensor, inner: Tensor, closed: str) -> tuple[Tensor, Tensor, Tensor, str]:
    """Bins between the inner edges, open to both ends."""
    ends = inner.new_full((1,), inf)
    return key, torch.cat([-ends, inner]), torch.cat([inner, ends]), closed


def torchmetrics(confidence: Tensor, n_bins: int) -> tuple[Tensor, Tensor, Tensor, str]:
    """[a, b) in float32, float64 input included; 1.0 has a bin of its own."""
    return _bins(confidence.float(), torch.linspace(0, 1, n_bins + 1, dtype=torch.float32)[1:], "left")


def netcal(confidence: Tensor, n_bins: int) -> tuple[Tensor, Tensor, Tensor, str]:
    """[a, b) with float64 edges; confidences are clipped to [eps, 1 - eps]."""
    eps = torch.finfo(confidence.dtype).eps
    return _bins(confidence.clamp(eps, 1.0 - eps).double(), _linspace(n_bins + 1)[1:-1], "left")


def relplot(confidence: Tensor, n_bins: int) -> tuple[Tensor, Tensor, Tensor, str]:
    """int(confidence / (1 / n_bins)), so 1.0 has a bin of its own."""
    return _bins((confidence / (1.0 / n_bins)).double(), torch.arange(1.0, n_bins + 1, dtype=torch.float64), "left")


def uncertainty_calibration(confidence: Tensor, n_bins: int) -> tuple[Tensor, Tensor, Tensor, str]:
    """(a, b] with edges k / n_bins in float64, also for float32 confidences."""
    return _bins(confidence.double(), torch.arange(1, n_bins, dtype=torch.float64) / n_bins, "right")


def calzone(confidence: Tensor, n_bins: int) -> tuple[Tensor, Tensor, Tensor, str]:
    """(a, b] with float64 linspace edges, also for float32 confidences."""
    return _bins(confidence.double(), _linspace(n_bins + 1)[1:-1], "right")


def pycalib(confidence: Tensor, n_bins: int) -> tuple[Tensor, Tensor, Tensor, str]:
    """(a, b] with upper edges arange(w, 1 + w, w) and lower edges upper - w, which leave gaps between bins."""
    width = 1.0 / n_bins
    upper = torch.from_numpy(np.arange(width, 1.0 + width, width))
    return confidence.double(), torch.where(upper == width, -inf, upper - width), upper, "right"


def mapie(confidence: Tensor, n_bins: int) -> tuple[Tensor, Tensor, Tensor, str]:
    """(a, b] with edges linspace(0, 1, n_bins), so one bin fewer."""
    return _bins(confidence.double(), _linspace(n_bins)[:-1], "right")


def focal_calibration(confidence: Tensor, n_bins: int) -> tuple[Tensor, Tensor, Tensor, str]:
    """(a, b] between values interpolated at N / n_bins ranks; the smallest confidence and its ties are in no bin."""
    ordered = np.sort(confidence.double().cpu().numpy())
    edges = torch.from_numpy(np.interp(np.linspace(0, len(ordered), n_bins + 1), np.arange(len(ordered)), ordered))
    return confidence.double(), edges[:-1], edges[1:], "right"


def torch_uncertainty(confidence: Tensor, n_bins: int) -> tuple[Tensor, Tensor, Tensor, str]:
    """Even parts of the sorted rows, so ties are split in row order."""
    ranks = confidence.argsort(stable=True).argsort().double()
    sizes = [len(part) for part in torch.arange(len(ranks)).tensor_split(n_bins)]
    return _bins(ranks, torch.tensor(sizes, dtype=torch.float64).cumsum(0)[:-1], "left")


def netcal_mass(confidence: Tensor, n_bins: int) -> tuple[Tensor, Tensor, Tensor, str]:
    """[a, b) between quantiles of the clipped confidences; netcal itself refuses equal quantiles."""
    key = netcal(confidence, n_bins)[0]
    return _bins(key, torch.from_numpy(np.quantile(key.cpu().numpy(), np.linspace(0, 1, n_bins + 1)[1:-1])), "left")


def uncertainty_calibration_mass(confidence: Tensor, n_bins: int) -> tuple[Tensor, Tensor, Tensor, str]:
    """(a, b] between midpoints of the neighbours at each cut of the sorted confidences."""
    parts = confidence.sort().values.tensor_split(min(n_bins, len(confidence)))
    middles = [(left[-1:] + right[:1]) / 2.0 for left, right in zip(parts[:-1], parts[1:], strict=True)]
    return _bins(confidence.double(), torch.cat([*middles, confidence[:0]]).double().unique(), "right")


def mapie_mass(confidence: Tensor, n_bins: int) -> tuple[Tensor, Tensor, Tensor, str]:
    """(a, b] between n_bins quantiles, minimum included, so one bin fewer and one for the minimum."""
    values = confidence.double().cpu().numpy()
    return _bins(confidence.double(), torch.from_numpy(np.quantile(values, np.linspace(0, 1, n_bins))), "right")


WIDTH_RULES: dict[WidthRule, Rule] = {
    "torchmetrics": torchmetrics,
    "torch-uncertainty": torchmetrics,
    "probmetrics": torchmetrics,
    "netcal": netcal,
    "relplot": relplot,
    "uncertainty-calibration": uncertainty_calibration,
    "calzone": calzone,
    "pycalib": pycalib,
    "mapie": mapie,
}
MASS_RULES: dict[MassRule, Rule] = {
    "focal_calibration": focal_calibration,
    "torch-uncertainty": torch_uncertainty,
    "netcal": netcal_mass,
    "uncertainty-calibration": uncertainty_calibration_mass,
    "mapie": mapie_mass,
}
