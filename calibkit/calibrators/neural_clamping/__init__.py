"""Neural Clamping: the one calibrator that looks into the network, and so takes more than a file."""

from calibkit.calibrators.neural_clamping.neural_clamping import NeuralClamping
from calibkit.calibrators.neural_clamping.theorem import entropy_gradient, theorem_delta

__all__ = ["NeuralClamping", "entropy_gradient", "theorem_delta"]
