"""calibkit: calibration of neural-network classifiers."""

__version__ = "0.1.0"
