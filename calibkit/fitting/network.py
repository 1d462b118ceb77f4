"""A network is looked into: it runs frozen, and is left as it was found; and Theorem 1 of Neural Clamping, the gradient
of the entropy by the input, and the start for delta made from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain

import numpy as np
import torch
from torch import Tensor, nn

from calibkit._arrays import two_columns
from calibkit._checks import Array, check_int, check_logits, check_real, expected, to_tensor

#: (alpha, beta), the least and the largest value of an input: each a number, or one a channel.
Range = tuple[float | Sequence[float], float | Sequence[float]]


@contextmanager
def frozen(model: nn.Module) -> Iterator[None]:
    """``model`` in evaluation mode, its parameters without gradients; every module and parameter is restored after."""
    modes = [(module, module.training) for module in model.modules()]
    flags = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    try:
        model.eval()
        model.requires_grad_(False)
        yield
    finally:
        model.train(modes[0][1])  # a network whose own `train` does more gets that back, too
        for module, training in modes:
            module.training = training
        for parameter, requires_grad in flags:
            parameter.requires_grad_(requires_grad)


def place(model: nn.Module, images: Tensor) -> tuple[torch.device, torch.dtype]:
    """Device and floating dtype of the model's weights; those of ``images`` if it has none."""
    for tensor in chain(model.parameters(), model.buffers()):
        if tensor.is_floating_point():
            return tensor.device, tensor.dtype
    return images.device, images.dtype


def check_images(model: nn.Module, images: Array) -> Tensor:
    """(N, ...) floating images, N >= 1, as the model takes them; a tensor that shares their memory where it can."""
    if not isinstance(model, nn.Module):
        raise expected("model", "a torch.nn.Module", f"{type(model).__name__}; the network comes before its inputs")
    x = to_tensor("images", images)
    if x.ndim < 2 or len(x) == 0:
        raise expected("images", "of shape (N, ...) with N >= 1", f"shape {tuple(x.shape)}")
    if not x.is_floating_point():
        raise expected("images", "floating point, normalised as the model takes them", f"dtype {x.dtype}")
    if not torch.isfinite(x.sum()) and not torch.isfinite(x).all():
        raise expected("images", "finite", "NaN or infinity")
    return x


def run(model: nn.Module, batch: Tensor) -> Tensor:
    """Logits (n, K) of a batch, as the model gives them; an error where it gives anything else."""
    logits = model(batch)
    logits = two_columns(logits, probs=False) if isinstance(logits, Tensor) else logits
    if not isinstance(logits, Tensor) or logits.ndim != 2 or len(logits) != len(batch):
        got = f"shape {tuple(logits.shape)}" if isinstance(logits, Tensor) else type(logits).__name__
        raise expected("model", "a classifier that gives logits of shape (N, K)", got)
    return logits


@torch.no_grad()
def forward(model: nn.Module, images: Tensor, delta: Tensor | float = 0.0, batch_size: int = 512) -> Tensor:
    """Checked logits (N, K) of ``images + delta`` on the device of the model."""
    where = place(model, images)
    with frozen(model):
        logits = torch.cat([run(model, batch.to(*where) + delta) for batch in images.split(batch_size)])
    return check_logits(logits, "model(images)")


def entropy_gradient(model: nn.Module, images: Array, *, temperature: float = 1.0, batch_size: int = 512) -> Tensor:
    r"""Mean gradient of the output's entropy by the input, in the shape of one image.

    .. math:: g = \frac1n \sum_i \nabla_x H\big(\operatorname{softmax}(f(x_i) / T)\big), \qquad
              H(p) = -\sum_k p_k \log p_k

    The sum over the images that Theorem 1 prints is n times this. The model f, from images (N, ...) to logits (N, K),
    runs in evaluation mode and is left as found; images are normalised as it takes them, ``batch_size`` of them a pass.
    g is float64 on the CPU. ValueError tells of no module or images, ``temperature`` T <= 0, ``batch_size`` < 1.
    """
    x, temperature = check_images(model, images), check_real("temperature", temperature, 0.0, open_low=True)
    check_int("batch_size", batch_size, 1)
    where = place(model, x)
    total = torch.zeros(x.shape[1:], dtype=torch.float64, device="cpu")
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

    ``input_range`` is (alpha, beta) after normalisation, each a number or one number a channel (first axis). The result
    is float64 in the shape of one image. ValueError tells of a range that is none, or has another number of channels,
    and of a gradient of another shape.
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
    values = torch.as_tensor(bound, dtype=torch.float64, device=image.device)
    if values.ndim and len(values) != len(image):
        raise expected("input_range", f"a pair of numbers or of {len(image)} numbers each", bound)
    return values.reshape(-1, *[1] * (image.ndim - 1))
