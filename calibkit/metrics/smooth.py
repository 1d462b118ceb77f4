"""Smooth calibration error: no bins, a kernel whose width the data choose."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from calibkit._checks import Array
from calibkit.metrics.sample import Sample

#: Cells that the confidences are put in, 8 to the narrowest kernel.
GRID = 8192
#: Narrowest kernel. An error below it is returned as it is at this width, which changes it by less than 0.001.
MIN_WIDTH = 1e-3
STEPS = 20


def smooth_ece(probs: Array, labels: Array) -> float:
    r"""Smooth ECE (smECE) of the top label.

    .. math::
       \begin{gathered}
       \mathrm{smECE}_\sigma = \int_0^1 \Big| \frac{1}{N} \sum_i K_\sigma(t, \kappa_i)
       (\kappa_i - 1[\hat y_i = y_i]) \Big| dt, \\
       \mathrm{smECE} = \mathrm{smECE}_{\sigma^*} \text{ with } \mathrm{smECE}_{\sigma^*} = \sigma^*
       \end{gathered}

    where kappa is the confidence and K the Gaussian of standard deviation sigma, reflected at 0 and 1.

    Paper: Blasiok & Nakkiran 2024, "Smooth ECE: principled reliability diagrams via kernel smoothing", Def. 2 and
    Algorithm 1. It is a consistent calibration measure: within constants of the distance to calibration.

    Args:
        probs: (N, K) probabilities.
        labels: (N,) integers in [0, K).

    Returns:
        A fraction in [0, 1].

    Raises:
        ValueError: bad ``probs`` or ``labels``.

    Example:
        >>> import numpy as np
        >>> round(smooth_ece(np.tile([0.9, 0.1], (4, 1)), np.array([0, 0, 1, 1])), 3)  # 0.9 of confidence, half right
        0.4

    Differs from the authors' package relplot: sigma* to 1e-6 (there 10 bisections, about 1e-3), and what lies at a
    confidence of exactly 1 keeps its whole weight (there the last grid node, and with it a saturated network, counts
    half). The reflected Gaussian is diagonal in the cosine basis: one FFT of the residuals, then one short inverse FFT
    for each width.
    """
    sample = Sample.of(probs, labels)
    return smooth_error(sample.confidence, sample.gap / len(sample))


def smooth_error(confidence: Tensor, residual: Tensor) -> float:
    """SmECE of residuals (N,), already divided by N, at (N,) confidences."""
    spectrum = torch.fft.rfft(reflected(confidence.double().clamp(max=1.0), residual))
    frequency = torch.pi * torch.arange(GRID + 1, dtype=torch.float64, device=spectrum.device)

    def error(width: float) -> float:
        n = min(GRID, 2 ** math.ceil(math.log2(16.0 / width)))  # 16 nodes to the width; higher frequencies are gone
        smoothed = spectrum[: n + 1] * torch.exp(-0.5 * (frequency[: n + 1] * width) ** 2)
        return torch.fft.irfft(smoothed, 2 * n).abs().sum().item() / 2.0

    low, high = MIN_WIDTH, 1.0
    at_low = error(low)
    if at_low <= low:
        return at_low
    for _ in range(STEPS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if error(middle) > middle else (low, middle)
    return error((low + high) / 2.0)


def reflected(position: Tensor, mass: Tensor) -> Tensor:
    """Mass at positions in [0, 1], shared between the two nearest of GRID + 1 nodes, and mirrored: (2 GRID,).

    On the circle of length 2 each point has two images, x and -x; at 0 and 1 they coincide.
    """
    left = (position * GRID).long().clamp(max=GRID - 1)
    share = position * GRID - left
    nodes = torch.bincount(left, mass * (1.0 - share), minlength=GRID + 1)
    nodes += torch.bincount(left + 1, mass * share, minlength=GRID + 1)
    return torch.cat([2.0 * nodes[:1], nodes[1:-1], 2.0 * nodes[-1:], nodes[1:-1].flip(0)])
