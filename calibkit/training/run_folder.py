"""The folder of one training run: its facts, checkpoint and log, each file whole or absent."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import MISSING, fields
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from calibkit._checks import expected
from calibkit._files import read_npz, remove_strays, write_atomic, write_npz
from calibkit.logits import Logits
from calibkit.training.recipes import Recipe

LOG = ("epoch", "lr", "train_loss", "train_accuracy", "val_nll", "val_accuracy", "seconds")


def arrays_of(model: nn.Module) -> dict[str, np.ndarray]:
    """A copy of a module's state as numpy arrays."""
    return {name: value.detach().cpu().numpy().copy() for name, value in model.state_dict().items()}


class Run:
    """The folder of one run: its facts, checkpoint and log."""

    def __init__(self, folder: Path, facts: dict) -> None:
        self.folder, self.facts = folder, plain(facts)
        self.finished = (folder / "logits.npz").exists()
        if self.finished:
            self._check(Logits.load(folder / "logits.npz").meta)

    def _check(self, found: dict) -> None:
        found = {"pretrained": False, **found}  # what it does not name had no other value when it was written
        if "recipe" in found:
            defaults = {f.name: f.default for f in fields(Recipe) if f.default is not MISSING}
            found = {**found, "recipe": {**plain(defaults), **found["recipe"]}}
        for name, value in self.facts.items():
            if found.get(name) != value:
                raise expected("folder", f"a run with {name} {value}", f"{found.get(name)} in {self.folder}")

    def resume(self, model: nn.Module, loss: nn.Module, optimizer: torch.optim.Optimizer) -> list:
        """Fill model, loss and optimiser from the checkpoint; the epochs done so far."""
        remove_strays(self.folder)
        if not (self.folder / "checkpoint.npz").exists():
            return []
        arrays = read_npz(self.folder / "checkpoint.npz")
        self._check(json.loads(str(arrays["facts"])))
        parts: dict[str, dict] = {"model": {}, "loss": {}, "optimizer": {}}
        for name, array in arrays.items():
            part, _, key = name.partition("/")
            if part in parts:
                parts[part][key] = array
        for module, part in ((model, "model"), (loss, "loss")):
            module.load_state_dict({name: torch.from_numpy(array) for name, array in parts[part].items()})
        state: dict[int, dict[str, Tensor]] = {}
        for key, array in parts["optimizer"].items():
            index, _, name = key.partition("/")
            state.setdefault(int(index), {})[name] = torch.from_numpy(array)
        optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
        return arrays["history"].tolist()

    def checkpoint(self, model: nn.Module, loss: nn.Module, optimizer, history: list, best_epoch: int) -> None:
        """Write everything that ``resume`` reads, and the log.

        Args:
            model: the network.
            loss: the loss, with its history where it keeps one.
            optimizer: SGD, Adam or AdamW.
            history: a row of ``LOG`` for each epoch so far.
            best_epoch: the epoch whose weights the run will keep, 0 for none. If it is this one, they are written to a
                file of their own, so that they are not written again at every epoch that is not better.
        """
        if best_epoch == len(history):
            write_npz(self.best(best_epoch), arrays_of(model), fast=True)
        arrays = {"facts": np.asarray(json.dumps(self.facts)), "history": np.asarray(history)}
        arrays |= {f"model/{name}": array for name, array in arrays_of(model).items()}
        arrays |= {f"loss/{name}": array for name, array in arrays_of(loss).items()}
        for index, entries in optimizer.state_dict()["state"].items():
            arrays |= {f"optimizer/{index}/{name}": x.cpu().numpy() for name, x in entries.items()}
        write_npz(self.folder / "checkpoint.npz", arrays, fast=True)
        for path in self.folder.glob("best-*.npz"):
            if path != self.best(best_epoch):
                path.unlink()
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([LOG, *([int(row[0]), *row[1:]] for row in history)])
        write_atomic(self.folder / "log.csv", lambda stream: stream.write(text.getvalue().encode()), sync=False)

    def best(self, epoch: int) -> Path:
        """Where the weights of an epoch lie, if it is the best."""
        return self.folder / f"best-{epoch}.npz"

    def finish(self, model: nn.Module, logits: Logits) -> None:
        """Write the results, the logits last: with them the run is finished."""
        write_npz(self.folder / "weights.npz", arrays_of(model))
        logits.save(self.folder / "logits.npz")
        for path in (*self.folder.glob("best-*.npz"), self.folder / "checkpoint.npz"):
            path.unlink(missing_ok=True)


def plain(settings: dict) -> dict:
    """Settings as JSON keeps them."""
    return json.loads(json.dumps(settings))
