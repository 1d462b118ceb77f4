"""Files that are whole or absent: written under a temporary name, synced, renamed. No pickle is written or read."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import IO

import numpy as np


def write_atomic(path: str | os.PathLike, write: Callable[[IO[bytes]], object], *, sync: bool = True) -> Path:
    """Call ``write(stream)`` on a temporary file beside ``path``, then rename it: a kill leaves the old or the new.

    With ``sync`` so does a loss of power, at the price of waiting for the disk.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as stream:
            write(stream)
            if sync:
                stream.flush()
                os.fsync(stream.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def remove_strays(folder: str | os.PathLike) -> None:
    """Delete what killed writers left in a folder: temporary files of processes that are no more."""
    for path in Path(folder).glob(".*.tmp"):
        if (match := re.fullmatch(r"\..+\.(\d+)\.tmp", path.name)) is None:
            continue
        try:
            os.kill(int(match[1]), 0)
        except ProcessLookupError:
            path.unlink(missing_ok=True)
        except PermissionError:  # another user's, alive
            pass


def write_npz(path: str | os.PathLike, arrays: dict[str, np.ndarray], *, compress: bool = True) -> Path:
    """An npz, atomically; returns the path."""
    save = np.savez_compressed if compress else np.savez
    return write_atomic(path, lambda stream: save(stream, allow_pickle=False, **arrays))


def read_npz(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """All arrays of an npz; an object array raises ValueError, for no pickle is ever loaded."""
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}
