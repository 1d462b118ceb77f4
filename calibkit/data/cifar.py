"""CIFAR-10 and CIFAR-100 from their authors' binary archives (Krizhevsky 2009): no pickle is read.

A record is one label byte (two for CIFAR-100: coarse, then fine, of which the fine one is the label) and 3,072 pixel
bytes, channel by channel, row by row. Source: https://www.cs.toronto.edu/~kriz/cifar.html, with its checksums.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

import numpy as np

from calibkit._checks import expected

SOURCES = {
    "cifar10": ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530"),
    "cifar100": ("https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz", "03b5dce01913d631647c71ecec9e9cb8"),
}
MEMBERS = {
    "cifar10": {"train": [f"data_batch_{i}.bin" for i in range(1, 6)], "test": ["test_batch.bin"]},
    "cifar100": {"train": ["train.bin"], "test": ["test.bin"]},
}


def read(name: str, archive: Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Images (N, 32, 32, 3) uint8 and labels (N,) int64 of both splits of ``archive``.

    Raises:
        ValueError: a member is missing or its size is no multiple of a record.
    """
    n_label_bytes = 1 if name == "cifar10" else 2
    with tarfile.open(archive) as tar:
        members = {Path(member.name).name: member for member in tar.getmembers() if member.isfile()}
        splits = {}
        for split, wanted in MEMBERS[name].items():
            missing = [member for member in wanted if member not in members]
            if missing:
                raise expected("archive", f"one that holds {', '.join(wanted)}", f"one without {', '.join(missing)}")
            raw = b"".join(tar.extractfile(members[member]).read() for member in wanted)
            if len(raw) % (n_label_bytes + 3072):
                raise expected("archive", f"records of {n_label_bytes + 3072} bytes", f"{len(raw)} bytes in {split}")
            records = np.frombuffer(raw, np.uint8).reshape(-1, n_label_bytes + 3072)
            images = records[:, n_label_bytes:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
            splits[split] = np.ascontiguousarray(images), records[:, n_label_bytes - 1].astype(np.int64)
    return splits
