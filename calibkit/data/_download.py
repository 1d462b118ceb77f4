"""Official files on disk: fetched whole or not at all, and checked against what is published of them."""

from __future__ import annotations

import hashlib
import os
import shutil
import urllib.request
from http.client import HTTPException
from pathlib import Path
from typing import IO
from urllib.error import HTTPError, URLError

from calibkit._checks import expected
from calibkit._files import remove_strays, write_atomic
from calibkit._folders import cache
from calibkit.data._archive import File

#: Seconds that a server may be silent.
TIMEOUT = 60.0


def verified(file: File, archive: str | os.PathLike | None, n_files: int) -> Path:
    """The path of an official file, fetched if need be, with the published checksum.

    A wrong one stays where it is: it may be large, and its owner's.
    """
    if archive is not None:
        path = Path(archive)
        if path.is_dir():
            path = path / file.name
        elif n_files > 1:
            raise expected("archive", f"a folder that holds {file.name} and the others", path)
    else:
        path = cache() / "archives" / file.name
        if not path.exists() and file.url is None:
            raise FileNotFoundError(f"{file.name} needs a registration: fetch it, and give its folder as --archive")
        download(file.url, path)
    check(file, path, "; delete it and try again")
    return path


def refetched(file: File) -> Path:
    """The path of an official file that is small: a wrong one is fetched again, and is gone where it is wrong still."""
    path = cache() / "archives" / file.name
    remove_strays(path.parent)
    was_there = path.exists()
    try:
        check(file, download(file.url, path))
    except ValueError:
        path.unlink()
        if not was_there:
            raise
        return refetched(file)
    return path


def check(file: File, path: Path, cure: str = "") -> None:
    """Refuse a file of another size or checksum than the official one."""
    size = path.stat().st_size
    if file.size not in (None, size):
        raise expected("archive", f"a file of {file.size:,} bytes", f"{size:,} in {path}{cure}")
    if file.digest is None:
        return
    algorithm, digest = file.digest.split(":")
    with open(path, "rb") as stream:
        if algorithm == "git":
            found = hashlib.sha1(b"blob %d\0" % size + stream.read(), usedforsecurity=False).hexdigest()
        else:
            found = hashlib.file_digest(stream, algorithm).hexdigest()
    if found != digest:
        raise expected("archive", f"a file with {algorithm.upper()} {digest}", f"{found} in {path}{cure}")


def download(url: str, path: Path) -> Path:
    """Fetch ``url`` to ``path`` unless it is there; one that breaks, or is silent for ``TIMEOUT``, leaves nothing."""
    if not path.exists():
        try:
            with urllib.request.urlopen(url, timeout=TIMEOUT) as response:
                write_atomic(path, lambda stream: _copy(response, stream))
        except HTTPError as error:
            with error:  # it holds the connection
                raise OSError(f"{url}: {error}") from None
        except (URLError, HTTPException) as error:
            raise OSError(f"{url}: {getattr(error, 'reason', None) or repr(error)}") from error
    return path


def _copy(response, stream: IO[bytes]) -> None:
    shutil.copyfileobj(response, stream)
    length = response.headers.get("Content-Length")
    if length is not None and not length.isdecimal():
        raise OSError(f"{response.url}: a length of {length!r} bytes")
    if length is not None and int(length) != stream.tell():
        raise OSError(f"{response.url}: the connection ended after {stream.tell()} of {length} bytes")
