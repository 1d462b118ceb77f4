"""The folder of one training run: its lock, facts, checkpoints and log, each file whole or absent."""

from __future__ import annotations

import csv
import fcntl
import io
import json
import math
import os
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from calibkit._checks import expected
from calibkit._files import read_npz, remove_strays, write_atomic, write_npz
from calibkit.logits import Logits
from calibkit.models import load_weights
from calibkit.training.checkpoint import arrays_of, is_whole, pack, unpack
from calibkit.training.recipes import as_stored

if TYPE_CHECKING:
    from lightning_fabric import Fabric

LOG = (
    *("epoch", "lr", "train_loss", "train_accuracy"),
    *("val_nll", "val_accuracy", "val_ece", "val_class_std"),
    "seconds",
)


def best_epoch(history: list) -> int:
    """The last of the epochs with the largest validation accuracy, counted from 1; 0 before the first. The code of MbLS
    and ACLS takes the first of them.
    """
    accuracies = [row[LOG.index("val_accuracy")] for row in history]
    return len(accuracies) - int(np.argmax(accuracies[::-1])) if history else 0


class Run:
    """The folder of one run.

    While it runs: ``checkpoint.npz``, ``checkpoint-previous.npz``, and with the recipe's ``keep="best"`` the best
    weights of either, ``best-<epoch>.npz``. Once it is finished: ``weights.npz`` and ``logits.npz``.
    """

    def __init__(self, folder: Path, facts: dict) -> None:
        self.folder, self.facts = folder, as_json(facts)
        self.checkpoints = [folder / "checkpoint.npz", folder / "checkpoint-previous.npz"]
        self.weights, self.logits = folder / "weights.npz", folder / "logits.npz"

    @contextmanager
    def held(self, fabric: Fabric) -> Iterator[bool]:
        """Hold the folder against other runs while the block lasts; gives whether the run is finished.

        Raises:
            ValueError: another run holds it, or another run's files are in it; no checkpoint in it can be read.
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
        self._put_damaged_aside()
        return False

    def _finished(self) -> bool:
        if not self.logits.exists():
            return False
        self._check(Logits.load(self.logits).meta)
        if not self.weights.exists():
            raise expected("folder", "a run with weights.npz beside its logits.npz", self.folder)
        return True

    def _check(self, found: dict) -> None:
        found = {"pretrained": False, **found}  # what it does not name had no other value when it was written
        if "recipe" in found:
            found = {**found, "recipe": as_stored(found["recipe"])}
        found = self._comparable(found)
        for name, value in self.facts.items():
            if name != "paper" and found.get(name) != value:  # whose recipe it is: the recipe itself says more
                raise expected("folder", f"a run with {name} {value}", f"{found.get(name)} in {self.folder}")

    def _comparable(self, found: dict) -> dict:
        """The facts of a run, with this one's where they lack what another calibkit did not write."""
        ours = {name: self.facts[name] for name in ("network_digest", "loss_settings") if name in self.facts}
        found = {**ours, **found}
        if "loss_settings" in ours:
            theirs = found["loss_settings"].items()
            found["loss_settings"] = ours["loss_settings"] | {k: v for k, v in theirs if k in ours["loss_settings"]}
        return found

    def _put_damaged_aside(self) -> None:
        damaged = []
        for path in filter(Path.exists, self.checkpoints):
            if is_whole(path):
                break
            damaged.append(path)
        else:
            if damaged:
                found = " and ".join(map(str, damaged))
                raise expected("folder", "a run with a checkpoint that can be read, or none", f"the damaged {found}")
        for path in damaged:
            warnings.warn(f"{path} is damaged: the run goes on from the checkpoint before it", stacklevel=2)
            path.replace(path.with_suffix(".damaged"))

    def resume(self, model: nn.Module, loss: nn.Module, optimizer: torch.optim.Optimizer) -> list:
        """Fill model, loss and optimiser from the newest checkpoint; a row of ``LOG`` for each epoch done so far.

        Raises:
            ValueError: a checkpoint of another network, loss or optimiser.
        """
        for path in filter(Path.exists, self.checkpoints):
            arrays = read_npz(path)
            self._check(json.loads(str(arrays["facts"])))
            try:
                rows = unpack(arrays, model, loss, optimizer)
            except torch.cuda.OutOfMemoryError:
                raise
            except (KeyError, RuntimeError, ValueError) as error:
                raise expected("folder", "a run of this network and loss", f"{path}: {error}") from error
            added = [math.nan] * (len(LOG) - len(rows[0]))  # columns that a run begun by an older calibkit lacks
            return [[*row[:-1], *added, row[-1]] for row in rows]
        return []

    def checkpoint(self, model: nn.Module, loss: nn.Module, optimizer: torch.optim.Optimizer, history: list) -> None:
        """Write everything that ``resume`` reads, and the log. The checkpoint before it stays, and so do the weights
        that the run would keep if it ended there; they have files of their own, so as to be written once.
        """
        epoch = len(history)
        best = {best_epoch(history), best_epoch(history[:-1])} if self.facts["recipe"]["keep"] == "best" else set()
        if epoch in best:
            write_npz(self.best(epoch), arrays_of(model), compress=False)
        newest, previous = self.checkpoints
        if newest.exists():
            newest.replace(previous)
        write_npz(newest, pack(self.facts, history, model, loss, optimizer), compress=False)
        for path in set(self.folder.glob("best-*.npz")) - {self.best(kept) for kept in best}:
            path.unlink()
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([LOG, *([int(row[0]), *row[1:]] for row in history)])
        write_atomic(self.folder / "log.csv", lambda stream: stream.write(text.getvalue().encode()), sync=False)

    def best(self, epoch: int) -> Path:
        """Where the weights of an epoch lie, if it is the best."""
        return self.folder / f"best-{epoch}.npz"

    def finish(self, model: nn.Module, logits: Logits, maps: dict[str, np.ndarray] | None) -> None:
        """Write the results, the logits last: with them the run is finished."""
        if maps is not None:
            write_npz(self.folder / "maps.npz", maps)
        write_npz(self.weights, arrays_of(model))
        logits.save(self.logits)
        self._clean()

    def _clean(self) -> None:
        """Delete what only an unfinished run needs."""
        for path in (*self.folder.glob("best-*.npz"), *self.folder.glob("checkpoint*"), *self.folder.glob(".lock")):
            path.unlink(missing_ok=True)

    def result(self, model: nn.Module) -> Logits:
        """The Logits of a finished run, and its weights in ``model``."""
        load_weights(model, self.weights)
        return Logits.load(self.logits)


@contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Keep other processes, also those of other machines, out of a folder until the block or this process ends.

    Raises:
        ValueError: another process holds it.
    """
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


def as_json(settings: dict) -> dict:
    """Settings as JSON gives them back, with lists for tuples."""
    return json.loads(json.dumps(settings))
