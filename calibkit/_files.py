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

    With ``sync`` so does a loss of power. A file that was there keeps its mode; a link stays, and its file is written.
    ValueError tells of no path, and of a folder, a device or a pipe, which no file is to take the place of; OSError has
    the name ``path``, also where it is the disk that is full.
    """
    given, path = as_path(path), Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        raise expected("path", "that of a file", f"{str(path)!r}, which is none")
    path.parent.mkdir(parents=True, exist_ok=True)
    with _named(given), _temporary(path) as stream:
        try:
            if path.is_file():
                os.fchmod(stream.fileno(), stat.S_IMODE(path.stat().st_mode))
            write(stream)
            stream.flush()
            if sync:
                os.fsync(stream.fileno())
            os.replace(stream.name, path)
        finally:
            Path(stream.name).unlink(missing_ok=True)
    if sync:
        _sync_folder(path.parent)
    return given


def write_text(path: str | os.PathLike, text: str) -> Path:
    """A text file, atomically; what UTF-8 cannot hold is written as an escape."""
    return write_atomic(path, lambda stream: stream.write(text.encode("utf-8", "backslashreplace")))


def write_together(
    folder: str | os.PathLike, names: Collection[str], write: Callable[[Path], object]
) -> tuple[Path, ...]:
    """Let ``write(new)`` fill a new folder with files of ``names``, then take these into ``folder``; their paths.

    All old files of ``names`` go before the first new one comes: a kill leaves the old, the new or a part of these, and
    a full disk the old, but nothing leaves files of two writers. A folder that had to be made is removed after an
    error. OSError has the name of the file that cannot be written or replaced.
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
                written = tuple(folder / name for name in names if Path(new, name).exists())
                for path in written:
                    os.replace(Path(new, path.name), path)
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
    return written


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Give the name of the file to an error that names the temporary one, or none, as of a full or broken disk."""
    try:
        yield
    except OSError as error:
        of_the_disk = error.filename is None and error.errno in _OF_THE_DISK
        if not (of_the_disk or _TEMPORARY.fullmatch(os.path.basename(str(error.filename)))):
            raise
        raise type(error)(error.errno, error.strerror, str(path)) from error


def _temporary(path: Path) -> IO[bytes]:
    """A new file beside ``path`` under a name that nobody can guess, locked as long as it is open."""
    while True:
        stream = open(path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp"), "xb")
        locked = _lock(stream)
        if locked is None or (locked and os.fstat(stream.fileno()).st_nlink):
            return stream
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

    A writer holds a lock on its temporary file until it ends, also on a folder that several machines share.
    """
    for path in Path(folder).glob(".*.tmp"):
        if _TEMPORARY.fullmatch(path.name):
            with suppress(FileNotFoundError, PermissionError), open(path, "r+b") as stream:  # finished, or another's
                if _lock(stream):
                    path.unlink(missing_ok=True)


def write_npz(path: str | os.PathLike, arrays: dict[str, np.ndarray], *, compress: bool = True) -> Path:
    """An npz, atomically; returns the path.

    ValueError tells of an array of objects, which only pickle could write, and of arrays that compress so well that
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

    ValueError tells of no regular file, and of one that is damaged, holds objects, or of ``names`` more than
    ``LARGEST`` bytes beyond its own size.
    """
    found = {}
    with _opened(path, "a whole npz file without pickle") as stream, zipfile.ZipFile(stream) as archive:
        entries = {entry.filename.removesuffix(".npy"): entry for entry in archive.infolist()}
        wanted = {name: entry for name, entry in entries.items() if names is None or name in names}
        check_unpacked(_beyond(wanted.values(), stream))
        for name, entry in wanted.items():
            with archive.open(entry) as packed:
                found[name] = _read_npy(packed, entry.file_size, f", as {entry.filename}")
    return found


@contextmanager
def _opened(path: str | os.PathLike, want: str) -> Iterator[IO[bytes]]:
    """The bytes of a regular file; a damaged one makes zipfile, zlib and numpy raise whatever they like."""
    path = regular(path)
    with open(path, "rb") as stream:
        try:
            yield stream
        except Exception as error:
            raise expected("path", want, f"{str(error) or type(error).__name__} in {str(path)!r}") from error


def as_path(path: str | os.PathLike, name: str = "path") -> Path:
    """A path without what no name of a file has, a NUL character or a lone surrogate; ValueError of another."""
    if not isinstance(path, str | os.PathLike):
        raise expected(name, "text or a pathlib.Path", repr(path))
    if any(c == "\0" or "\ud800" <= c < "\udc80" or "\udcff" < c <= "\udfff" for c in str(path)):
        raise expected(name, "without NUL characters and lone surrogates", repr(str(path)))
    return Path(path)


def regular(path: str | os.PathLike) -> Path:
    """``path``, if a file is there that ends; ValueError of a folder, a device or a pipe, which waits for a writer."""
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
    """The array that ``numpy.save`` wrote to ``path``; errors as in :func:`read_npz`."""
    with _opened(path, "an array of numbers that numpy.save wrote") as stream:
        return _read_npy(stream, os.fstat(stream.fileno()).st_size)


def read_json(path: str | os.PathLike, text: object, object_hook: Callable[[dict], object] | None = None) -> dict:
    """The JSON object that an entry of ``path`` holds as text; ValueError of anything else."""
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
