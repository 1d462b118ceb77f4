"""Checkpoints: all that a run goes on from, as arrays by name."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn


def pack(
    facts: dict, history: list, model: nn.Module, loss: nn.Module, optimizer: torch.optim.Optimizer
) -> dict[str, np.ndarray]:
    """The arrays of a run: its facts, a row an epoch, network, loss with its history if any, SGD, Adam or AdamW."""
    arrays = {"facts": np.asarray(json.dumps(facts)), "history": np.asarray(history)}
    arrays |= {f"model/{name}": array for name, array in arrays_of(model).items()}
    arrays |= {f"loss/{name}": array for name, array in arrays_of(loss).items()}
    for index, entries in optimizer.state_dict()["state"].items():
        arrays |= {f"optimizer/{index}/{name}": x.cpu().numpy() for name, x in entries.items()}
    return arrays


def unpack(arrays: dict[str, np.ndarray], model: nn.Module, loss: nn.Module, optimizer: torch.optim.Optimizer) -> list:
    """Fill network, loss and optimiser from what :func:`pack` gave; the history."""
    parts: dict[str, dict[str, Tensor]] = {"model": {}, "loss": {}, "optimizer": {}}
    for name, array in arrays.items():
        part, _, key = name.partition("/")
        if part in parts:
            parts[part][key] = torch.from_numpy(array)
    model.load_state_dict(parts["model"])
    loss.load_state_dict(parts["loss"])
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in parts["optimizer"].items():
        index, _, name = key.partition("/")
        state.setdefault(int(index), {})[name] = value
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
    return arrays["history"].tolist()


def arrays_of(model: nn.Module) -> dict[str, np.ndarray]:
    """A copy of a module's state as numpy arrays."""
    return {name: value.detach().cpu().numpy().copy() for name, value in model.state_dict().items()}


def is_whole(path: Path) -> bool:
    """Whether every entry of an npz has its checksum."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.testzip() is None
    except Exception:  # what a damaged archive raises depends on where its bytes are wrong
        return False
