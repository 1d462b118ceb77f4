"""What tells a network or a loss from another of the same name."""

from __future__ import annotations

import hashlib
import inspect
import json
import re

import numpy as np
import torch
from torch import Tensor, nn

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")  # another in every process
_NORMALISATION = re.compile(r"\b(Sync)?BatchNorm(\dd)?\b")  # of several processes or one


def digest_of(model: nn.Module) -> str:
    """The number of parameters of a network, and a digest of its innermost layers and of its arrays' names and shapes.

    Weights, modes, devices and the names of the classes that layers are put together in do not enter.

    Example:
        >>> digest_of(nn.Linear(3, 2)).partition(", ")[0]
        '8 parameters'
    """
    innermost = {name: layer for name, layer in model.named_modules() if next(layer.children(), None) is None}
    layers = {name: _NORMALISATION.sub("BatchNorm", _ADDRESS.sub("", repr(layer))) for name, layer in innermost.items()}
    shapes = {name: list(value.shape) for name, value in model.state_dict().items()}
    n = sum(parameter.numel() for parameter in model.parameters())
    return f"{n} parameters, {_digest(json.dumps([layers, shapes]).encode())}"


def settings_of(loss: nn.Module) -> dict[str, object]:
    """What a loss and its parts were built with, by the name of the argument, as far as they hold it: numbers, texts,
    lists and dicts of them; of arrays of floats a digest.

    Example:
        >>> settings_of(nn.CrossEntropyLoss(label_smoothing=0.1))
        {'ignore_index': -100, 'label_smoothing': 0.1, 'reduction': 'mean'}
    """
    found = {}
    for part, module in loss.named_modules():
        names = [name for name in inspect.signature(type(module)).parameters if hasattr(module, name)]
        found |= {f"{part}.{name}" if part else name: _plain(getattr(module, name)) for name in names}
    return {name: value for name, value in sorted(found.items()) if value is not None}


def _plain(value: object) -> object:
    """As JSON gives it back; None for what is neither that nor an array of floats."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        value = torch.tensor(value)
    if isinstance(value, Tensor):
        if not value.is_floating_point():
            return None
        array = value.detach().to("cpu", torch.float64).contiguous().numpy()
        return _digest(str(array.shape).encode() + array.tobytes())
    try:
        return json.loads(json.dumps(value), parse_constant=str)  # NaN as text, which is equal to itself
    except (TypeError, ValueError, RecursionError):
        return None


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]
