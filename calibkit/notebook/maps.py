"""What a segmentation network says of whole images: classes and confidence in every pixel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from calibkit._checks import expected
from calibkit._files import read_npz

_CLASSES = {"vmin": 0, "vmax": 19, "cmap": "tab20", "interpolation": "nearest"}
_CONFIDENCE = {"vmin": 0, "vmax": 1, "cmap": "viridis"}


def maps(networks: Mapping[str, Path], images: Sequence[int] = (0, -1)) -> Figure:
    """Predicted classes and confidence of some images, a row a network.

    Args:
        networks: title -> file of its maps, as ``Network.maps`` finds it.
        images: which of the images of the files.

    Raises:
        ValueError: no network.
    """
    if not networks:
        raise expected("networks", "at least one", "none")
    columns = 2 * len(images)
    figure, axes = plt.subplots(
        len(networks), columns, figsize=(2.2 * columns, 1.55 * len(networks)), squeeze=False, layout="constrained"
    )
    for row, (title, path) in zip(axes, networks.items(), strict=True):
        stored = read_npz(path)
        for i, image in enumerate(images):
            row[2 * i].imshow(stored["predicted"][image], **_CLASSES)
            shade = row[2 * i + 1].imshow(stored["confidence"][image] / 255, **_CONFIDENCE)
        row[0].set_ylabel(title)
    for ax in axes.flat:
        ax.set(xticks=[], yticks=[])
    for ax, title in zip(axes[0], ("classes", "confidence") * len(images), strict=True):
        ax.set_title(title, fontsize="medium")
    figure.colorbar(shade, ax=axes, label="confidence", shrink=0.6)
    return figure
