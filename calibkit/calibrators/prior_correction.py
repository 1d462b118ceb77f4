"""Prior correction: one temperature, then the class frequencies of the validation set give way to the target's."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Literal, Self

import numpy as np
import torch
from torch import Tensor

from calibkit._checks import Array, check_real, expected
from calibkit.fitting.base import Calibrator, as_vector
from calibkit.fitting.temperature import fit_temperature, softmax_at
from calibkit.objectives import NLL

Target = Literal["uniform"] | Sequence[float] | Array
#: Of the estimate: mean log-likelihood that more rounds may bring at its end, rounds at most, and the part of a
#: frequency that a leap leaves at least, as from 0 no step leads back.
LEFT, ROUNDS, NARROW = 1e-8, 1_000, 1e-3


class PriorCorrection(Calibrator):
    r"""Prior correction for label shift, :math:`p_k \propto \softmax(z / T)_k \, \pi'_k / \pi_k`.

    T is the temperature of temperature scaling, :math:`\pi` the class frequencies of the validation set, and
    :math:`\pi'` those of the data to come. If only the class frequencies differ between the two, Bayes' rule asks for
    just this factor. The argmax may change: recompute the accuracy. With :math:`\pi' = \pi` it is temperature scaling.

    Args:
        target: :math:`\pi'`: "uniform" (default), such as the balanced test set of a long-tailed data set; or K
            frequencies >= 0, not all 0, in the order of the classes, which are scaled to sum to 1. :meth:`adapt`
            estimates them.

    Attributes:
        temperature: T > 0.
        prior: (K,) float64 :math:`\pi`, :math:`(n_k + 1) / (N + K)` for :math:`n_k` of the N labels: Laplace's rule
            leaves no class with 0.
        target_prior: (K,) float64 :math:`\pi'`.

    Papers: Saerens, Latinne and Decaestecker 2002, "Adjusting the outputs of a classifier to new a priori
    probabilities", Neural Computation 14, equations 2.4 (correction) and 2.9 (estimate); Menon et al. 2021, "Long-tail
    learning via logit adjustment", section 4.1; of the leaps Varadhan and Roland 2008, "Simple and globally convergent
    methods for accelerating the convergence of any EM algorithm", Scandinavian Journal of Statistics 35.
    Differs from the papers: they take the frequencies of the training set and no temperature. Here both are of the
    validation set, which the network has not learnt by heart.

    Raises:
        ValueError: bad input; frequencies that are negative, all 0, or not K.
        RuntimeError: called before ``fit``.

    Example:
        >>> z = np.array([[2.0, 0.0]] * 4 + [[0.0, 1.0]] * 2)
        >>> fitted = PriorCorrection().fit(z, np.array([0, 0, 0, 1, 1, 1]))
        >>> fitted.prior.tolist()
        [0.5, 0.5]
        >>> rare = PriorCorrection([0.9, 0.1]).fit(z, np.array([0, 0, 0, 1, 1, 1]))  # 1 is, from now on
        >>> int(rare(z)[-1].argmax())
        0
    """

    state, fractions = ("temperature", "prior", "target_prior"), ("prior", "target_prior")
    shapes = {"temperature": (), "prior": ("K",), "target_prior": ("K",)}

    def __init__(self, target: Target = "uniform") -> None:
        super().__init__()
        if isinstance(target, str | bytes | Mapping) or not np.iterable(target):
            if target != "uniform":
                raise expected("target", '"uniform" or K frequencies', repr(target))
        else:
            shares = target.tolist() if isinstance(target, Tensor) else target
            target = tuple(check_real("target", share, 0.0) for share in shares)
            if not 0 < sum(target) < math.inf:
                raise expected("target", "frequencies of a positive, finite sum", repr(target))
        self.target = target

    def _fit(self, logits: Tensor, labels: Tensor) -> None:
        n_classes = logits.shape[1]
        target = np.ones(n_classes) if self.target == "uniform" else np.array(self.target)
        if len(target) != n_classes:
            raise expected("target", f"{n_classes} frequencies", f"{len(target)}")
        counts = torch.bincount(labels, minlength=n_classes).double() + 1
        self.prior, self.target_prior = (counts / counts.sum()).cpu().numpy(), target / target.sum()
        self.temperature = fit_temperature(NLL(), logits, labels)

    def adapt(self, logits: Array) -> Self:
        r"""Estimate :math:`\pi'` from logits (N, K) without labels; returns self.

        The most likely frequencies, by Saerens et al.'s steps :math:`\pi' \leftarrow \frac1N \sum_i p(z_i)` from the
        present ones of the validation set, and leaps along them (Varadhan and Roland 2008). Give all samples that are
        judged together: a few say little. A RuntimeWarning tells where the rounds did not suffice.

        Raises:
            ValueError: bad ``logits``, or another number of classes than in ``fit``.
            RuntimeError: called before ``fit``.
        """
        z = self._checked(logits).double()
        prior = as_vector(self.prior, z)
        likelihoods = softmax_at(z, self.temperature) / prior

        def step(target: Tensor) -> tuple[Tensor, float, float]:
            """The target one step on; of where it was, the mean log-likelihood and at most what is left to gain."""
            each = likelihoods @ target
            slope = (1 / each) @ likelihoods / len(each)
            return slope * target, float(each.log().mean()), float(slope.max()) - 1  # by concavity

        target = prior
        for _ in range(ROUNDS):
            one, before, left = step(target)
            if left < LEFT:
                break
            two = step(one)[0]
            move, bend = one - target, two - 2 * one + target
            reach = move.norm() / bend.norm().clamp(min=1e-300)
            leap = torch.maximum(target + 2 * reach * move + reach.square() * bend, NARROW * two)
            leapt, after, _ = step(leap / leap.sum())
            target = leapt if after > before else two
        else:
            text = f"the frequencies are not converged after {ROUNDS} rounds: {left:.1e} nats may be left to gain"
            warnings.warn(text, RuntimeWarning, stacklevel=2)
        self.target_prior = (target / target.sum()).cpu().numpy()
        return self

    def _probs(self, logits: Tensor) -> Tensor:
        shift = as_vector(self.target_prior, logits).log() - as_vector(self.prior, logits).log()
        return ((logits - logits.amax(1, keepdim=True)) / self.temperature + shift).softmax(1)
