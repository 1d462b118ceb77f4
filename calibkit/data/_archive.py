"""Official archives: which file from where, its files as bytes, its images as arrays. Nothing is unpacked on disk."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from calibkit._checks import expected
from calibkit._extras import needs

_BROKEN = (tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, EOFError, zlib.error)


@dataclass(frozen=True)
class File:
    """A file of the official source.

    Attributes:
        name: of the file.
        url: where it is; None: behind a registration.
        digest: "md5:...", "sha256:..." or "git:..." (the SHA-1 of a git blob) as published; None: nobody publishes one.
        splits: those that need it; None: all.
        size: in bytes; None: nobody says.
    """

    name: str
    url: str | None
    digest: str | None
    splits: tuple[str, ...] | None = None
    size: int | None = None


class Archive:
    """The regular files of a zip or tar archive by name; whatever else its names say, nothing is written anywhere."""

    def __init__(self, source: Path | BinaryIO):
        self.source = source
        with self._whole(), ExitStack() as stack:
            stream = stack.enter_context(open(source, "rb")) if isinstance(source, Path) else source
            if zipfile.is_zipfile(stream):
                self._archive = stack.enter_context(zipfile.ZipFile(stream))
                members = [(info.filename, info) for info in self._archive.infolist() if not info.is_dir()]
            else:
                stream.seek(0)
                self._archive = stack.enter_context(tarfile.open(fileobj=stream))
                members = [(member.name, member) for member in self._archive.getmembers() if member.isfile()]
            self._closing = stack.pop_all()
        self._members = {name.removeprefix("./"): member for name, member in members}

    @property
    def names(self) -> list[str]:
        """Names in the order of the archive."""
        return list(self._members)

    def read(self, name: str) -> bytes:
        """The bytes of one file; ValueError where it is missing or cut short."""
        self.in_order([name])
        with self._whole():
            if isinstance(self._archive, zipfile.ZipFile):
                return self._archive.read(self._members[name])
            return self._archive.extractfile(self._members[name]).read()

    def in_order(self, names: Iterable[str]) -> list[str]:
        """``names`` in the order of the archive, which a compressed tar reads fast; ValueError where one is missing."""
        names = set(names)
        if missing := sorted(names - self._members.keys()):
            text = f"one without {', '.join(missing[:3])}{' ...' if missing[3:] else ''}"
            raise expected("archive", f"one that holds {len(names)} file(s)", f"{text}, in {self.source}")
        return [name for name in self._members if name in names]

    def lines(self, name: str) -> list[str]:
        """The lines of a text file that are not empty."""
        return [line.strip() for line in self.read(name).decode().splitlines() if line.strip()]

    @contextmanager
    def _whole(self) -> Iterator[None]:
        try:
            yield
        except _BROKEN as error:
            raise expected("archive", "whole", f"{error or type(error).__name__} in {self.source}") from None

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *_) -> None:
        self._closing.close()


def image_of(raw: bytes):
    """The encoded image ``raw`` as a PIL image in RGB."""
    with needs("train"):
        from PIL import Image

    return Image.open(io.BytesIO(raw)).convert("RGB")


def crop_of(image, size: tuple[int, int], crop: int) -> np.ndarray:
    """``image`` resized to ``size`` (width, height), bilinear with antialiasing, and its central square."""
    with needs("train"):
        from PIL import Image

    left, top = (round((side - crop) / 2) for side in size)
    return np.asarray(image.resize(size, Image.Resampling.BILINEAR).crop((left, top, left + crop, top + crop)))
