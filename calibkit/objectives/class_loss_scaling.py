"""Class-wise loss scaling (SCTL): classes with a large loss weigh more."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self, get_args

import numpy as np
import torch
from torch import Tensor

from calibkit._checks import check_choice, check_real, expected
from calibkit._extras import needs
from calibkit.objectives.base import Objective

Normalization = Literal["nd", "mm", "cm"]
Variant = Literal["code", "paper"]


@dataclass(frozen=True)
class ClassLossScaling(Objective):
    r"""Weighted sum of class-wise losses, :math:`\sum_c (1 + s_c) L_c`, that pushes the :math:`L_c` together.

    .. math:: s_c = \frac{\beta}{1 + e^{-\bar L_c / \alpha}} - \frac{\beta}{2} \in (-\beta/2, \beta/2)

    :math:`\bar L_c` are the class losses normalised over the classes. The scales are recomputed from the losses at the
    current point and held fixed where the gradient is taken, so the fit is the fixed point where the gradient of the
    weighted sum vanishes at its own scales.

    Args:
        alpha: slope, above 0; None is ln(K) / 2, the bound at which the authors' SLSQP ends.
        beta: range of the scales in [0, 2], so that no weight is negative; 1.5, where the authors start and stay.
        normalization: ``"nd"`` (L - mean) / std, ``"mm"`` (L - min) / (max - min), ``"cm"`` (L - mean) / (max - min);
            the paper's Appendix A, which uses nd.
        variant: ``"code"`` takes :math:`L_c` as the mean over the class and the unbiased std, as the public code does;
            ``"paper"`` the sum over the class (eq. 3) and the population std (eq. 4). With class means, scales of zero
            give a class-balanced loss, not the NLL: compare with the objective ``class_balanced``. The default is
            ``"code"``, for the paper's tables were made by it.

    Source: Jung, Seo, Jeong and Choi 2023, "Scaling of Class-wise Training Losses for Post-hoc Calibration", ICML,
    equations 3-6.
    Differs from the paper: alpha and beta are not relearned inside the fit (``fit_shape`` does it, eq. 6); a class
    without a sample is left out (the public code returns NaN); the fixed point is reached (the public code runs L-BFGS
    on weights that change between its evaluations and stops early).

    Raises:
        ValueError: ``alpha`` <= 0, ``beta`` outside [0, 2], an unknown ``normalization`` or ``variant``.

    Example:
        >>> scaling = ClassLossScaling(alpha=1.0, beta=1.5)
        >>> scaling.scales(torch.tensor([0.2, 0.5, 1.1, 0.4], dtype=torch.float64)).numpy().round(4).tolist()
        [-0.3176, -0.0483, 0.458, -0.1434]
    """

    alpha: float | None = None
    beta: float = 1.5
    normalization: Normalization = "nd"
    variant: Variant = "code"
    adaptive: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.alpha is not None:
            object.__setattr__(self, "alpha", check_real("alpha", self.alpha, 0.0, open_low=True))
        object.__setattr__(self, "beta", check_real("beta", self.beta, 0.0, 2.0))
        check_choice("normalization", self.normalization, get_args(Normalization))
        check_choice("variant", self.variant, get_args(Variant))

    def class_losses(self, ce: Tensor, labels: Tensor, n_classes: int) -> Tensor:
        """(K,) mean (``variant="code"``) or sum (``"paper"``) of ``ce`` within each class; NaN for an absent class."""
        counts = torch.bincount(labels, minlength=n_classes).to(ce.dtype)
        sums = torch.bincount(labels, ce, minlength=n_classes)
        return torch.where(counts > 0, sums / counts if self.variant == "code" else sums, torch.nan)

    def scales(self, class_losses: Tensor) -> Tensor:
        """(K,) scales s_c of equation 5; 0 for an absent class (NaN), and for all where the losses do not differ."""
        present = ~class_losses.isnan()
        known = class_losses[present]
        low, high = torch.aminmax(known)
        centre = low if self.normalization == "mm" else known.mean()
        spread = high - low
        if self.normalization == "nd" and high > low:
            spread = known.std(correction=1 if self.variant == "code" else 0)
        normalised = torch.where(spread > 0, (class_losses - centre) / spread, 0.0)
        alpha = math.log(len(class_losses)) / 2 if self.alpha is None else self.alpha
        return torch.where(present, self.beta * (torch.sigmoid(normalised / alpha) - 0.5), 0.0)

    def weights(self, ce: Tensor, labels: Tensor, n_classes: int) -> Tensor:
        """(1 + s_c) / n_c for a sample of class c, or (1 + s_c) with ``variant="paper"``."""
        weights = 1.0 + self.scales(self.class_losses(ce, labels, n_classes))
        if self.variant == "code":
            weights = weights / torch.bincount(labels, minlength=n_classes)
        return weights[labels]

    def fit_shape(self, before: Tensor, after: Tensor) -> Self:
        r"""Choose alpha and beta from the class losses before and after a step (eq. 6, by SLSQP as the authors do).

        Minimises :math:`\sqrt{\sum_c (L^0_c - s_c (L^1_c - L^0_c) - \operatorname{mean} L^1)^2}`, the scales from
        :math:`L^1`, over alpha in [0.1, ln(K) / 2] and beta in [1.5, 2], the bounds of the public code, from
        alpha = 1, beta = 1.5. The minus is as printed; a step of weight :math:`1 + s_c` would add. Needs scipy.

        ``before`` and ``after`` are (K,) class losses at the first and the second evaluation; ValueError tells that
        they are of unequal shape, or not finite. Returns a copy with ``alpha`` and ``beta`` set.
        """
        with needs("train"):
            from scipy.optimize import minimize

        if before.ndim != 1 or before.shape != after.shape or not (before.isfinite() & after.isfinite()).all():
            raise expected("before", "(K,) finite class losses, and `after` of the same shape", (before, after))

        def misfit(shape: np.ndarray) -> float:
            scales = replace(self, alpha=float(shape[0]), beta=min(float(shape[1]), 2.0)).scales(after)
            return float(torch.linalg.vector_norm(before - scales * (after - before) - after.mean()))

        high = max(math.log(len(before)) / 2, 0.1)
        with warnings.catch_warnings():  # old versions of SciPy tell of each step that they clip to the bounds
            warnings.filterwarnings("ignore", "Values in x were outside bounds", RuntimeWarning)
            found = minimize(misfit, (min(1.0, high), 1.5), method="SLSQP", bounds=[(0.1, high), (1.5, 2.0)])
        return replace(self, alpha=float(found.x[0]), beta=min(float(found.x[1]), 2.0))
