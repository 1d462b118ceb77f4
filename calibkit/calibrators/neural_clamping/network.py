"""What a calibrator needs that looks into the network: it runs frozen and is left as it was found."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain

import torch
from torch import Tensor, nn

from calibkit._arrays import two_columns
from calibkit._checks import Array, check_logits, expected, to_tensor


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
        raise expected("model", "a torch.nn.Module", type(model).__name__)
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
        return check_logits(torch.cat([run(model, batch.to(*where) + delta) for batch in images.split(batch_size)]))
