"""Logits and weights that papers' authors and others published: fetched, checked, and written as the cache holds them.

``published.csv`` lists the files: what each becomes (``target``, below the cache, without its ``.npz``), which
``part`` of it the file holds, its address, size, checksum and licence; or why a target is ``skipped``. Three formats:

- .npy: one array;
- .p: a pickle of ``[(logits_val, y_val), (logits_test, y_test)]``, which may name arrays and nothing else;
- .pt, .pth: what torch saved, logits and labels of one split or the state of a network. Its weights are kept in half
  precision, its running statistics as they are.
"""

from __future__ import annotations

import csv
import os
import pickle
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import ClassVar
from urllib.parse import urlsplit

import numpy as np
import torch

from calibkit._checks import expected
from calibkit._files import read_npy, read_npz, remove_strays, write_npz
from calibkit._folders import PACKAGE, cache
from calibkit.data._archive import File, official
from calibkit.logits import ARRAYS, Logits

#: The list of the files.
TABLE = PACKAGE / "data" / "published.csv"


@dataclass(frozen=True)
class Target:
    """A file of the cache: its published parts, or why there are none."""

    name: str  #: "logits/..." or "weights/..."
    parts: tuple[tuple[str, File], ...]  #: names of arrays, of a split, or "val test" or "state"; and the file of each
    skipped: str  #: why it cannot be made; empty where it can

    @property
    def path(self) -> Path:
        """Where it is in the cache."""
        return cache() / f"{self.name}.npz"


