"""Post-hoc calibrators: ``fit`` on held-out logits and labels, call on logits, get probabilities.

>>> import numpy as np
>>> from calibkit import calibrator
>>> z_val, y_val, z_test = np.array([[2.0, 0.0]] * 4), np.array([0, 0, 0, 1]), np.array([[2.0, 0.0], [0.0, 4.0]])
>>> calibrator("temperature_scaling").fit(z_val, y_val)(z_test).round(3).tolist()
[[0.75, 0.25], [0.1, 0.9]]
"""

from __future__ import annotations

import os

from calibkit._checks import expected
from calibkit.calibrators.class_temperature_scaling import ClassTemperatureScaling
from calibkit.calibrators.dir_odir import DirODIR
from calibkit.calibrators.ets import ETS
from calibkit.calibrators.gp_calibration import GPCalibration
from calibkit.calibrators.histogram_binning import HistogramBinning
from calibkit.calibrators.identity import Identity
from calibkit.calibrators.isotonic import Isotonic
from calibkit.calibrators.matrix_scaling import MatrixScaling
from calibkit.calibrators.ms_odir import MSODIR
from calibkit.calibrators.neural_clamping import NeuralClamping
from calibkit.calibrators.order_preserving import OrderPreserving
from calibkit.calibrators.prior_correction import PriorCorrection
from calibkit.calibrators.pts import PTS
from calibkit.calibrators.spline import Spline
from calibkit.calibrators.structured_matrix_scaling import StructuredMatrixScaling
from calibkit.calibrators.structured_vector_scaling import StructuredVectorScaling
from calibkit.calibrators.temperature_scaling import TemperatureScaling
from calibkit.calibrators.vector_scaling import VectorScaling
from calibkit.fitting import file_header
from calibkit.fitting.base import Calibrator, Fitted
from calibkit.fitting.own import as_calibrator
from calibkit.fitting.sigmoid import Sigmoid
from calibkit.keys import Key, find, installed, make
from calibkit.objectives import OBJECTIVES

CALIBRATORS = {
    "identity": Identity,
    "temperature_scaling": TemperatureScaling,
    "vector_scaling": VectorScaling,
    "matrix_scaling": MatrixScaling,
    "ms_odir": MSODIR,
    "dir_odir": DirODIR,
    "structured_vector_scaling": StructuredVectorScaling,
    "structured_matrix_scaling": StructuredMatrixScaling,
    "class_temperature_scaling": ClassTemperatureScaling,
    "ets": ETS,
    "pts": PTS,
    "order_preserving": OrderPreserving,
    "gp_calibration": GPCalibration,
    "prior_correction": PriorCorrection,
    "spline": Spline,
    "histogram_binning": HistogramBinning,
    "isotonic": Isotonic,
    "neural_clamping": NeuralClamping,  # takes (model, images) in place of logits
}


def calibrator(key: str | Key, **options: object) -> Calibrator:
    """The unfitted calibrator of a key, such as ``"ets"``, ``"ets:focal"`` or ``"temperature_scaling solver=sctl"``.

    A key may also name a class of one's own, ``"mine.py:Mine bins=5"``, whose file is executed, or an entry point of
    the group ``calibkit.calibrators``. It is a subclass of :class:`Calibrator`, or has ``fit(logits, labels)`` and
    ``transform(logits)``, which get and give numpy. ``"neural_clamping"`` alone is no :class:`Calibrator`: its ``fit``
    and its call take the network and its inputs.

    ``options`` are more of them, also ``objective``. ValueError tells of no such calibrator or objective, of an option
    that it does not have, and of one that is given twice.

    Example:
        >>> calibrator("ets:class_loss_scaling normalization=cm").objective.normalization
        'cm'
        >>> calibrator("temperature_scaling:ece")
        TemperatureScaling(objective='ece')
        >>> calibrator("histogram_binning", n_bins=20).n_bins
        20
    """
    key = key if isinstance(key, Key) else Key.parse(key)
    options = key.options_and(options)
    if key.objective is not None:
        if "objective" in options:
            raise expected("objective", "given once", f"{options['objective']} and {key.objective}")
        objective = key.objective.build(OBJECTIVES, "objective")
        options["objective"] = objective if key.objective.options else key.objective.name
    return make(as_calibrator(find(key.name, CALIBRATORS, "calibrator")), "calibrator", options)


def load_calibrator(path: str | os.PathLike, own: str | None = None) -> Calibrator:
    """The calibrator that ``save`` wrote to ``path``: of ``CALIBRATORS``, an entry point, or ``method="sigmoid"``.

    Args:
        path: the file. No code that it names is executed.
        own: where a class of one's own wrote it, ``PATH.py:CLASS``; that file is executed.

    Raises:
        ValueError: another file, also that of a class of one's own without ``own``.
        FileNotFoundError: no such file.
    """
    of_own = None if own is None else find(own, {}, "calibrator")
    with file_header.reading(path, "Calibrator"):
        header = file_header.read_header(path)
        name = header["class"]
        known = CALIBRATORS | {"sigmoid": Sigmoid}  # which the estimators fit
        cls = of_own or known.get(header["calibrator"]) or installed("calibrator", header["calibrator"], name)
        if cls is None or name != cls.__name__:
            cure = f"{name}.load, of a Calibrator, or load_calibrator with `own` (--own), its PATH.py:CLASS, reads it"
            raise ValueError(f"that of {name}, which is none of CALIBRATORS; {cure}")
        return as_calibrator(cls).of_file(path, header)


def on_logits() -> dict[str, type[Fitted]]:
    """The entries of ``CALIBRATORS`` that a fit on logits gives: all but what takes the network itself."""
    return {name: cls for name, cls in CALIBRATORS.items() if issubclass(cls, Calibrator)}


__all__ = [
    "CALIBRATORS", "ETS", "MSODIR", "PTS", "Calibrator", "ClassTemperatureScaling", "DirODIR", "GPCalibration",
    "HistogramBinning", "Identity", "Isotonic", "MatrixScaling", "NeuralClamping", "OrderPreserving", "PriorCorrection",
    "Spline", "StructuredMatrixScaling", "StructuredVectorScaling", "TemperatureScaling", "VectorScaling", "calibrator",
    "load_calibrator", "on_logits",
]  # fmt: skip
