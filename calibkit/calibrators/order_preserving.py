"""Order-preserving calibration (DIAG): one increasing function of a logit, the same for all logits."""

from __future__ import annotations

import torch
from torch import Tensor

from calibkit._checks import MOST_BINS, check_count, check_real
from calibkit.fitting.base import Calibrator, Shape, as_vector
from calibkit.fitting.interpolate import knots_of_equal_weight
from calibkit.fitting.smooth import fit_smooth, is_no_worse
from calibkit.fitting.temperature import fit_temperature
from calibkit.objectives import Objective, SmoothName, get


class OrderPreserving(Calibrator):
    r"""Order-preserving map of the logits, :math:`p = \softmax(m(z_1), \dots, m(z_K))` with m increasing.

    .. math:: m(z) = \sum_j s_j \min(\max(z - \kappa_j, 0), \kappa_{j+1} - \kappa_j), \qquad s_j \ge 0

    .. math:: \min_{s \ge 0}\; L(s) + \frac{\lambda}{N} \sum_j (T s_j - 1)^2

    L is the objective over N rows, T the temperature that minimises it: the penalty pulls towards temperature scaling,
    which one piece is. m is linear between knots and beyond the outer ones (there without the outer bounds of min and
    max). Every class keeps its rank, and with it the accuracy. In the slopes :math:`s_j` the NLL is convex, and the fit
    is at its optimum, never above that of one temperature. The knots cut the validation logits into pieces of equal
    weight, a logit weighing :math:`p_k (1 - p_k)` after one temperature: as much as it can move the NLL.

    Args:
        objective: a name of ``calibkit.objectives.OBJECTIVES`` or such an object; ``"ece"`` is refused.
        lam: lambda >= 0; 1. With 0 the optimum is at infinity where the true class never lies in an outer piece.
        n_pieces: of m, 1 or more; 10. The public code of Rahimi et al. has one or two layers of 1 to 50 hidden units.

    Attributes:
        knots: (n_pieces - 1,) float64, rising.
        slopes: (n_pieces,) float64.

    Paper: Rahimi, Shaban, Cheng, Hartley and Boots 2020, "Intra Order-Preserving Functions for Calibration of
    Multi-Class Neural Networks", the diagonal family (DIAG).
    Differs from the paper: m is a monotone network there, which its public code trains by L-BFGS or Adam.

    Raises:
        ValueError: bad input, an unknown or unsuited objective, ``n_pieces`` < 1, ``lam`` < 0.
        RuntimeError: called before ``fit``.

    Example:
        >>> rng = torch.Generator().manual_seed(0)
        >>> true = 2 * torch.randn(2000, 4, generator=rng, dtype=torch.float64)
        >>> y = torch.multinomial(true.softmax(1), 1, generator=rng)[:, 0]
        >>> bent = true.abs().pow(1.5) * true.sign()                      # m has to bend it back
        >>> off = (OrderPreserving().fit(bent, y)(bent) - true.softmax(1)).abs().mean()
        >>> bool(off < 0.02)                                              # of one temperature: 0.03
        True
    """

    state = ("knots", "slopes")
    keeps_predictions = True

    def __init__(self, objective: SmoothName | Objective = "nll", *, n_pieces: int = 10, lam: float = 1.0) -> None:
        super().__init__()
        get(objective, smooth=True)
        self.objective, self.n_pieces = objective, check_count("n_pieces", n_pieces, 1, MOST_BINS)
        self.lam = check_real("lam", lam, 0.0)

    def _fit(self, logits: Tensor, labels: Tensor) -> None:
        objective = get(self.objective)
        temperature = fit_temperature(objective, logits, labels)
        shares = torch.arange(1, self.n_pieces, dtype=torch.float64, device=logits.device) / self.n_pieces
        knots = knots_of_equal_weight(logits, temperature, shares)

        # x is the root of T s, so that the descent does not depend on the unit of the logits.
        def forward(x: Tensor, z: Tensor) -> Tensor:
            return mapped(z, knots, x.square() / temperature)

        def backward(x: Tensor, z: Tensor, g: Tensor, grad: Tensor) -> None:
            grad += 2 * x / temperature * _by_slopes(z, g, knots)

        def penalty(x: Tensor) -> tuple[float, Tensor]:
            off = x.square() - 1.0
            return strength * float(off @ off), 4.0 * strength * off * x

        strength = self.lam / len(logits)
        start = logits.new_ones(self.n_pieces, dtype=torch.float64)
        x = fit_smooth(objective, logits, labels, start, forward, backward, penalty=penalty, tolerance=1e-10)
        x = x if is_no_worse(objective, logits, labels, x, start, forward) else start
        self.knots, self.slopes = knots.cpu().numpy(), (x.square() / temperature).cpu().numpy()

    def _shapes(self, n_classes: int) -> dict[str, Shape]:
        return {"knots": (self.n_pieces - 1,), "slopes": (self.n_pieces,)}

    def _probs(self, logits: Tensor) -> Tensor:
        return mapped(logits, as_vector(self.knots, logits), as_vector(self.slopes, logits)).softmax(1)


def _left_ends(knots: Tensor) -> Tensor:
    """(n_pieces,) where each piece begins; the first, which has no beginning, where it ends."""
    return torch.cat([knots[:1], knots]) if len(knots) else knots.new_zeros(1)


def mapped(z: Tensor, knots: Tensor, slopes: Tensor) -> Tensor:
    """m(z), but for a constant."""
    ends = _left_ends(knots)
    bases = torch.cat([slopes.new_zeros(2), (slopes[1:-1] * knots.diff()).cumsum(0)])[: len(slopes)]
    piece = torch.bucketize(z.contiguous(), knots, right=True)
    return bases[piece] + slopes[piece] * (z - ends[piece])


def _by_slopes(z: Tensor, g: Tensor, knots: Tensor) -> Tensor:
    """(n_pieces,) gradient by the slopes, from that by m(z)."""
    ends, n = _left_ends(knots), len(knots) + 1
    piece = torch.bucketize(z.contiguous(), knots, right=True)
    inside = torch.bincount(piece.flatten(), (g * (z - ends[piece])).flatten(), n)
    beyond = torch.bincount(piece.flatten(), g.flatten(), n).flip(0).cumsum(0).flip(0)
    lengths = torch.cat([knots.new_zeros(1), knots.diff(), knots.new_zeros(1)])[:n]
    return inside + lengths * torch.cat([beyond[1:], beyond.new_zeros(1)])
