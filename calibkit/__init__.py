"""calibkit: calibration of neural-network classifiers.

>>> import numpy as np
>>> from calibkit import TemperatureScaling, ece
>>> logits, labels = np.array([[2.0, 0.0]] * 4), np.array([0, 0, 0, 1])
>>> calibrator = TemperatureScaling().fit(logits, labels)
>>> calibrator
TemperatureScaling(temperature=1.82)
>>> round(abs(ece(calibrator(logits), labels)), 6)
0.0

This page is the table of contents: a name is imported when it is first used, so ``import calibkit`` costs nothing.
Type checkers read ``__init__.pyi``.
"""

from __future__ import annotations

from importlib import import_module

__version__ = "0.1.0"

_MODULES = ("data", "losses", "metrics", "models", "networks", "objectives", "plots", "training")
_NAMES = {
    "calibkit.calibrators": (
        "CALIBRATORS ETS MSODIR PTS Calibrator ClassTemperatureScaling DirODIR HistogramBinning Identity Isotonic "
        "MatrixScaling NeuralClamping Spline StructuredMatrixScaling StructuredVectorScaling TemperatureScaling "
        "VectorScaling calibrator load_calibrator"
    ),
    "calibkit.conformal": "ConformalSets",
    "calibkit.data": "DATASETS",
    "calibkit.deploy": "CalibratedModel",
    "calibkit.estimators": "CalibratedClassifier LogitCalibrator",
    "calibkit.logits": "Logits",
    "calibkit.losses": "LOSSES loss",
    "calibkit.metrics": (
        "METRICS Monitor accuracy ace adaptive_ece aurc bootstrap bootstrap_difference brier classwise_ece "
        "debiased_ece ece entropy evaluate ks_error mce nll reliability_bins risk_coverage smooth_ece tace "
        "variational_calibration_error variational_ece"
    ),
    "calibkit.metrics.comparison": "Comparison Estimate",
    "calibkit.models": "MODELS",
    "calibkit.networks": "Network",
    "calibkit.objectives": "OBJECTIVES",
    "calibkit.reading": "read",
    "calibkit.reporting": "Report report",
    "calibkit.training": "RECIPES",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}
_OF_EXTRAS = ("CalibratedClassifier", "LogitCalibrator", "plots")
#: What ``from calibkit import *`` takes: all but what needs an extra.
__all__ = [name for name in ("__version__", *_MODULES, *_HOME) if name not in _OF_EXTRAS]


def __getattr__(name: str) -> object:
    """Import what is asked for, once."""
    if name in _MODULES:
        return import_module(f"calibkit.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'calibkit' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME[name]), name)
    return value


def __dir__() -> list[str]:
    return ["__version__", *_MODULES, *_HOME]
