"""Street View House Numbers (Netzer et al. 2011), cropped digits: 73,257 training and 26,032 test images, 32 x 32.

``load`` carves 6,000 training images as ``val``. The 531,131 easier "extra" images are not read. A file says 10 where
the digit is 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from calibkit._checks import expected
from calibkit._extras import needs
from calibkit.data._archive import File

_URL = "http://ufldl.stanford.edu/housenumbers/"
FILES = (
    File("train_32x32.mat", _URL + "train_32x32.mat", "md5:e26dedcc434d2e4c54c9b2d4a06d8373", ("train",)),
    File("test_32x32.mat", _URL + "test_32x32.mat", "md5:eb5a983be6a315427106f1b164d9cef3", ("test",)),
)


def samples(name: str, paths: dict[str, Path], split: str) -> Iterator[tuple[np.ndarray, int]]:
    """Images (32, 32, 3) and digits of ``train`` or ``test``."""
    with needs("train"):
        from scipy.io import loadmat

    path = paths[f"{split}_32x32.mat"]
    try:
        content = loadmat(path, variable_names=("X", "y"))
        images, labels = content["X"], content["y"].ravel()
    except Exception as error:  # scipy raises many kinds on a file that is cut
        raise expected("archive", "a MATLAB file with X and y", f"{error!r} in {path}") from None
    if images.shape != (32, 32, 3, len(labels)):
        raise expected("archive", f"X of shape (32, 32, 3, {len(labels)})", f"shape {images.shape} in {path}")
    yield from zip(images.transpose(3, 0, 1, 2), labels.astype(np.int64) % 10, strict=True)
