"""Files that are whole or absent: written under a temporary name, synced, renamed. No pickle is written or read."""

from __future__ import annotations

import fcntl
import json
import math
import os
import re
import secrets
import stat
import zipfile
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import IO

import numpy as np

from calibkit._checks import expected

#: What the arrays that are read from one npz may hold together beyond the size of the file: 40 times the logits of
#: ImageNet's validation images. A file that unpacks to more is likelier a trap.
LARGEST = 1 << 33
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{16}\.tmp")


def write_atomic(path: str | os.PathLike, write: Callable[[IO[bytes]], object], *, sync: bool = True) -> Path:
    """Call ``write(stream)`` on a temporary file beside ``path``, then rename it: a kill leaves the old or the new.

    With ``sync`` so does a loss of power, at the price of waiting for the disk. A file that was there keeps its mode;
    of a link the file that it names is written.

    Raises:
        ValueError: a folder, a device or a pipe, which no file is to take the place of.
    """
    given, path = Path(path), Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        raise expected("path", "that of a file", f"{str(path)!r}, which is none")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary, stream = _temporary(path)
    with stream:
        try:
            if path.is_file():
                os.fchmod(stream.fileno(), stat.S_IMODE(path.stat().st_mode))
            write(stream)
            stream.flush()
            if sync:
                os.fsync(stream.fileno())
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    if sync:
        _sync_folder(path.parent)
    return given


def _temporary(path: Path) -> tuple[Path, IO[bytes]]:
    """A new file beside ``path`` under a name that nobody can guess, locked as long as it is open."""
    while True:
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
        try:
            stream = open(temporary, "xb")
        except OSError as error:
            raise type(error)(error.errno, error.strerror, str(path)) from error
        locked = _lock(stream)
        if locked is None or (locked and os.fstat(stream.fileno()).st_nlink):
            return temporary, stream
        stream.close()  # taken for a stray before it was locked


def _lock(stream: IO[bytes]) -> bool | None:
    """Whether the lock was free: False where another holds it, None where the file system has no locks."""
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_strays(folder: str | os.PathLike) -> None:
    """Delete what killed writers left in a folder.

    A writer holds a lock on its temporary file, and its end, whatever it is, releases it, also on a folder that
    several machines share. Process numbers would not tell: each machine has its own.
    """
    for path in Path(folder).glob(".*.tmp"):
        if _TEMPORARY.fullmatch(path.name):
            try:
                with open(path, "r+b") as stream:
                    if _lock(stream):
                        path.unlink(missing_ok=True)
            except (FileNotFoundError, PermissionError):  # finished meanwhile, or another user's
                pass


def write_npz(path: str | os.PathLike, arrays: dict[str, np.ndarray], *, compress: bool = True) -> Path:
    """An npz, atomically; returns the path.

    Raises:
        ValueError: an array of objects, which only pickle could write; arrays that compress so well that
            :func:`read_npz` would refuse the file.
    """
    for name, array in arrays.items():
        if np.asarray(array).dtype.hasobject:
            raise expected(name, "an array of numbers or text", "one of objects")
    save = np.savez_compressed if compress else np.savez

    def write(stream: IO[bytes]) -> None:
        save(stream, **arrays)
        stream.flush()
        with zipfile.ZipFile(stream.name) as archive:
            beyond = _beyond(archive.infolist(), stream)
        if beyond > LARGEST:
            want = f"of at most {LARGEST:,} bytes more than their file takes, as only that is read again"
            raise expected("arrays", want, f"{beyond:,} bytes more")

    return write_atomic(path, write)


def read_npz(path: str | os.PathLike, names: Collection[str] | None = None) -> dict[str, np.ndarray]:
    """The arrays of an npz, or those of ``names`` that it has. No pickle is ever loaded, and no other entry is read.

    Raises:
        ValueError: no regular file; one that is damaged, holds objects, or of ``names`` more than ``LARGEST`` bytes
            beyond its own size.
        FileNotFoundError: no such file.
    """
    path = Path(path)
    if path.exists() and not path.is_file():  # a pipe would wait for its writer
        raise expected("path", "a regular file", repr(str(path)))
    with open(path, "rb") as stream:
        try:
            with zipfile.ZipFile(stream) as archive:
                entries = {entry.filename.removesuffix(".npy"): entry for entry in archive.infolist()}
                wanted = {name: entry for name, entry in entries.items() if names is None or name in names}
                if _beyond(wanted.values(), stream) > LARGEST:
                    raise ValueError(f"more than {LARGEST:,} bytes of arrays beyond the size of the file")
                return {name: _read_array(archive, entry) for name, entry in wanted.items()}
        except Exception as error:  # a damaged file makes zipfile, zlib and numpy raise whatever they like
            got = f"{error or type(error).__name__} in {str(path)!r}"
            raise expected("path", "a whole npz file without pickle", got) from error


def _beyond(entries: Iterable[zipfile.ZipInfo], stream: IO[bytes]) -> int:
    """The bytes that entries of a file unpack to, less those that the file itself takes."""
    return sum(entry.file_size for entry in entries) - os.fstat(stream.fileno()).st_size


def _read_array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> np.ndarray:
    """An entry, after a look at its header: what it promises is what is there."""
    with archive.open(entry) as stream:
        version = np.lib.format.read_magic(stream)
        header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = header(stream)
        if dtype.hasobject:
            raise ValueError(f"objects, which only pickle could read, as {entry.filename}")
        if math.prod(shape) * dtype.itemsize != entry.file_size - stream.tell():
            raise ValueError(f"an array of another size than its header says, as {entry.filename}")
        stream.seek(0)
        return np.lib.format.read_array(stream, allow_pickle=False)


def read_json(path: str | os.PathLike, text: object, object_hook: Callable[[dict], object] | None = None) -> dict:
    """The JSON object that an entry of ``path`` holds as text.

    Raises:
        ValueError: anything else.
    """
    try:
        found = json.loads(str(text), object_hook=object_hook)
    except (ValueError, RecursionError) as error:
        raise expected("path", "a file with facts in JSON", f"{error} in {str(path)!r}") from error
    if not isinstance(found, dict):
        raise expected("path", "a file with facts as a JSON object", f"{type(found).__name__} in {str(path)!r}")
    return found


def read_folder(folder: str | os.PathLike, names: Collection[str]) -> dict[str, np.ndarray]:
    """The arrays of ``<name>.npy`` in a folder, of those ``names`` that it has; an object array raises ValueError."""
    arrays = {}
    for path in [path for name in names if (path := Path(folder) / f"{name}.npy").is_file()]:
        try:
            arrays[path.stem] = np.load(path, allow_pickle=False)
        except (EOFError, ValueError) as error:
            raise expected("path", "an array of numbers that numpy.save wrote", repr(str(path))) from error
    return arrays
