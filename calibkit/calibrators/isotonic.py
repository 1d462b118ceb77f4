"""Isotonic regression: a rising step function from the probability of a class to its frequency."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from calibkit._arrays import row_blocks
from calibkit._extras import needs
from calibkit.fitting.base import Calibrator, as_vector
from calibkit.fitting.interpolate import interpolate, normalize


class Isotonic(Calibrator):
    r"""Isotonic regression, one class against the rest, then normalised.

    For each class k the non-decreasing function f with the least :math:`\sum_i (f(p_{ik}) - 1[y_i = k])^2`, found by
    scikit-learn's ``IsotonicRegression``: constant on blocks of held-out samples, linear between them, constant
    outside. The K values of a row are divided by their sum. The argmax may change: recompute the accuracy.

    Attributes:
        nodes: (K, M) float64, probabilities between which f is linear; M is the largest number that a class needs,
            and the others repeat their last one.
        values: (K, M) float64 in [0, 1], f at the nodes.

    Raises:
        ValueError: bad input.
        ImportError: ``fit`` without scikit-learn (``pip install ".[sklearn]"``).

    Paper: Zadrozny and Elkan 2002, "Transforming classifier scores into accurate multiclass probability estimates";
    for networks Guo et al. 2017, section 4.1, and Kull et al. 2019.
    Differs from the paper: a row whose K values are all 0 keeps its softmax. f may be exactly 0, so the NLL of a new
    sample may be infinite.

    Example:
        >>> z = np.log([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.2, 0.8]])
        >>> isotonic = Isotonic().fit(z, np.array([0, 1, 0, 1]))
        >>> isotonic(np.log([[0.75, 0.25], [0.45, 0.55], [0.95, 0.05]])).round(6).tolist()
        [[0.5, 0.5], [0.25, 0.75], [1.0, 0.0]]
    """

    state, fractions, looks_up = ("nodes", "values"), ("nodes", "values"), True
    shapes = {"nodes": ("K", "nodes"), "values": ("K", "nodes")}

    def _fit(self, logits: Tensor, labels: Tensor) -> None:
        with needs("sklearn"):
            from sklearn.isotonic import IsotonicRegression
        totals = torch.empty(len(logits), dtype=torch.float64, device=logits.device)
        for rows in row_blocks(logits):
            totals[rows] = logits[rows].double().logsumexp(1)
        y, fits = labels.cpu().numpy(), []
        for k in range(logits.shape[1]):
            column = (logits[:, k].double() - totals).exp_().cpu().numpy()
            fits.append(IsotonicRegression(y_min=0.0, y_max=1.0).fit(column, y == k))
        parts = [fit.X_thresholds_ for fit in fits], [fit.y_thresholds_ for fit in fits]
        size = max(map(len, parts[0]))
        self.nodes, self.values = (np.stack([np.pad(a, (0, size - len(a)), "edge") for a in part]) for part in parts)

    def _probs(self, logits: Tensor) -> Tensor:
        probs = (logits - logits.logsumexp(1, keepdim=True)).exp_()
        scores = interpolate(probs.T, as_vector(self.nodes, probs), as_vector(self.values, probs)).T
        return normalize(scores, probs)
