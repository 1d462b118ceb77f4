"""Metrics: ``f(probs, labels) -> float``, fractions; ``METRICS`` names them."""

from calibkit.metrics.binning import ReliabilityBins, bin_edges, reliability_bins, width_bins
from calibkit.metrics.calibration import classwise_ece, ece
from calibkit.metrics.proper import accuracy, nll

METRICS = {"accuracy": accuracy, "nll": nll, "ece": ece, "classwise_ece": classwise_ece}

__all__ = [
    "METRICS",
    "ReliabilityBins",
    "accuracy",
    "bin_edges",
    "classwise_ece",
    "ece",
    "nll",
    "reliability_bins",
    "width_bins",
]
