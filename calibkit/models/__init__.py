"""Networks. ``MODELS[name](n_classes)`` builds one with fresh weights; ``load_weights`` fills it from an npz.

The keys are the names by which the papers' tables are recorded. Without options a network suits 32 x 32 images where a
paper trains it on CIFAR, and 224 x 224 images where it does so on ImageNet only; ``stem`` changes that. ``vit`` takes
images of any size, ``gpool_cnn`` token ids, and the ``deeplabv3`` networks give logits for every pixel. Inputs are
normalised images (N, C, H, W), outputs logits (N, K). ValueError tells of fewer than K = 2 classes, and of an option
that is unknown or out of the range that its text states.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from calibkit._checks import check_choice, expected
from calibkit._files import read_npz
from calibkit.keys import make
from calibkit.models import vision
from calibkit.models.densenet import DenseNet
from calibkit.models.dropout import mc_dropout
from calibkit.models.gpool_cnn import GPoolCNN
from calibkit.models.resnet import ResNet, WideResNet
from calibkit.models.small import ResNet8, SmallCNN, WhitenedResNet8

__all__ = ["MODELS", "build", "load_weights", "mc_dropout", "options_for", "suited", "takes"]

MODELS: dict[str, Callable[..., nn.Module]] = {
    "small_cnn": SmallCNN,
    "resnet8": ResNet8,
    "resnet8_whitened": WhitenedResNet8,
    "resnet20": partial(ResNet, 20),
    "resnet32": partial(ResNet, 32),
    "resnet44": partial(ResNet, 44),
    "resnet56": partial(ResNet, 56),
    "resnet20_b": partial(ResNet, 20, shortcut="B"),
    "resnet56_b": partial(ResNet, 56, shortcut="B"),
    "resnet110": partial(ResNet, 110),
    "resnet110_sd": partial(ResNet, 110, drop=0.5),
    "resnet152_sd": partial(ResNet, 152, drop=0.5),
    "resnet50": partial(vision.resnet, "resnet50"),
    "resnet101": partial(vision.resnet, "resnet101"),
    "resnet152": partial(vision.resnet, "resnet152", stem="imagenet"),
    "wide_resnet_26_10": partial(WideResNet, 28),
    "wide_resnet_28": partial(WideResNet, 28),
    "wide_resnet_32": partial(WideResNet, 34),
    "wide_resnet_40_10": partial(WideResNet, 40),
    "densenet40": partial(DenseNet, 40),
    "densenet40_bc": partial(DenseNet, 40, bc=True),
    "densenet121": partial(vision.densenet, "densenet121"),
    "densenet161": partial(vision.densenet, "densenet161", stem="imagenet"),
    "efficientnet_b0": partial(vision.plain, "efficientnet_b0"),
    "regnet_y_400mf": partial(vision.plain, "regnet_y_400mf"),
    "vit": vision.vit,
    "gpool_cnn": GPoolCNN,
    "deeplabv3_resnet34": partial(vision.DeepLabV3, "resnet34"),
    "deeplabv3_resnet50": partial(vision.DeepLabV3, "resnet50"),
}


def build(name: str, n_classes: int, **options: Any) -> nn.Module:
    """A fresh network ``MODELS[name]`` for K = ``n_classes``; a ValueError lists the names, or options, there are."""
    return make(MODELS[check_choice("model", name, MODELS)], "model", {"n_classes": n_classes, **options})


def suited(kind: str, shape: tuple[int, ...]) -> list[str]:
    """The networks for inputs of ``shape`` by what has a class: a sequence ("text"), a pixel ("dense"), else "image".

    Example:
        >>> suited("text", (1000,)), suited("image", (8, 8, 1))
        (['gpool_cnn'], ['small_cnn'])
    """
    check_choice("kind", kind, ("text", "dense", "image"))
    of_text = [name for name in MODELS if takes(name, "n_tokens")]
    of_pixels = [name for name, of in MODELS.items() if getattr(getattr(of, "func", of), "dense", False)]
    of_images = [name for name in MODELS if name not in (*of_text, *of_pixels)]
    of_images = [name for name in of_images if shape[-1] == 3 or takes(name, "channels")]
    return {"text": of_text, "dense": of_pixels, "image": of_images}[kind]


def takes(name: str, option: str) -> bool:
    """Whether network ``name`` has an option, as "channels", "n_tokens" or "weights"."""
    return option in inspect.signature(MODELS[check_choice("model", name, MODELS)]).parameters


def options_for(name: str, shape: tuple[int, ...], n_tokens: int | None = None) -> dict[str, object]:
    """The options with which network ``name`` suits inputs of ``shape``, (H, W, C) of an image: ``build(.., **these)``.

    ``n_tokens`` is the size of the vocabulary where the inputs are token ids. The papers take the "cifar" form of a
    network for 32 x 32 images, the "tiny" form of ResNets for the 64 x 64 of Tiny-ImageNet, and the "imagenet" form for
    larger ones.

    Example:
        >>> options_for("resnet50", (64, 64, 3)), options_for("small_cnn", (8, 8, 1)), options_for("vit", (32, 32, 3))
        ({'stem': 'tiny'}, {'channels': 1}, {})
    """
    if takes(name, "channels"):
        return {"channels": shape[-1]}
    if takes(name, "n_tokens") and n_tokens is not None:
        return {"n_tokens": n_tokens}
    if name in ("resnet50", "resnet101", "densenet121"):
        small = "tiny" if shape[0] > 32 and name != "densenet121" else "cifar"
        return {"stem": small if shape[0] <= 64 else "imagenet"}
    return {}


def load_weights(model: nn.Module, path: str | os.PathLike) -> nn.Module:
    """Fill ``model`` from an npz of its ``state_dict`` arrays; returns it, in evaluation mode.

    Batch-normalisation step counters (``num_batches_tracked``) may be absent: nothing here reads them. ValueError tells
    of an array that is missing, superfluous, of another shape, or of no numbers.
    """
    return fill(model, read_npz(path))


def fill(model: nn.Module, arrays: dict[str, np.ndarray]) -> nn.Module:
    """:func:`load_weights` with the arrays themselves."""
    wanted, arrays = model.state_dict(), dict(arrays)
    for name in wanted:
        if name.endswith("num_batches_tracked"):
            arrays.setdefault(name, wanted[name].cpu().numpy())
    if set(arrays) != set(wanted):
        raise expected("path", "weights of this network", f"other entries: {sorted(set(arrays) ^ set(wanted))[:4]}")
    for name, value in wanted.items():
        if arrays[name].shape != tuple(value.shape):
            raise expected(name, f"of shape {tuple(value.shape)}", f"shape {arrays[name].shape}")
        if arrays[name].dtype.kind not in "biuf":
            raise expected(name, "numbers", f"dtype {arrays[name].dtype}")
    model.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})
    return model.eval()
