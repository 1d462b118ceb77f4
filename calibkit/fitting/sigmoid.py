"""Platt's sigmoid of each class against the others: the "sigmoid" of scikit-learn, for the estimators alone."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, one_hot, softplus

from calibkit.fitting.base import Calibrator, as_vector
from calibkit.fitting.lbfgs import minimize


class Sigmoid(Calibrator):
    r"""K sigmoids :math:`\sigma(a_k z_k + b_k)`, divided by their sum; of two classes one, of the difference.

    Each is fitted by likelihood to labels moved inwards, to (n + 1) / (n + 2) of the n samples of the class and to
    1 / (m + 2) of the m others, so that it has an optimum where the classes are separated, too. A constant added to a
    row of logits changes the result, so their scale must be that of a score, as of ``decision_function``.

    Attributes:
        slopes: (K,) float64 a; (1,) of two classes.
        bias: (K,) float64 b; (1,) of two classes.

    Papers: Platt 1999, "Probabilistic outputs for support vector machines"; Zadrozny and Elkan 2002 for K classes.

    Example:
        >>> z, y = torch.tensor([[0.0, 2.0]] * 4 + [[2.0, 0.0]] * 4), torch.tensor([1, 1, 1, 1, 0, 0, 0, 0])
        >>> Sigmoid().fit(z, y)(z)[0].numpy().round(6).tolist()  # 5 / 6
        [0.166667, 0.833333]
    """

    state = ("slopes", "bias")

    def _fit(self, logits: Tensor, labels: Tensor) -> None:
        scores = _scores(logits).double()
        there = one_hot(labels, logits.shape[1])[:, -scores.shape[1] :].double()
        n = there.sum(0)
        target = torch.where(there > 0, (n + 1) / (n + 2), 1 / (len(there) - n + 2))
        middle, unit = scores.mean(0), scores.std(0, correction=0)
        unit = torch.where(unit > 0, unit, 1.0)
        scaled = (scores - middle) / unit

        def loss(x: Tensor) -> tuple[float, Tensor]:
            u = scaled * x[0] + x[1]
            error = (u.sigmoid() - target) / len(u)
            value = (softplus(u) - target * u).mean(0).sum()
            return float(value), torch.stack([(error * scaled).sum(0), error.sum(0)])

        start = torch.stack([torch.zeros_like(n), ((n + 1) / (len(there) - n + 1)).log()])
        slopes, bias = minimize(loss, start).x
        slopes = slopes / unit
        self.slopes, self.bias = slopes.cpu().numpy(), (bias - slopes * middle).cpu().numpy()

    def _probs(self, logits: Tensor) -> Tensor:
        u = _scores(logits) * as_vector(self.slopes, logits) + as_vector(self.bias, logits)
        return logsigmoid(torch.cat([-u, u], 1) if logits.shape[1] == 2 else u).softmax(1)


def _scores(logits: Tensor) -> Tensor:
    """(N, K), or (N, 1) of two classes."""
    return logits[:, 1:] - logits[:, :1] if logits.shape[1] == 2 else logits
