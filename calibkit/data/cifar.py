"""CIFAR-10 and CIFAR-100 from their authors' binary archives (Krizhevsky 2009): no pickle is read.

A record is one label byte (two for CIFAR-100: coarse, then fine, of which the fine one is the label) and 3,072 pixel
bytes, channel by channel, row by row. Source: https://www.cs.toronto.edu/~kriz/cifar.html, with its checksums.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from calibkit._checks import expected
from calibkit.data._archive import Archive, File

_URL = "https://www.cs.toronto.edu/~kriz/"
FILES = {
    "cifar10": (
        File("cifar-10-binary.tar.gz", _URL + "cifar-10-binary.tar.gz", "md5:c32a1d4ab5d03f1284b67883e8d87530"),
    ),
    "cifar100": (
        File("cifar-100-binary.tar.gz", _URL + "cifar-100-binary.tar.gz", "md5:03b5dce01913d631647c71ecec9e9cb8"),
    ),
}
MEMBERS = {
    "cifar10": {
        "train": [f"cifar-10-batches-bin/data_batch_{i}.bin" for i in range(1, 6)],
        "test": ["cifar-10-batches-bin/test_batch.bin"],
    },
    "cifar100": {"train": ["cifar-100-binary/train.bin"], "test": ["cifar-100-binary/test.bin"]},
}


def samples(name: str, paths: dict[str, Path], split: str) -> Iterator[tuple[np.ndarray, int]]:
    """Images (32, 32, 3) and classes of ``train`` or ``test``."""
    (path,) = paths.values()
    n_label_bytes = 1 if name == "cifar10" else 2
    with Archive(path) as archive:
        archive.in_order(MEMBERS[name][split])
        raw = b"".join(archive.read(member) for member in MEMBERS[name][split])
    if len(raw) % (n_label_bytes + 3072):
        raise expected("archive", f"records of {n_label_bytes + 3072} bytes", f"{len(raw)} bytes in {split}")
    records = np.frombuffer(raw, np.uint8).reshape(-1, n_label_bytes + 3072)
    images = records[:, n_label_bytes:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    yield from zip(images, records[:, n_label_bytes - 1].astype(np.int64), strict=True)
