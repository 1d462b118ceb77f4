"""Post-hoc calibrators: ``fit`` on held-out logits and labels, call on logits, get probabilities.

>>> import numpy as np
>>> from calibkit.calibrators import CALIBRATORS
>>> z, y = np.array([[2.0, 0.0]] * 4), np.array([0, 0, 0, 1])
>>> CALIBRATORS["temperature_scaling"](objective="nll").fit(z, y)(z)[0].round(3).tolist()
[0.75, 0.25]
"""

from __future__ import annotations

from calibkit.calibrators._base import Calibrator, load
from calibkit.calibrators.class_temperature_scaling import ClassTemperatureScaling
from calibkit.calibrators.ets import ETS
from calibkit.calibrators.histogram_binning import HistogramBinning
from calibkit.calibrators.identity import Identity
from calibkit.calibrators.isotonic import Isotonic
from calibkit.calibrators.neural_clamping import NeuralClamping
from calibkit.calibrators.pts import PTS
from calibkit.calibrators.spline import Spline
from calibkit.calibrators.temperature_scaling import TemperatureScaling

CALIBRATORS = {
    "identity": Identity,
    "temperature_scaling": TemperatureScaling,
    "cts": ClassTemperatureScaling,
    "ets": ETS,
    "pts": PTS,
    "spline": Spline,
    "histogram_binning": HistogramBinning,
    "isotonic": Isotonic,
    "neural_clamping": NeuralClamping,  # takes (model, images) in place of logits
}

__all__ = [
    "CALIBRATORS",
    "ETS",
    "PTS",
    "Calibrator",
    "ClassTemperatureScaling",
    "HistogramBinning",
    "Identity",
    "Isotonic",
    "NeuralClamping",
    "Spline",
    "TemperatureScaling",
    "load",
]
