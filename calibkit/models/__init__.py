"""Networks. ``MODELS[name](n_classes)`` builds one with fresh weights; ``load_weights`` fills it from an npz."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

import torch
from torch import nn

from calibkit._checks import check_choice, expected
from calibkit._io import read_npz
from calibkit.models.resnet import ResNet
from calibkit.models.small_cnn import SmallCNN

MODELS: dict[str, Callable[..., nn.Module]] = {
    "small_cnn": SmallCNN,
    "resnet20": partial(ResNet, 20),
    "resnet32": partial(ResNet, 32),
    "resnet44": partial(ResNet, 44),
    "resnet56": partial(ResNet, 56),
    "resnet110": partial(ResNet, 110),
    "resnet110_sd": partial(ResNet, 110, drop=0.5),
}


def build(name: str, n_classes: int, **options) -> nn.Module:
    """A fresh network ``MODELS[name]`` for K = ``n_classes``; an unknown name raises ValueError with the known ones."""
    return MODELS[check_choice("model", name, MODELS)](n_classes=n_classes, **options)


def load_weights(model: nn.Module, path: str | os.PathLike) -> nn.Module:
    """Fill ``model`` from an npz of its ``state_dict`` arrays; returns it, in evaluation mode.

    Batch-normalisation step counters (``num_batches_tracked``) may be absent: nothing here reads them.

    Raises:
        ValueError: an array is missing, superfluous, or of another shape.
    """
    arrays = read_npz(path)
    wanted = model.state_dict()
    for name in wanted:
        if name.endswith("num_batches_tracked"):
            arrays.setdefault(name, wanted[name].cpu().numpy())
    if set(arrays) != set(wanted):
        raise expected("path", "weights of this network", f"other entries: {sorted(set(arrays) ^ set(wanted))[:4]}")
    for name, value in wanted.items():
        if arrays[name].shape != tuple(value.shape):
            raise expected(name, f"of shape {tuple(value.shape)}", f"shape {arrays[name].shape}")
    model.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})
    return model.eval()
