"""Keep trained networks: ``python tools/pack_logits.py runs/reduced/cifar10/resnet20-mbls-s3/logits.npz ...``.

Each file of logits goes to ``book/results/logits`` under the name that its network has, rounded to ``BITS`` significant
bits. A float32 has 24, and the last of them are noise that no compression shortens: the file becomes a fifth smaller,
the ECE of the networks tried moves by 0.01 points at most, the NLL by a millionth. It is packed with LZMA, which takes
another fifth off and which ``np.load`` reads like any npz. Then the networks are recorded as they are stored, by
``python -m book.kit record``.
"""

from __future__ import annotations

import dataclasses
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from book.kit.__main__ import main
from calibkit import Logits, Network, _folders
from calibkit._checks import expected
from calibkit._files import write_atomic

#: Significant bits that are kept, the leading one among them: a relative error of at most 2 ** -15, four digits.
BITS = 15


def rounded(z: np.ndarray) -> np.ndarray:
    """Each number with its first ``BITS`` significant bits, as the nearest such number; other dtypes as they are.

    Example:
        >>> rounded(np.float32([1, 1.0001, -7.00049, 0]))
        array([ 1.       ,  1.0001221, -7.0004883,  0.       ], dtype=float32)
    """
    if z.dtype != np.float32:
        return z
    fraction, exponent = np.frexp(z)
    with np.errstate(over="ignore"):  # of a class masked by the lowest float32
        result = np.ldexp(np.rint(np.ldexp(fraction, BITS)), exponent - BITS)
    return np.where(np.isfinite(result), result, z)


def packed(path: str | Path) -> Path:
    """The same npz, its entries compressed with LZMA; returns the file."""
    with zipfile.ZipFile(path) as archive:
        entries = {entry.filename: archive.read(entry) for entry in archive.infolist()}

    def write(stream) -> None:
        with zipfile.ZipFile(stream, "w") as archive:
            for name, entry in entries.items():
                archive.writestr(zipfile.ZipInfo(name), entry, zipfile.ZIP_LZMA)

    return write_atomic(path, write)


def keep(path: str | Path, folder: Path) -> Path:
    """Store a network's logits in ``folder``; returns the file. ValueError where they do not say of which network."""
    logits = Logits.load(path)
    try:
        network = Network(*(logits.meta[name] for name in ("dataset", "model", "loss", "seed")))
    except KeyError as error:
        raise expected("path", "the logits of a training", f"{str(path)!r}, whose meta has no {error}") from error
    shorter = {name: rounded(getattr(logits, name)) for name in ("val_logits", "test_logits")}
    return packed(dataclasses.replace(logits, **shorter).save(folder / f"{network}.npz"))


def keep_and_record(paths: Iterable[str | Path]) -> None:
    """Store networks, then record what is stored: rounding moves a number of some method, so one order is right."""
    kept = [str(keep(path, _folders.stored() / "logits")) for path in paths]
    if main(["record", *kept]):
        raise expected("paths", "networks that can be recorded", kept)


if __name__ == "__main__":
    keep_and_record(sys.argv[1:])
