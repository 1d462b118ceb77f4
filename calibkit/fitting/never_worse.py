"""No fit ends worse than the network as it is."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from calibkit.objectives import Objective, losses
from calibkit.objectives.blocked_ce import Forward


def is_no_worse(
    objective: Objective, logits: Tensor, labels: Tensor, x: Tensor, start: Tensor, forward: Forward
) -> bool:
    r"""Whether neither the start nor the network as it is has a lower objective than fitted parameters x.

    .. math:: \sum_i w_i\,\varphi(\mathrm{ce}_i) \le \sum_i w_i\,\varphi(\mathrm{ce}^0_i), \qquad w = w(\mathrm{ce})

    with the losses of the fit on the left, and those compared with it on the right. The weights are those of the fit on
    both sides: an adaptive objective, whose fit is a fixed point, is no function that a fit could lower, but a fixed
    point is the minimum of the sum whose weights are held fixed there.

    Args:
        objective: a smooth objective.
        logits: (N, K).
        labels: (N,).
        x: fitted parameters.
        start: those of temperature scaling, which is itself no worse than the logits as they are.
        forward: gives the calibrated logits of a block.
    """

    def ce(x: Tensor | None) -> Tensor:
        return losses(logits, labels, x, None if x is None else forward, objective.smoothing)

    return is_lowest(objective, labels, logits.shape[1], x, start, ce)


def is_lowest(
    objective: Objective,
    labels: Tensor,
    n_classes: int,
    x: Tensor,
    start: Tensor,
    ce: Callable[[Tensor | None], Tensor],
) -> bool:
    """``is_no_worse`` from the (N,) losses ``ce(x)`` under parameters x, or of the logits as they are for None."""
    fitted = ce(x)
    weights = objective.weights(fitted, labels, n_classes)
    value = weights @ objective.transform(fitted)[0]
    others = (start, None) if objective.adaptive else (start,)
    return all(bool(value <= weights @ objective.transform(ce(other))[0]) for other in others)
