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
from calibkit.calibrators.dir_odir import DirODIR
from calibkit.calibrators.ets import ETS
from calibkit.calibrators.histogram_binning import HistogramBinning
from calibkit.calibrators.identity import Identity
from calibkit.calibrators.isotonic import Isotonic
from calibkit.calibrators.matrix_scaling import MatrixScaling
from calibkit.calibrators.ms_odir import MSODIR
from calibkit.calibrators.neural_clamping import NeuralClamping
from calibkit.calibrators.pts import PTS
from calibkit.calibrators.spline import Spline
from calibkit.calibrators.temperature_scaling import TemperatureScaling
from calibkit.calibrators.vector_scaling import VectorScaling

CALIBRATORS = {
    "identity": Identity,
    "temperature_scaling": TemperatureScaling,
    "vector_scaling": VectorScaling,
    "matrix_scaling": MatrixScaling,
    "ms_odir": MSODIR,
    "dir_odir": DirODIR,
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
    "MSODIR",
    "PTS",
    "Calibrator",
    "ClassTemperatureScaling",
    "DirODIR",
    "HistogramBinning",
    "Identity",
    "Isotonic",
    "MatrixScaling",
    "NeuralClamping",
    "Spline",
    "TemperatureScaling",
    "VectorScaling",
    "load",
]
