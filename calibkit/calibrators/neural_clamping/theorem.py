"""Theorem 1 of Neural Clamping: the gradient of the entropy by the input, and the start for delta made from it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from calibkit._checks import Array, check_int, check_real, expected, to_tensor
from calibkit.calibrators.neural_clamping.network import check_images, frozen, place, run

#: (alpha, beta), the least and the largest value of an input: each a number, or one a channel.
Range = tuple[float | Sequence[float], float | Sequence[float]]


def entropy_gradient(model: nn.Module, images: Array, *, temperature: float = 1.0, batch_size: int = 512) -> Tensor:
    r"""Mean gradient of the output's entropy by the input, in the shape of one image.

    .. math:: g = \frac1n \sum_i \nabla_x H\big(\operatorname{softmax}(f(x_i) / T)\big), \qquad
              H(p) = -\sum_k p_k \log p_k

    Args:
        model: classifier from images (N, ...) to logits (N, K); it runs in evaluation mode and is left as found.
        images: (N, ...) floating, normalised as the model takes them.
        temperature: T.
        batch_size: images a pass.

    Returns:
        g, float64 on the CPU. The sum over the images that Theorem 1 prints is n times this.

    Raises:
        ValueError: no module or images, ``temperature`` <= 0, ``batch_size`` < 1.
    """
    x, temperature = check_images(model, images), check_real("temperature", temperature, 0.0, open_low=True)
    check_int("batch_size", batch_size, 1)
    where = place(model, x)
    total = torch.zeros(x.shape[1:], dtype=torch.float64)
    with frozen(model), torch.enable_grad():
        for batch in x.split(batch_size):
            batch = batch.to(*where).detach().requires_grad_()
            log_p = torch.log_softmax(run(model, batch).double() / temperature, 1)
            entropy = -(log_p.exp() * log_p).sum()
            total += torch.autograd.grad(entropy, batch)[0].double().sum(0).cpu()
    return total / len(x)


def theorem_delta(gradient: Array, images: Array, input_range: Range) -> Tensor:
    r"""The perturbation that raises the entropy most, to first order, and leaves every image in the feasible range.

    Theorem 1 and eq. 20: :math:`\tilde\delta = \operatorname{sign}(g) \odot \eta` with

    .. math:: \eta_j = \begin{cases} \ell_j - \alpha_j & g_j < 0 \\ \beta_j - \mu_j & g_j > 0 \\ 0 & g_j = 0
              \end{cases}

    where :math:`\ell_j, \mu_j` are the least and the largest value of input j over the images, and
    :math:`[\alpha, \beta]` is the range that an input may have. The paper leaves the two bounds of :math:`\eta` as
    they are; an image outside of the range would make one negative, so they are cut at 0 here.

    Args:
        gradient: g, the shape of one image; only its sign counts.
        images: (N, ...) that ``gradient`` was taken over.
        input_range: (alpha, beta) after normalisation, each a number or one number a channel (first axis).

    Returns:
        The perturbation, float64 in the shape of one image; its absolute value is eta.

    Raises:
        ValueError: a range that is none, or has another number of channels; a gradient of another shape.
    """
    x = to_tensor("images", images).cpu()
    low, high = x.amin(0).double(), x.amax(0).double()
    alpha, beta = (_per_channel(bound, low) for bound in check_range(input_range))
    gradient = to_tensor("gradient", gradient).cpu()
    if gradient.shape != low.shape:
        raise expected("gradient", f"of shape {tuple(low.shape)}, as an image", f"shape {tuple(gradient.shape)}")
    eta = torch.where(gradient < 0, low - alpha, beta - high).clamp(min=0.0)
    return gradient.sign() * eta


def check_range(input_range: Range) -> Range:
    """A pair of finite floats, or of tuples of them, with alpha < beta: from numbers, sequences, arrays or tensors."""
    try:
        alpha, beta = (np.asarray(bound, dtype=np.float64) for bound in input_range)
        finite = np.isfinite(alpha) & np.isfinite(beta)
        rises = max(alpha.ndim, beta.ndim) <= 1 and bool((finite & (alpha < beta)).all())
    except (TypeError, ValueError):
        rises = False
    if not rises:
        raise expected("input_range", "a pair alpha < beta of numbers, or of one number a channel each", input_range)
    return tuple(tuple(bound.tolist()) if bound.ndim else float(bound) for bound in (alpha, beta))


def _per_channel(bound: float | tuple[float, ...], image: Tensor) -> Tensor:
    values = torch.as_tensor(bound, dtype=torch.float64)
    if values.ndim and len(values) != len(image):
        raise expected("input_range", f"a pair of numbers or of {len(image)} numbers each", bound)
    return values.reshape(-1, *[1] * (image.ndim - 1))
