"""Fill the cache: download from the official source, check the checksum, write the arrays atomically."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, get_args

import numpy as np

from calibkit._checks import check_choice, expected
from calibkit._files import remove_strays, write_atomic
from calibkit._folders import cache
from calibkit.data import DATASETS, SplitName, files, images, texts
from calibkit.data._archive import File, official


@dataclass(frozen=True)
class Source:
    """Official files, and ``samples(name, paths, split)``, which reads the samples of a split.

    A sample is a pair of an image and its label or mask, or a dict where the data set is text.
    """

    files: tuple[File, ...]
    samples: Callable[[str, dict[str, Path], str], Iterable]


SOURCES: dict[str, Source] = {
    **{name: Source((file,), images.cifar) for name, file in images.CIFAR.items()},
    "svhn": Source(images.SVHN, images.svhn),
    "tiny_imagenet": Source((images.TINY_IMAGENET,), images.tiny_imagenet),
    "tiny_imagenet_20": Source((images.TINY_IMAGENET,), images.tiny_imagenet),
    "imagenet": Source(images.IMAGENET, images.imagenet),
    "cub200": Source((images.CUB200,), images.cub200),
    "voc2012": Source((images.VOC2012,), images.voc2012),
    "camvid": Source((images.CAMVID,), images.camvid),
    "20newsgroups": Source(texts.FILES, texts.samples),
}
#: What can be prepared: all data sets but ``digits``, which comes with scikit-learn.
NAMES = tuple(name for name, spec in DATASETS.items() if (spec.base or name) in SOURCES)


def prepare(
    name: str, archive: str | os.PathLike | None = None, splits: Collection[SplitName] = get_args(SplitName)
) -> Path:
    """Write the files of a data set that are missing; returns their folder. What is there is left alone.

    A split appears when it is whole; a killed call leaves a temporary file, which the next one removes before it
    goes on with the splits that are missing. Memory holds a few images, or one class of ImageNet.

    Args:
        name: one of ``NAMES``; a long-tailed name prepares the data set it is cut from.
        archive: the official archive, or the folder that holds them. Default: download into ``<cache>/archives``.
        splits: of those that the data set has on disk (:func:`calibkit.data.files`), what to write. Default: all.

    Raises:
        ValueError: an unknown name; a split that has no files of its own, as it is carved or read from another's; an
            archive with another checksum, or that is broken or lacks something.
        OSError: the download fails, or the file must be fetched by hand.
    """
    asked = check_choice("name", name, NAMES)
    name = DATASETS[asked].base or asked
    source = SOURCES[name]
    targets = {split: paths for split, paths in files(name).items() if split in splits}
    for split in splits:
        check_choice("splits", split, get_args(SplitName))
        if split not in targets and set(splits) != set(get_args(SplitName)):
            on_disk = f"{', '.join(files(name))}, from whose files the splits of {asked} are read"
            raise expected("splits", f"among {on_disk}", repr(split))
    targets = {split: paths for split, paths in targets.items() if not all(path.exists() for path in paths)}
    folder = cache() / name
    if not targets:
        return folder
    remove_strays(folder)
    needed = [file for file in source.files if file.splits is None or set(file.splits) & targets.keys()]
    official_files = {file.name: official(file, archive, len(needed)) for file in needed}
    for split, paths in targets.items():
        write = _write_lines if DATASETS[name].kind == "text" else _write_pairs
        write(*paths, source.samples(name, official_files, split))
    return folder


class _Rows:
    """A .npy file that grows by rows: its header is written again, at the same length, when their number is known."""

    def __init__(self, stream: IO[bytes]):
        self.stream, self.n, self.shape, self.dtype = stream, 0, (), np.dtype(np.uint8)

    def append(self, row: np.ndarray | int) -> None:
        row = np.asarray(row)
        if self.n == 0:
            self.shape, self.dtype = row.shape, row.dtype
            self._header()
        elif (row.shape, row.dtype) != (self.shape, self.dtype):
            raise expected("archive", f"images of shape {self.shape}", f"one of shape {row.shape}")
        self.stream.write(row.tobytes())
        self.n += 1

    def close(self) -> None:
        if self.n == 0:
            raise expected("archive", "one that holds images of every split", "none")
        self.stream.seek(0)
        self._header()

    def _header(self) -> None:
        facts = {"descr": self.dtype.str, "fortran_order": False, "shape": (self.n, *self.shape)}
        np.lib.format.write_array_header_1_0(self.stream, facts)


def _write_pairs(images_path: Path, labels_path: Path, pairs: Iterable[tuple]) -> None:
    """Images and labels (or masks) side by side, as they come; both files appear when both are whole."""

    def fill(images: IO[bytes], labels: IO[bytes]) -> None:
        columns = _Rows(images), _Rows(labels)
        for pair in pairs:
            for column, row in zip(columns, pair, strict=True):
                column.append(row)
        for column in columns:
            column.close()

    write_atomic(labels_path, lambda labels: write_atomic(images_path, lambda images: fill(images, labels)))


def _write_lines(path: Path, rows: Iterable[dict]) -> None:
    write_atomic(path, lambda stream: stream.writelines(json.dumps(row).encode() + b"\n" for row in rows))
