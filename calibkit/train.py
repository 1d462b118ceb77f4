"""Training: ``fit(model, loss, data, recipe)`` gives Logits, survives a kill, and ends in the same result.

The data set lies on the device as uint8; crops and flips are drawn there for a whole batch at once. All randomness of
an epoch comes from (seed, epoch), so a run that resumes after a kill sees the images that it would have seen.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from calibkit import data as datasets
from calibkit._checks import check_choice
from calibkit._io import write_npz
from calibkit._run import Run, arrays_of
from calibkit.logits import Logits
from calibkit.logits import load as load_logits
from calibkit.models import load_weights
from calibkit.recipes import RECIPES, Recipe

__all__ = ["RECIPES", "Recipe", "fit", "predict"]


def fit(
    model: nn.Module,
    loss: nn.Module,
    data: str,
    recipe: Recipe,
    *,
    folder: str | os.PathLike,
    seed: int = 0,
    device: str = "auto",
    devices: int = 1,
    meta: dict | None = None,
) -> Logits:
    """Train ``model`` on data set ``data`` and return its validation and test logits.

    ``folder`` gets ``checkpoint.npz`` after every epoch, ``log.csv``, and at the end ``weights.npz`` and
    ``logits.npz``. A killed run is resumed by the same call and ends in the same logits; a finished one returns them.

    Args:
        model: network from images (N, C, H, W) to logits (N, K); its fresh weights are the starting point.
        loss: ``loss(logits, labels) -> scalar``, a key of LOSSES or any module.
        data: name of a data set.
        recipe: what to do.
        folder: where the run's files go.
        seed: of image order, augmentation and stochastic layers.
        device: "auto", "cpu" or "cuda".
        devices: processes or GPUs; more than one trains with distributed data parallel.
        meta: facts to store in the Logits beside the run's own, as model and loss names.

    Raises:
        ValueError: a folder that holds a run with another recipe, data set or seed.
    """
    from lightning_fabric import Fabric

    spec = datasets.DATASETS[check_choice("data", data, datasets.DATASETS)]
    check_choice("device", device, ("auto", "cpu", "cuda"))
    run = Run(Path(folder), {**(meta or {}), "dataset": data, "seed": seed, "recipe": _plain(recipe)})
    if run.finished:
        load_weights(model, run.folder / "weights.npz")
        return load_logits(run.folder / "logits.npz")

    torch.manual_seed(seed)
    fabric = Fabric(accelerator=device, devices=devices, precision=recipe.precision)
    fabric.launch()
    dtype = torch.float64 if recipe.precision == "64-true" else torch.float32
    splits = {name: datasets.load(data, name) for name in ("train", "val", "test")}
    optimizer = _optimizer(model, recipe)
    wrapped, optimizer = fabric.setup(model.to(memory_format=torch.channels_last), optimizer)
    images, labels, val_images, val_labels = (
        torch.from_numpy(np.array(x)).to(fabric.device) for x in (*splits["train"], *splits["val"])
    )
    prepare = _Normalise(spec, fabric.device, dtype)

    loss = loss.to(fabric.device)
    history, best = run.resume(model, loss, optimizer)
    while (epoch := len(history)) < recipe.epochs:
        start = time.perf_counter()
        row = _epoch(fabric, wrapped, loss, optimizer, images, labels, prepare, recipe, epoch, seed, spec.augment)
        val_logits = torch.as_tensor(_forward(wrapped, val_images, prepare), device=fabric.device)
        val_accuracy = float((val_logits.argmax(1) == val_labels).double().mean())
        val_nll = float(F.cross_entropy(val_logits.double(), val_labels))
        history.append([epoch + 1, *row, val_nll, val_accuracy, time.perf_counter() - start])
        if recipe.keep == "best" and val_accuracy >= max(past[5] for past in history):
            best = arrays_of(model)
        if fabric.is_global_zero:
            run.checkpoint(model, loss, optimizer, history, best)
        fabric.barrier()
    if best is not None:
        model.load_state_dict({name: torch.from_numpy(array) for name, array in best.items()})

    logits = {name: predict(model, splits[name].inputs, data) for name in ("val", "test")}
    accuracy = float((logits["test"].argmax(1) == splits["test"].labels).mean())
    facts = {
        **run.facts,
        "epochs": recipe.epochs,
        "split": "/".join(str(len(splits[name].labels)) for name in splits),
        "accuracy": accuracy,
        "commit": _commit(),
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name() if fabric.device.type == "cuda" else "cpu",
    }
    result = Logits(logits["val"], splits["val"].labels, logits["test"], splits["test"].labels, facts)
    if fabric.is_global_zero:
        write_npz(run.folder / "weights.npz", arrays_of(model))
        result.save(run.folder / "logits.npz")
    return result


def predict(model: nn.Module, images: np.ndarray, data: str, batch_size: int = 500) -> np.ndarray:
    """Logits (N, K) of uint8 images (N, H, W, C) of data set ``data``, in the precision of the model's weights."""
    weight = next(model.parameters())
    prepare = _Normalise(datasets.DATASETS[check_choice("data", data, datasets.DATASETS)], weight.device, weight.dtype)
    return _forward(model, torch.from_numpy(np.array(images)).to(weight.device), prepare, batch_size)


