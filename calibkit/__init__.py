"""calibkit: calibration of neural-network classifiers.

>>> import numpy as np
>>> from calibkit import TemperatureScaling, ece
>>> z_val, y_val = np.array([[2.0, 0.0]] * 4), np.array([0, 0, 0, 1])
>>> z_test, y_test = np.array([[2.0, 0.0]] * 5), np.array([0, 0, 0, 0, 1])
>>> calibrator = TemperatureScaling().fit(z_val, y_val)
>>> calibrator
TemperatureScaling(temperature=1.82)
>>> round(ece(calibrator(z_test), y_test), 6)  # on samples that it was not fitted to
0.05

The table of contents is ``__init__.pyi``, for Python as for type checkers: a name is imported when it is first used, so
``import calibkit`` costs nothing.
"""

from __future__ import annotations

import re
from importlib import import_module
from pkgutil import get_data

__version__ = "0.1.0"

_OF_EXTRAS = ("CalibratedClassifier", "LogitCalibrator", "estimators", "plots")
#: Name -> the module that it comes from; a module of the package itself comes from "calibkit".
_HOME = {
    name: home
    for home, name in re.findall(r"from ([\w.]+) import (\w+)", (get_data(__name__, "__init__.pyi") or b"").decode())
}
#: What ``from calibkit import *`` takes: all but what needs an extra.
__all__ = [name for name in ("__version__", *_HOME) if name not in _OF_EXTRAS]


def __getattr__(name: str) -> object:
    """Import what is asked for, once."""
    if name not in _HOME:
        raise AttributeError(f"module 'calibkit' has no attribute {name!r}")
    home = _HOME[name]
    if home == "calibkit":
        return import_module(f"calibkit.{name}")
    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return ["__version__", *_HOME]
