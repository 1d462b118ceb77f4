"""The folder of one training run: its lock, facts, checkpoints and log, each file whole or absent; and what tells a
network or a loss from another of the same name.
"""

from __future__ import annotations

import csv
import fcntl
import hashlib
import inspect
import io
import json
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from calibkit._checks import expected
from calibkit._files import read_json, read_npz, remove_strays, write_atomic, write_npz
from calibkit.logits import Logits
from calibkit.models import load_weights
from calibkit.training.recipes import Recipe

if TYPE_CHECKING:
    from lightning_fabric import Fabric

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")  # another in every process
_NORMALISATION = re.compile(r"\b(Sync)?BatchNorm(\dd)?\b")  # of several processes or one
LOG = tuple("epoch lr train_loss train_accuracy val_nll val_accuracy val_ece val_class_std seconds".split())


def best_epoch(history: list) -> int:
    """The last of the epochs with the largest validation accuracy, counted from 1; 0 before the first. The code of MbLS
    and ACLS takes the first of them.
    """
    accuracies = [row[LOG.index("val_accuracy")] for row in history]
    return len(accuracies) - int(np.argmax(accuracies[::-1])) if history else 0


class Run:
    """The folder of one run.

    While it runs: ``checkpoint.npz``, and with the recipe's ``keep="best"`` the best weights so far,
    ``best-<epoch>.npz``. Once it is finished: ``weights.npz`` and ``logits.npz``.
    """

    def __init__(self, folder: Path, facts: dict) -> None:
        self.folder, self.facts = folder, json.loads(json.dumps(facts, default=_plain))  # with lists for tuples
        self.newest, self.weights, self.logits = (folder / f"{x}.npz" for x in ("checkpoint", "weights", "logits"))

    @contextmanager
    def held(self, fabric: Fabric) -> Iterator[bool]:
        """Hold the folder against other runs while the block lasts; gives whether the run is finished.

        ValueError tells that another run holds it, or that another run's files are in it.
        """
        with ExitStack() as stack:
            finished, error = False, None
            if fabric.is_global_zero:
                try:
                    finished = self._enter(stack)
                except Exception as problem:  # so that all processes end, or none
                    error = problem
            finished, error = fabric.broadcast((finished, error))
            if error is not None:
                raise error
            yield finished

    def _enter(self, stack: ExitStack) -> bool:
        if self._finished():  # it is only read, and may be write-protected
            self._clean()
            return True
        stack.enter_context(lock(self.folder))
        if self._finished():  # by the run that held it until now
            return True
        remove_strays(self.folder)
        return False

    def _finished(self) -> bool:
        if not self.logits.exists():
            return False
        self._check(Logits.load(self.logits).meta)
        if not self.weights.exists():
            raise expected("folder", "a run with weights.npz beside its logits.npz", self.folder)
        return True

    def _check(self, found: dict) -> None:
        for name, value in self.facts.items():
            was = found.get(name)
            if name == "recipe" and isinstance(
                was, dict
            ):  # of an older version: fields that it lacked had the defaults
                was = {key: getattr(Recipe, key, None) for key in value} | was
            if name != "paper" and was != value:  # whose recipe it is: the recipe itself says more
                raise expected("folder", f"a run with {name} {value}", f"{was} in {self.folder}")

    def resume(self, model: nn.Module, loss: nn.Module, optimizer: torch.optim.Optimizer) -> list:
        """Fill model, loss and optimiser from the checkpoint; a row of ``LOG`` for each epoch done so far.

        ValueError tells of one of another network, loss or optimiser, or that cannot be read.
        """
        if not self.newest.exists():
            return []
        arrays = read_npz(self.newest)
        self._check(read_json(self.newest, arrays.get("facts", {})))
        return unpack(arrays, model, loss, optimizer)

    def checkpoint(self, model: nn.Module, loss: nn.Module, optimizer: torch.optim.Optimizer, history: list) -> None:
        """Write everything that ``resume`` reads, and the log. The weights that the run would keep if it ended there
        have a file of their own, so as to be written once; those before them go when the checkpoint is in its place.
        """
        epoch = len(history)
        best = self.best(best_epoch(history)) if self.facts["recipe"]["keep"] == "best" else None
        if best == self.best(epoch):
            write_npz(best, arrays_of(model), compress=False)
        write_npz(self.newest, pack(self.facts, history, model, loss, optimizer), compress=False)
        for path in self._all_best() - {best}:
            path.unlink()
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([LOG, *([int(row[0]), *row[1:]] for row in history)])
        write_atomic(self.folder / "log.csv", lambda stream: stream.write(text.getvalue().encode()), sync=False)

    def best(self, epoch: int) -> Path:
        """Where the weights of an epoch lie, if it is the best."""
        return self.folder / f"best-{epoch}.npz"

    def _all_best(self) -> set[Path]:
        """Such weights of whatever epochs; a best-model.npz is another's."""
        return {path for path in self.folder.glob("best-*.npz") if path.stem[5:].isdecimal()}

    def finish(self, model: nn.Module, logits: Logits, maps: dict[str, np.ndarray] | None) -> None:
        """Write the results, the logits last: with them the run is finished."""
        if maps is not None:
            write_npz(self.folder / "maps.npz", maps)
        write_npz(self.weights, arrays_of(model))
        logits.save(self.logits)
        self._clean()

    def _clean(self) -> None:
        """Delete what only an unfinished run needs."""
        for path in (*self._all_best(), self.newest, self.folder / ".lock"):
            path.unlink(missing_ok=True)

    def result(self, model: nn.Module) -> Logits:
        """The Logits of a finished run, and its weights in ``model``."""
        load_weights(model, self.weights)
        return Logits.load(self.logits)


@contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Keep others, also on other machines, out of a folder until the block or this process ends; ValueError of one."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / ".lock"
    with open(path, "ab") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            held = os.path.samestat(os.fstat(stream.fileno()), os.stat(path))  # else its holder has just removed it
        except (BlockingIOError, FileNotFoundError):
            held = False
        if not held:
            raise expected("folder", "one that no other training writes to", f"{folder}, where one runs")
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


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


def digest_of(model: nn.Module) -> str:
    """The number of parameters of a network, and a digest of its innermost layers and of its arrays' names and shapes.

    Weights, modes, devices and the names of the classes that layers are put together in do not enter.
    """
    innermost = {name: layer for name, layer in model.named_modules() if next(layer.children(), None) is None}
    layers = {name: _NORMALISATION.sub("BatchNorm", _ADDRESS.sub("", repr(layer))) for name, layer in innermost.items()}
    shapes = {name: list(value.shape) for name, value in model.state_dict().items()}
    n = sum(parameter.numel() for parameter in model.parameters())
    return f"{n} parameters, {_digest(json.dumps([layers, shapes]).encode())}"


def settings_of(loss: nn.Module) -> dict[str, object]:
    """What a loss and its parts were built with, by the name of the argument, as far as they hold it: numbers, texts,
    lists and dicts of them; of arrays of floats a digest.
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