def _optimizer(model: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    if recipe.optimizer == "sgd":
        return torch.optim.SGD(model.parameters(), recipe.lr, recipe.momentum, weight_decay=recipe.weight_decay)
    adam = torch.optim.Adam if recipe.optimizer == "adam" else torch.optim.AdamW
    return adam(model.parameters(), recipe.lr, (recipe.momentum, 0.999), weight_decay=recipe.weight_decay)


class _Normalise:
    """uint8 (N, H, W, C) to normalised (N, C, H, W) in channels-last memory."""

    def __init__(self, spec: datasets.Dataset, device: torch.device, dtype: torch.dtype) -> None:
        self.scale = 1.0 / (255.0 * torch.tensor(spec.std, dtype=torch.float64))
        self.shift = torch.tensor(spec.mean, dtype=torch.float64) / torch.tensor(spec.std, dtype=torch.float64)
        self.scale, self.shift = self.scale.to(device, dtype), self.shift.to(device, dtype)

    def __call__(self, images: Tensor) -> Tensor:
        return (images.to(self.scale.dtype) * self.scale - self.shift).permute(0, 3, 1, 2)


@torch.no_grad()
def _forward(model: nn.Module, images: Tensor, prepare: _Normalise, batch_size: int = 500) -> np.ndarray:
    training = model.training
    model.eval()
    logits = torch.cat([model(prepare(batch)) for batch in images.split(batch_size)])
    model.train(training)
    return logits.cpu().numpy()


def _epoch(fabric, model, loss, optimizer, images, labels, prepare, recipe, epoch, seed, augmentable) -> list[float]:
    """One pass over the training images; returns learning rate, mean loss and accuracy."""
    generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
    torch.manual_seed(seed * 1_000_003 + epoch)  # stochastic layers
    n = len(labels)
    order = torch.randperm(n, generator=generator).to(fabric.device)
    crops = torch.randint(0, 9, (n, 2), generator=generator).to(fabric.device)
    if recipe.augment == "flip":
        crops.fill_(4)  # the window at (4, 4) is the image itself
    flips = torch.randint(0, 2, (n,), generator=generator, dtype=torch.bool).to(fabric.device)
    augment = recipe.augment != "none" and augmentable
    indexed = getattr(loss, "uses_index", False)  # it keeps a history of every image
    total = torch.zeros(2, dtype=torch.float64, device=fabric.device)
    model.train()
    steps = -(-n // recipe.batch_size)
    for step in progress(range(steps), f"epoch {epoch + 1}/{recipe.epochs}"):
        lr = recipe.lr_at(epoch + step / steps)
        for group in optimizer.param_groups:
            group["lr"] = lr
        whole = order[step * recipe.batch_size : (step + 1) * recipe.batch_size]
        at = slice(
            step * recipe.batch_size + fabric.global_rank, step * recipe.batch_size + len(whole), fabric.world_size
        )
        chosen = order[at]
        batch = _crop_and_flip(images[chosen], crops[at], flips[at]) if augment else images[chosen]
        logits = model(prepare(batch))
        value = loss(logits, labels[chosen], *([chosen] if indexed else []))
        optimizer.zero_grad(set_to_none=True)
        fabric.backward(value)
        if recipe.clip_norm is not None:
            fabric.clip_gradients(model, optimizer, max_norm=recipe.clip_norm)
        optimizer.step()
        hits = logits.detach().argmax(1) == labels[chosen]
        if indexed:
            loss.update(whole, _gather(fabric, hits, len(whole)))
        total += torch.stack([value.detach().double() * len(chosen), hits.sum().double()])
    if indexed:
        loss.end_epoch()
    total = fabric.all_reduce(total, reduce_op="sum").tolist()
    return [lr, total[0] / n, total[1] / n]


def _gather(fabric, part: Tensor, n: int) -> Tensor:
    """The (n,) bool vector of which each process holds every ``world_size``-th entry."""
    whole = torch.zeros(n, dtype=torch.int32, device=part.device)
    whole[fabric.global_rank :: fabric.world_size] = part.int()
    return fabric.all_reduce(whole, reduce_op="sum").bool()


def _crop_and_flip(images: Tensor, crops: Tensor, flips: Tensor, padding: int = 4) -> Tensor:
    """(B, H, W, C) uint8: the window at ``crops`` (B, 2) of the black-padded image, mirrored where ``flips``."""
    n, height, width, _ = images.shape
    padded = F.pad(images, (0, 0, padding, padding, padding, padding))
    rows = crops[:, :1] + torch.arange(height, device=images.device)
    columns = torch.arange(width, device=images.device).expand(n, width)
    columns = crops[:, 1:] + torch.where(flips[:, None], width - 1 - columns, columns)
    return padded[torch.arange(n, device=images.device)[:, None, None], rows[:, :, None], columns[:, None, :]]


def _plain(recipe: Recipe) -> dict:
    """The recipe as JSON keeps it."""
    return json.loads(json.dumps(asdict(recipe)))


def _commit() -> str:
    """The short commit of this checkout, or "unknown"."""
    here = Path(__file__).parent
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=here, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "unknown"


def progress(steps: Iterable, text: str) -> Iterable:
    """``steps`` behind a progress bar where a person watches (a terminal), else as they are."""
    if not sys.stderr.isatty():
        return steps
    from tqdm import tqdm

    return tqdm(steps, desc=text, leave=False)
