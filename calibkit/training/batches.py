"""Batches for the network: a split is held on the device as it is stored, and augmented, mixed, normalised there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from calibkit.data import IGNORE, Dataset
from calibkit.training.recipes import Recipe

#: Bytes of a split beyond which it stays on disk, memory-mapped, and its batches are read from there: of the free
#: memory of a GPU this share; of a CPU's memory this many bytes.
SHARE, BYTES = 0.4, 4 * 2**30

Drawn = tuple[Tensor, Tensor]


class Feed:
    """Inputs (N, ...) of a data set: ``feed(index)`` gives a batch in the network's dtype and layout.

    Images come as float (B, C, H, W), normalised, in channels-last memory; tokens as int64 (B, L).
    """

    def __init__(self, inputs: np.ndarray, spec: Dataset, device: torch.device, dtype: torch.dtype) -> None:
        self.kind, self.augmentable, self.device, self.dtype = spec.kind, spec.augment, device, dtype
        fits = BYTES if device.type == "cpu" else SHARE * torch.cuda.mem_get_info(device)[0]
        self.inputs = torch.from_numpy(np.array(inputs)).to(device) if inputs.nbytes <= fits else inputs
        mean, std = (torch.tensor(x, dtype=torch.float64) for x in (spec.mean, spec.std))
        self.scale, self.shift = (1.0 / (255.0 * std)).to(device, dtype), (mean / std).to(device, dtype)

    def __len__(self) -> int:
        return len(self.inputs)

    def __call__(self, index: Tensor, drawn: Drawn | None = None) -> Tensor:
        """The rows of ``index`` (B,), cropped and mirrored as ``drawn``: see :func:`crop_and_flip`."""
        if isinstance(self.inputs, Tensor):
            batch = self.inputs[index]
        else:
            batch = torch.from_numpy(self.inputs[index.cpu().numpy()]).to(self.device)
        if self.kind == "text":
            return batch.long()
        if drawn is not None:
            batch = crop_and_flip(batch, *drawn)
        return (batch.to(self.dtype) * self.scale - self.shift).permute(0, 3, 1, 2)

    def batches(self, size: int | None = None) -> tuple[Tensor, ...]:
        """The index (N,) in order, in pieces of ``size``; default: 500 CIFAR images, or as much of what is larger."""
        if size is None:
            size = 100 if self.kind == "text" else max(1, min(500, 500 * 3072 // self.inputs[0].nbytes))
        return torch.arange(len(self), device=self.device).split(size)


def crop_and_flip(images: Tensor, crops: Tensor, flips: Tensor, fill: int = 0, padding: int = 4) -> Tensor:
    """(B, H, W, C): the window at ``crops`` (B, 2) of the image padded with ``fill``, mirrored where ``flips``."""
    n, height, width, _ = images.shape
    padded = F.pad(images, (0, 0, padding, padding, padding, padding), value=fill)
    rows = crops[:, :1] + torch.arange(height, device=images.device)
    columns = torch.arange(width, device=images.device).expand(n, width)
    columns = crops[:, 1:] + torch.where(flips[:, None], width - 1 - columns, columns)
    return padded[torch.arange(n, device=images.device)[:, None, None], rows[:, :, None], columns[:, None, :]]


@dataclass(frozen=True)
class Mix:
    """One draw of CutMix for a batch: a box of every image is replaced by that of a partner, and so is its share of the
    label: the loss is ``share * loss(z, y) + (1 - share) * loss(z, y[partner])``.

    The sides of the box are ``sqrt(1 - u)`` of the image's, u uniform on [0, 1], its centre anywhere; what lies outside
    of the image is cut off, and ``share`` is what is left of the image's own pixels (Yun et al. 2019, Sec. 3.1).
    ``partner`` (B,) says whose box it is, of which ``rows`` and ``columns`` are the sides.
    """

    partner: Tensor
    rows: slice
    columns: slice
    share: float

    @classmethod
    def draw(
        cls, n: int, height: int, width: int, generator: torch.Generator, device: torch.device | str = "cpu"
    ) -> Mix:
        """A box and partners for a batch of n images."""
        u, y, x = torch.rand(3, generator=generator, dtype=torch.float64, device="cpu").tolist()

        def side(at: float, size: int) -> slice:
            centre, half = int(at * size), int(size * (1 - u) ** 0.5) // 2
            return slice(max(0, centre - half), min(size, centre + half))

        rows, columns = side(y, height), side(x, width)
        area = (rows.stop - rows.start) * (columns.stop - columns.start)
        partner = torch.randperm(n, generator=generator, device="cpu").to(device)
        return cls(partner, rows, columns, 1 - area / (height * width))

    def paste(self, images: Tensor, partners: Tensor) -> Tensor:
        """Images (B, C, H, W) with the boxes of their partners, in place."""
        images[:, :, self.rows, self.columns] = partners[:, :, self.rows, self.columns]
        return images


class Batch(NamedTuple):
    """A step of training."""

    index: Tensor  #: (B,) of its rows in the training set
    labels: Tensor  #: (B, *) of them
    inputs: Tensor  #: of this process's share of the rows, augmented and mixed
    mix: Mix | None  #: how they were mixed, if they were


def shuffled(
    feed: Feed, labels: Tensor, recipe: Recipe, generator: torch.Generator, rank: int = 0, world: int = 1
) -> Iterator[Batch]:
    """The batches of an epoch, with all its randomness from ``generator``, alike on every process.

    A process takes every ``world``-th row of a batch, from ``rank`` on; batches of fewer rows than processes are left
    out.
    """
    n, device = len(feed), feed.device
    order = torch.randperm(n, generator=generator, device="cpu").to(device)
    crops = torch.randint(0, 9, (n, 2), generator=generator, device="cpu").to(device)
    if recipe.augment == "flip":
        crops.fill_(4)  # the window at (4, 4) is the image itself
    flips = torch.randint(0, 2, (n,), generator=generator, dtype=torch.bool, device="cpu").to(device)
    augment, mine = recipe.augment != "none" and feed.augmentable, slice(rank, None, world)
    for start in range(0, n, recipe.batch_size):
        rows = slice(start, start + recipe.batch_size)
        index = order[rows]
        drawn = (crops[rows], flips[rows]) if augment else None
        mix = None
        if recipe.cutmix and float(torch.rand((), generator=generator, device="cpu")) < recipe.cutmix:
            mix = Mix.draw(len(index), *feed.inputs.shape[1:3], generator, device)
        if len(index) < world:
            continue
        y = labels[index].long()
        if drawn and y.ndim > 1:
            y = crop_and_flip(y[..., None], *drawn, fill=IGNORE)[..., 0]
        inputs = feed(index[mine], drawn and tuple(x[mine] for x in drawn))
        if mix:
            others = mix.partner[mine]
            inputs = mix.paste(inputs, feed(index[others], drawn and tuple(x[others] for x in drawn)))
        yield Batch(index, y, inputs, mix)
