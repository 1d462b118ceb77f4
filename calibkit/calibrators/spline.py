"""Spline calibration: the confidence is corrected by the slope of a smooth fit to the cumulative error."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from calibkit._arrays import row_blocks
from calibkit._checks import check_count
from calibkit.fitting.base import Calibrator, as_vector
from calibkit.fitting.interpolate import interpolate

MOST_KNOTS = 1000  # whose basis is a matrix of as many rows and columns
SLACK = 1e-6  # by how much the predicted class stays ahead, relative; half of it where others are levelled


class Spline(Calibrator):
    r"""Spline calibration of the top label, without bins.

    Sort the held-out samples by confidence :math:`s_1 \le \dots \le s_N` and put :math:`t_i = (i - 1) / (N - 1)`. The
    cumulative error :math:`h(t_i) = \frac1N \sum_{j \le i} (c_j - s_j)`, with :math:`c_j` 1 for a right prediction, is
    the quantity whose largest absolute value is the Kolmogorov-Smirnov error. Its slope is accuracy minus confidence
    at that rank, so a least-squares natural cubic spline through h gives the calibrated confidence

    .. math:: r(s_i) = s_i + h'(t_i),

    linear between the samples, clipped to [1/K, 1]. Samples of equal confidence share their mean of c, and get the mean
    of r, so that their order does not matter.

    The predicted class gets r(s); the others share the rest in proportion to their probabilities, levelled as far as it
    takes for none to overtake. So the argmax and the accuracy stay. Only the top label is calibrated.
    At r = 1 the others have 0, so the NLL may be infinite, even on the samples of the fit.

    Args:
        n_knots: equally spaced knots of the spline, 3 to 1,000; 6 as in the paper.

    Attributes:
        knot_values: (n_knots,) float64, the fitted h at the knots.
        scores: (N,) float64 sorted confidences of the held-out samples.
        calibrated: (N,) float64 r of them, before clipping.

    Paper: Gupta, Rahimi, Ajanthan, Mensink, Sminchisescu and Hartley 2021, "Calibration of Neural Networks using
    Splines", ICLR, sections 3 and 4.
    Differs from the paper: it says nothing of the other classes. In its public code the two neighbours of a new score
    get each other's weight in the interpolation: on six sets of logits of Jung et al. 2023 that moves a confidence by
    0.0001 to 0.0002 in the mean, and by up to 0.055. It clips to [0, 1].

    Raises:
        ValueError: bad input, ``n_knots`` < 3 or > 1,000.
        RuntimeError: called before ``fit``.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> confidence = rng.uniform(0.5, 1.0, 4000)
        >>> right = rng.random(4000) < confidence**2                          # the truth is the square of what it says
        >>> z = np.stack([np.log(confidence), np.log(1 - confidence)], 1)
        >>> spline = Spline().fit(z, np.where(right, 0, 1))
        >>> bool(abs(spline(np.log([[0.9, 0.1]]))[0, 0] - 0.81) < 0.02)
        True
    """

    state, reported, fractions = ("knot_values", "scores", "calibrated"), ("knot_values",), ("scores",)
    shapes = {"scores": ("rows",), "calibrated": ("rows",)}
    looks_up, keeps_predictions = True, True

    def __init__(self, *, n_knots: int = 6) -> None:
        super().__init__()
        self.n_knots = check_count("n_knots", n_knots, 3, MOST_KNOTS)

    def _fit(self, logits: Tensor, labels: Tensor) -> None:
        confidence, correct = torch.empty(2, len(logits), dtype=torch.float64, device=logits.device)
        for rows in row_blocks(logits):
            confidence[rows] = logits[rows].double().softmax(1).amax(1)
            correct[rows] = (logits[rows].argmax(1) == labels[rows]).double()
        order = confidence.argsort(stable=True)
        self.scores, correct = confidence[order].cpu().numpy(), correct[order].cpu().numpy()
        _, tie, counts = np.unique(self.scores, return_inverse=True, return_counts=True)
        correct = (np.bincount(tie, correct) / counts)[tie]
        t = np.linspace(0.0, 1.0, len(self.scores))
        values, slopes = natural_cubic(t, self.n_knots)
        error = np.cumsum(correct - self.scores) / len(self.scores)
        self.knot_values = np.linalg.lstsq(values, error, rcond=None)[0]
        self.calibrated = (np.bincount(tie, self.scores + slopes @ self.knot_values) / counts)[tie]

    def _probs(self, logits: Tensor) -> Tensor:
        probs, index = logits.softmax(1), logits.argmax(1)
        confidence = probs.gather(1, index.unsqueeze(1))[:, 0]
        r = interpolate(confidence, as_vector(self.scores, probs), as_vector(self.calibrated, probs))
        return with_confidence(probs, index, r)


def natural_cubic(t: np.ndarray, n_knots: int) -> tuple[np.ndarray, np.ndarray]:
    """Natural cubic splines on [0, 1] with equal steps: (N, n_knots) values and slopes at t by the value of each knot.

    A spline is linear in its values y at the knots. Its second derivatives m there solve the tridiagonal system
    ``m[i-1] + 4 m[i] + m[i+1] = 6 (y[i-1] - 2 y[i] + y[i+1]) / width**2`` with m = 0 at both ends.
    """
    width = 1.0 / (n_knots - 1)
    inner, eye = np.arange(1, n_knots - 1), np.eye(n_knots)
    system = eye.copy()
    system[inner] += 3 * eye[inner] + eye[inner - 1] + eye[inner + 1]
    curvature = np.zeros((n_knots, n_knots))
    curvature[inner] = 6 * (eye[inner - 1] - 2 * eye[inner] + eye[inner + 1]) / width**2
    curvature = np.linalg.solve(system, curvature)

    left = np.minimum((t / width).astype(int), n_knots - 2)
    b = (t - left * width)[:, None] / width
    a = 1 - b
    y0, y1, m0, m1 = eye[left], eye[left + 1], curvature[left], curvature[left + 1]
    values = a * y0 + b * y1 + width**2 / 6 * ((a**3 - a) * m0 + (b**3 - b) * m1)
    slopes = (y1 - y0) / width + width / 6 * ((1 - 3 * a**2) * m0 + (3 * b**2 - 1) * m1)
    return values, slopes


def with_confidence(probs: Tensor, index: Tensor, confidence: Tensor) -> Tensor:
    """Rows (n, K) with ``confidence`` (n,) in their predicted class ``index`` (n,), which stays the largest.

    The other classes keep their proportions, unless the largest of them came out above: then all of them move towards
    equal shares, just as far as needed. The confidence is clipped to [1/K, 1].
    """
    n_others = probs.shape[1] - 1
    index, confidence = index.unsqueeze(1), confidence.clamp((1 + SLACK) / (n_others + 1), 1.0).unsqueeze(1)
    others = probs.scatter(1, index, 0.0)
    total = others.sum(1, keepdim=True)
    others = torch.where(total > 0, others / total, 1 / n_others)
    largest = others.amax(1, keepdim=True)
    limit = confidence * (1 - 0.5 * SLACK) / (1 - confidence)
    share = torch.where(largest > limit, (largest - limit) / (largest - 1 / n_others), 0.0)
    others = torch.lerp(others, torch.full_like(others, 1 / n_others), share.expand_as(others))
    return ((1 - confidence) * others).scatter(1, index, confidence)