def targets() -> list[Target]:
    """What ``TABLE`` lists, in its order.

    Example:
        >>> [target.name for target in targets() if target.parts and target.name.startswith("weights")]
        ['weights/cifar100_resnet110', 'weights/cifar100_resnet20', 'weights/cifar100_resnet56']
    """
    rows: dict[str, list[dict[str, str]]] = {}
    with open(TABLE, newline="", encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            rows.setdefault(row["target"], []).append(row)
    return [
        Target(name, () if of[0]["skipped"] else tuple((row["part"], _file(row)) for row in of), of[0]["skipped"])
        for name, of in rows.items()
    ]


def _file(row: dict[str, str]) -> File:
    """A file of the table; it lies on disk under its address, as ``wget -x`` has it."""
    address = urlsplit(row["url"])
    name = f"{address.netloc}{address.path}".lstrip("/")
    return File(name, row["url"], row["digest"], size=int(row["bytes"]) if row["bytes"] else None)


def fetch(archive: str | os.PathLike | None = None) -> Iterator[tuple[str, str]]:
    """Write what is missing, one after the other: ("logits/...", "here", "written", "failed" or "skipped: why") each.

    What is there and can be read is left alone. What one source refuses or gets wrong does not keep the others from
    being written.

    Args:
        archive: a folder with the files below their addresses, ``raw.githubusercontent.com/...``, as ``wget -x``
            leaves them. Default: download them into ``<cache>/archives``; a wrong one does not stay there.

    Raises:
        OSError: at the end: some failed; the text says which and why.
    """
    failed = {}
    for target in targets():
        try:
            state = _fetch(target, archive)
        except (OSError, ValueError) as error:
            failed[target.name], state = error, "failed"
        yield target.name, state
    if failed:
        raise OSError("\n".join([f"{len(failed)} could not be had:", *(f"{n}: {why}" for n, why in failed.items())]))


def _fetch(target: Target, archive: str | os.PathLike | None) -> str:
    """Write a target unless it is here, and can be read, or cannot be made; says which of them."""
    with suppress(FileNotFoundError, ValueError):
        (Logits.load if target.name.startswith("logits/") else read_npz)(target.path)
        return "here"
    if target.skipped:
        return f"skipped: {target.skipped}"
    remove_strays(target.path.parent)
    write_npz(target.path, _arrays(target, archive))
    return "written"


def _arrays(target: Target, archive: str | os.PathLike | None) -> dict[str, np.ndarray]:
    """The arrays of a target, from its files; checked where they are logits."""
    found = {}
    for part, file in target.parts:
        path = official(file, archive, n_files=2)  # of a folder of addresses
        found |= READ[PurePosixPath(file.name).suffix](path, part)
    if not target.name.startswith("logits/"):
        return found
    found = {name: np.ravel(found[name]).astype(np.int64) if "labels" in name else found[name] for name in ARRAYS}
    Logits(**found)
    return found


# ---------------------------------------------------------------------------------------------------------- the formats
class _Arrays(pickle.Unpickler):
    """Knows the four names by which numpy writes arrays, and no other."""

    _known: ClassVar = {
        "ndarray": np.ndarray,
        "dtype": np.dtype,
        "_reconstruct": np.zeros(1).__reduce__()[0],
        "_frombuffer": np.zeros(1).__reduce_ex__(5)[0],
    }

    def find_class(self, module: str, name: str) -> object:
        """What numpy means by ``name``."""
        if module.partition(".")[0] != "numpy" or name not in self._known:
            raise pickle.UnpicklingError(f"{module}.{name}, which no array needs")
        return self._known[name]


def read_pairs(path: Path) -> list[tuple[np.ndarray, np.ndarray]]:
    """Two pairs of arrays of numbers, ``[(logits_val, y_val), (logits_test, y_test)]``, from a pickle.

    A pickle is a program: this one can call numpy's constructors of arrays, and nothing else. ValueError tells of a
    damaged file, or of a pickle of anything else.
    """
    with open(path, "rb") as stream:
        try:
            pairs = [tuple(pair) for pair in _Arrays(stream).load()]
            arrays = [array for pair in pairs for array in pair]
            if list(map(len, pairs)) != [2, 2] or any(type(array) is not np.ndarray for array in arrays):
                raise pickle.UnpicklingError("something else")
            if any(array.dtype.kind not in "biuf" for array in arrays):
                raise pickle.UnpicklingError("arrays of something else")
            return pairs
        except Exception as error:  # a damaged pickle makes the unpickler raise whatever it likes
            got = f"{str(error) or type(error).__name__} in {str(path)!r}"
            raise expected("path", "a pickle of two pairs of arrays of numbers", got) from error


def _of_pickle(path: Path, part: str) -> dict[str, np.ndarray]:
    splits = zip(part.split(), read_pairs(path), strict=True)
    return {name: array for split, pair in splits for name, array in _named(split, *pair).items()}


def _of_pair(path: Path, part: str) -> dict[str, np.ndarray]:
    pair = _of_torch(path)
    if not (isinstance(pair, list | tuple) and len(pair) == 2 and all(map(torch.is_tensor, pair))):
        raise expected("path", "a pair of tensors, logits and labels", f"something else in {str(path)!r}")
    return _named(part, *(tensor.detach().numpy() for tensor in pair))


def _of_state(path: Path, part: str) -> dict[str, np.ndarray]:
    state = _of_torch(path)
    if not (isinstance(state, dict) and state and all(map(torch.is_tensor, state.values()))):
        raise expected("path", f"the {part} of a network: tensors by name", f"something else in {str(path)!r}")
    arrays = {name: tensor.detach().numpy() for name, tensor in state.items()}
    return {
        name: array.astype(np.float16) if array.dtype == np.float32 and "running_" not in name else array
        for name, array in arrays.items()
    }


def _of_torch(path: Path) -> object:
    """What torch saved, on the CPU; it may hold tensors and containers of them."""
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file makes torch raise whatever it likes
        raise expected("path", "a file of tensors that torch.save wrote", repr(str(path))) from error


def _named(split: str, logits: np.ndarray, labels: np.ndarray) -> dict[str, np.ndarray]:
    return {f"{split}_logits": logits, f"{split}_labels": labels}


#: How a file is read, by the end of its name.
READ: dict[str, Callable[[Path, str], dict[str, np.ndarray]]] = {
    ".npy": lambda path, part: {part: read_npy(path)},
    ".p": _of_pickle,
    **dict.fromkeys((".pt", ".pth"), lambda path, part: (_of_state if part == "state" else _of_pair)(path, part)),
}
