"""What a segmentation network says of a whole image: classes, confidence and mistakes in every pixel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from calibkit import plots
from calibkit._checks import expected
from calibkit._files import read_npz

COLUMNS = ("predicted class", "confidence", "mistakes")
_MISTAKES = ListedColormap([plots.RED, "#E6E6E6", "#FFFFFF"])  # wrong, right, no label


def maps(networks: Mapping[str, Path], names: Sequence[str]) -> Figure:
    """Predicted classes, confidence and mistakes of the first image, a row a network.

    Networks are by title the file of their maps, as ``Network.maps`` finds it; names are those of the classes.
    ValueError tells of no network, and of more classes predicted than there are names.
    """
    if not networks:
        raise expected("networks", "at least one", "none")
    stored = {title: read_npz(path) for title, path in networks.items()}
    most = max(int(arrays["predicted"].max()) for arrays in stored.values())
    if most >= len(names):
        raise expected("names", f"at least {most + 1}, one a class", len(names))
    colors = plt.get_cmap("tab20")(np.arange(len(names)) % 20)
    pixels = {"interpolation": "nearest"}
    figure, axes = plt.subplots(len(networks), 3, figsize=(7, 1.42 * len(networks) + 0.8), squeeze=False)
    for row, (title, arrays) in zip(axes, stored.items(), strict=True):
        predicted, confidence, right = (arrays[name][0] for name in ("predicted", "confidence", "right"))
        row[0].imshow(predicted, vmin=-0.5, vmax=len(names) - 0.5, cmap=ListedColormap(colors), **pixels)
        shade = row[1].imshow(confidence / 255, vmin=0, vmax=1, cmap=plt.get_cmap("viridis", 5), **pixels)
        row[2].imshow(right, vmin=-0.5, vmax=2.5, cmap=_MISTAKES, **pixels)
        row[0].set_ylabel(title)
    for ax in axes.flat:
        ax.set(xticks=[], yticks=[])
        ax.grid(False)
    for ax, title in zip(axes[0], COLUMNS, strict=True):
        ax.set_title(title)
    figure.colorbar(shade, ax=axes, label="confidence", shrink=0.5)
    legend = [Patch(color=color, label=name) for color, name in zip(colors, names, strict=True)]
    figure.legend(handles=legend, loc="outside lower center", ncols=6)
    return figure
