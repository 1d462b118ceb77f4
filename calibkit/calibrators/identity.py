"""No calibration: the softmax of the logits."""

from __future__ import annotations

from torch import Tensor

from calibkit.fitting.base import Calibrator


class Identity(Calibrator):
    r"""The uncalibrated network, :math:`p = \operatorname{softmax}(z)`, as a baseline in the same harness.

    ``fit`` checks its input and learns nothing.

    Raises:
        ValueError: bad ``logits`` or ``labels``.
        RuntimeError: called before ``fit``.

    Example:
        >>> import numpy as np
        >>> z = np.array([[0.0, 0.0], [1.0, 0.0]])
        >>> Identity().fit(z, np.array([0, 0]))(z).round(3).tolist()
        [[0.5, 0.5], [0.731, 0.269]]
    """

    keeps_predictions = True

    def _fit(self, logits: Tensor, labels: Tensor) -> None:
        pass

    def _probs(self, logits: Tensor) -> Tensor:
        return logits.softmax(1)
