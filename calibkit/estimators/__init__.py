"""scikit-learn estimators: every calibrator on logits inside ``clone``, ``Pipeline`` and ``GridSearchCV``.

``LogitCalibrator`` takes logits as its features; ``CalibratedClassifier`` takes what a classifier takes, and wraps one.
"""

from calibkit.estimators.calibrated_classifier import CalibratedClassifier
from calibkit.estimators.logit_calibrator import LogitCalibrator

__all__ = ["CalibratedClassifier", "LogitCalibrator"]
