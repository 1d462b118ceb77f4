"""Metrics: ``f(probs, labels, *, n_bins=15, ...) -> float``; errors and accuracies are fractions, NLL and entropy nats.

``probs`` are (N, K) probabilities, numpy or torch, whose rows sum to 1, ``labels`` (N,) integers in [0, K). ValueError
tells of others, of ``n_bins`` < 1, and of an option that is unknown or out of its range. A :class:`Sample` is checked
predictions, which a metric takes in the place of ``probs``, with ``labels=None``.

``METRICS`` has a record of each, a ``Metric``; ``evaluate`` computes all in one pass, ``bootstrap`` gives intervals,
``calibration_test`` says whether a network is calibrated and what would have been seen, ``detectable`` what a test set
can decide, ``reliability_bins`` the numbers of a diagram, ``risk_coverage`` those of selective prediction,
``variational_ece`` a lower bound, ``score_parts`` what of a proper score is calibration, ``mean_iou`` the mIoU of dense
prediction. ``calibkit.metrics.streaming`` has the metrics that can be summed over batches, and ``Monitor`` sums by day
what a deployed network does.
"""

from calibkit.metrics.binning import ReliabilityBins, reliability_bins
from calibkit.metrics.calibrated import CalibrationTest, calibration_by_group, calibration_test
from calibkit.metrics.calibration import adaptive_ece, ece, mce
from calibkit.metrics.classwise import ace, classwise_ece, tace
from calibkit.metrics.ece_alternatives import debiased_ece, ks_error, smooth_ece
from calibkit.metrics.monitor import Monitor
from calibkit.metrics.power import detectable
from calibkit.metrics.proper import accuracy, brier, entropy, mean_iou, nll
from calibkit.metrics.registry import METRICS, REPORTED, evaluate
from calibkit.metrics.resampling import bootstrap, bootstrap_difference, bootstrap_values
from calibkit.metrics.sample import Metric, Sample
from calibkit.metrics.selective import aurc, excess_aurc, risk_coverage
from calibkit.metrics.variational import (
    ScoreParts,
    TopLabelError,
    score_parts,
    variational_calibration_error,
    variational_ece,
)

__all__ = [
    "CalibrationTest", "METRICS", "Metric", "Monitor", "REPORTED", "ReliabilityBins", "Sample", "ScoreParts",
    "TopLabelError", "accuracy", "ace", "adaptive_ece", "aurc", "bootstrap", "bootstrap_difference",
    "bootstrap_values", "brier", "calibration_by_group", "calibration_test", "classwise_ece", "debiased_ece",
    "detectable", "ece", "entropy", "evaluate", "excess_aurc", "ks_error", "mce", "mean_iou", "nll",
    "reliability_bins", "risk_coverage", "score_parts", "smooth_ece", "tace", "variational_calibration_error",
    "variational_ece",
]  # fmt: skip
