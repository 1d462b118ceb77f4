"""Files that are whole or absent: written under a temporary name, synced, renamed. No pickle is written or read."""

from __future__ import annotations

import errno
import fcntl
import json
import math
import os
import re
import secrets
import stat
import tempfile
import zipfile
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import numpy as np

from calibkit._checks import expected

#: What a file may unpack to beyond its size: ten times the logits of ImageNet's validation images. More is a trap.
LARGEST = 1 << 31
_OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{16}\.tmp")


def write_atomic(path: str | os.PathLike, write: Callable[[IO[bytes]], object], *, sync: bool = True) -> Path:
    """Call ``write(stream)`` on a temporary file beside ``path``, then rename it: a kill leaves the old or the new.

    With ``sync`` so does a loss of power, at the price of waiting for the disk. A file that was there keeps its mode;
    of a link the file that it names is written.

    Raises:
        ValueError: a folder, a device or a pipe, which no file is to take the place of; no path.
        OSError: with the name ``path``, also where it is the disk that is full.
    """
    given, path = as_path(path), Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        raise expected("path", "that of a file", f"{str(path)!r}, which is none")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary, stream = _temporary(path)
    with _named(given, temporary), stream:
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


def write_text(path: str | os.PathLike, text: str) -> Path:
    """A text file, atomically; what UTF-8 cannot hold is written as an escape."""
    return write_atomic(path, lambda stream: stream.write(text.encode("utf-8", "backslashreplace")))


def write_together(folder: str | os.PathLike, names: Collection[str], write: Callable[[Path], object]) -> list[Path]:
    """Let ``write(new)`` fill a new folder, then take its files into ``folder`` in the place of those of ``names``.

    The old files go before the first new one comes: a kill leaves the old, the new or a part of these, and a full disk
    the old, but nothing leaves files of two writers. A folder that had to be made is removed after an error.

    Raises:
        OSError: with the name of the file that cannot be written or replaced.
    """
    folder = as_path(folder)
    made = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(prefix=".", suffix=".tmp", dir=folder) as new:
            try:
                write(Path(new))
                for name in names:
                    (folder / name).unlink(missing_ok=True)
                _sync_folder(folder)
                written = sorted(Path(new).iterdir())
                for path in written:
                    os.replace(path, folder / path.name)
            except OSError as error:
                if error.filename is None or Path(error.filename).parent != Path(new):
                    raise
                name = str(folder / Path(error.filename).name)
                raise type(error)(error.errno, error.strerror, name) from error
    except BaseException:
        if made:
            with suppress(OSError):
                folder.rmdir()
        raise
    _sync_folder(folder)
    return [folder / path.name for path in written]


@contextmanager
def _named(path: Path, temporary: Path) -> Iterator[None]:
    """Give the name of the file to the error of a disk that is full or broken, which has none, or a temporary one."""
    try:
        yield
    except OSError as error:
        if error.filename != str(temporary) and (error.filename is not None or error.errno not in _OF_THE_DISK):
            raise
        raise type(error)(error.errno, error.strerror, str(path)) from error


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
    save: Callable[..., None] = np.savez_compressed if compress else np.savez

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
    path = regular(path)
    with open(path, "rb") as stream:
        try:
            with zipfile.ZipFile(stream) as archive:
                entries = {entry.filename.removesuffix(".npy"): entry for entry in archive.infolist()}
                wanted = {name: entry for name, entry in entries.items() if names is None or name in names}
                check_unpacked(_beyond(wanted.values(), stream))
                return {name: _read_array(archive, entry) for name, entry in wanted.items()}
        except Exception as error:  # a damaged file makes zipfile, zlib and numpy raise whatever they like
            got = f"{str(error) or type(error).__name__} in {str(path)!r}"
            raise expected("path", "a whole npz file without pickle", got) from error


def as_path(path: str | os.PathLike, name: str = "path") -> Path:
    """A path without what no name of a file has, a NUL character or a lone surrogate; ValueError of another."""
    if not isinstance(path, str | os.PathLike):
        raise expected(name, "text or a pathlib.Path", repr(path))
    if any(c == "\0" or "\ud800" <= c < "\udc80" or "\udcff" < c <= "\udfff" for c in str(path)):
        raise expected(name, "without NUL characters and lone surrogates", repr(str(path)))
    return Path(path)


def regular(path: str | os.PathLike) -> Path:
    """``path``, if a file is there that ends: a pipe waits for its writer, and a device may go on for ever.

    Raises:
        ValueError: a folder, a pipe or a device.
        FileNotFoundError: no such file.
    """
    path = as_path(path)
    if not stat.S_ISREG(path.stat().st_mode):
        raise expected("path", "a regular file", repr(str(path)))
    return path


def check_unpacked(beyond: int) -> None:
    """Raise ValueError where a file would unpack to more than ``LARGEST`` bytes beyond its own size."""
    if beyond > LARGEST:
        raise ValueError(f"more than {LARGEST:,} bytes of arrays beyond the size of the file")


def check_zip(path: Path) -> None:
    """Raise ValueError where ``path`` is a zip whose entries unpack to too much; other files are let through."""
    if zipfile.is_zipfile(path):
        with open(path, "rb") as stream, zipfile.ZipFile(stream) as archive:
            check_unpacked(_beyond(archive.infolist(), stream))


def _beyond(entries: Iterable[zipfile.ZipInfo], stream: IO[bytes]) -> int:
    """The bytes that entries of a file unpack to, less those that the file itself takes."""
    return sum(entry.file_size for entry in entries) - os.fstat(stream.fileno()).st_size


def _read_array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> np.ndarray:
    """An entry, as :func:`_read_npy` reads it."""
    with archive.open(entry) as stream:
        return _read_npy(stream, entry.file_size, f", as {entry.filename}")


def _read_npy(stream: IO[bytes], size: int, where: str = "") -> np.ndarray:
    """The array of a stream of ``size`` bytes, after a look at its header: what it promises is what is there."""
    version = np.lib.format.read_magic(stream)
    header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = header(stream)
    if dtype.hasobject:
        raise ValueError(f"objects, which only pickle could read{where}")
    if math.prod(shape) * dtype.itemsize != size - stream.tell():
        raise ValueError(f"an array of another size than its header says{where}")
    stream.seek(0)
    return np.lib.format.read_array(stream, allow_pickle=False)


def read_npy(path: str | os.PathLike) -> np.ndarray:
    """The array that ``numpy.save`` wrote to ``path``; a zip of arrays under this name is none.

    Raises:
        ValueError: no regular file; one that is damaged, or holds objects.
        FileNotFoundError: no such file.
    """
    path = regular(path)
    with open(path, "rb") as stream:
        try:
            return _read_npy(stream, os.fstat(stream.fileno()).st_size)
        except Exception as error:  # a damaged file makes numpy raise whatever it likes
            got = f"{str(error) or type(error).__name__} in {str(path)!r}"
            raise expected("path", "an array of numbers that numpy.save wrote", got) from error


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
    """The arrays of ``<name>.npy`` in a folder, of those ``names`` that it has, as :func:`read_npy` reads them."""
    return {name: read_npy(path) for name in names if (path := Path(folder) / f"{name}.npy").exists()}
