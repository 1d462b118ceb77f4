"""Training: ``fit(model, loss, data, recipe)`` gives Logits, survives a kill, and ends in the same result.

The data set lies on the device as it is stored; crops and flips are made there for a whole batch at once. All
randomness of an epoch comes from (seed, epoch), so a run that resumes after a kill sees the images that it would have
seen.
"""

from __future__ import annotations

import inspect
import math
import os
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
from calibkit._checks import check_choice, check_int, expected
from calibkit._extras import needs
from calibkit._files import write_npz
from calibkit._folders import commit
from calibkit.data import IGNORE
from calibkit.keys import Key, make
from calibkit.logits import Logits
from calibkit.losses import LOSSES
from calibkit.models import build, load_weights, mc_dropout, options_for, suited
from calibkit.training import distributed
from calibkit.training.batches import Feed, shuffled
from calibkit.training.held_out import logits_of, maps_of, pixels_of
from calibkit.training.recipes import LOSS_OPTIONS, RECIPES, VARIANTS, Recipe, recipe_of
from calibkit.training.run_folder import Run

__all__ = ["RECIPES", "Recipe", "assemble", "fit", "predict"]


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
    nodes: int = 1,
    compile: bool = False,
    meta: dict | None = None,
) -> Logits:
    """Train ``model`` on data set ``data`` and return its validation and test logits; of dense prediction, of a sample
    of pixels, with what all pixels together say in ``meta["test_pixels"]``.

    ``folder`` gets ``checkpoint.npz`` after every epoch, ``log.csv``, and at the end, in place of the checkpoint,
    ``weights.npz`` and ``logits.npz``; of dense prediction also ``maps.npz``, confidence and class of every pixel of a
    few test images. A killed run is resumed by the same call and ends in the same logits; a finished one returns them.

    Args:
        model: network from images (N, C, H, W), or tokens (N, L), to logits (N, K), or (N, K, H, W) for dense
            prediction; its fresh weights are the starting point.
        loss: ``loss(logits, labels) -> scalar``, a key of LOSSES or any module.
        data: name of a data set.
        recipe: what to do.
        folder: where the run's files go.
        seed: of image order, augmentation and stochastic layers.
        device: "auto", "cpu" or "cuda".
        devices: processes or GPUs; more than one trains with distributed data parallel, each on its share of every
            batch, with batch statistics and loss of the whole batch, so that the result is that of one; but for
            dropout, whose masks are then others.
        nodes: machines, each with as many ``devices`` and the same call. They share ``folder``, and the environment of
            each says which it is: ``MASTER_ADDR``, ``MASTER_PORT``, ``NODE_RANK``, or what torchrun or Slurm set.
        compile: run the network through ``torch.compile``: faster on a GPU after minutes of compiling.
        meta: facts to store in the Logits beside the run's own, as model and loss names.

    Raises:
        ValueError: a folder that holds a run with another recipe, loss, data set or seed; a loss that is not finite any
            more, after which the last checkpoint stays; no GPU for ``device="cuda"``; a recipe with CutMix for what is
            no image or for a loss that keeps a history of images; one with dropout for a network without a last linear
            layer.
    """
    with needs("train"):
        from lightning_fabric import Fabric
        from lightning_fabric.strategies import DDPStrategy

    spec = datasets.DATASETS[check_choice("data", data, datasets.DATASETS)]
    check_choice("device", device, ("auto", "cpu", "cuda"))
    if device == "cuda" and not torch.cuda.is_available():
        raise expected("device", '"auto" or "cpu", as there is no GPU', '"cuda"')
    check_int("devices", devices, 1)
    check_int("nodes", nodes, 1)
    check_int("seed", seed, 0)
    if recipe.cutmix and (spec.kind != "image" or getattr(loss, "uses_index", False)):
        raise expected("recipe", "one without cutmix for dense or text data, or a loss with a history", recipe)
    facts = {"loss": type(loss).__name__, **(meta or {}), "dataset": data, "seed": seed, "recipe": asdict(recipe)}
    run = Run(Path(folder), facts)
    if recipe.dropout:
        mc_dropout(model, recipe.dropout, recipe.passes, seed=seed)
    if run.finished:
        load_weights(model, run.folder / "weights.npz")
        return Logits.load(run.folder / "logits.npz")

    torch.manual_seed(seed)
    # Of a block that stochastic depth skips, no process has a gradient: data parallel training has to look for these.
    strategy = DDPStrategy(find_unused_parameters=True) if devices * nodes > 1 else "auto"
    fabric = Fabric(accelerator=device, devices=devices, num_nodes=nodes, strategy=strategy, precision=recipe.precision)
    fabric.launch()
    dtype = torch.float64 if recipe.precision == "64-true" else torch.float32
    splits = {name: datasets.load_split(data, name) for name in ("train", "val", "test")}
    if recipe.n_tokens is not None:
        splits = {name: split._replace(inputs=split.inputs[:, -recipe.n_tokens :]) for name, split in splits.items()}
    model = model.to(fabric.device, memory_format=torch.channels_last)
    if fabric.world_size > 1:
        model = distributed.synchronise(model, fabric.device)
    optimizer = _optimizer(model, recipe)
    wrapped, optimizer = fabric.setup(torch.compile(model) if compile else model, optimizer)
    train, val = (Feed(splits[name].inputs, spec, fabric.device, dtype) for name in ("train", "val"))
    labels, val_labels = (torch.from_numpy(np.array(splits[n].labels)).to(fabric.device) for n in ("train", "val"))

    loss = loss.to(fabric.device)
    history = run.resume(model, loss, optimizer)
    while (epoch := len(history)) < recipe.epochs:
        start = time.perf_counter()
        row = _epoch(fabric, wrapped, loss, optimizer, train, labels, recipe, epoch, seed)
        row += _validate(wrapped, val, val_labels)
        for value in (row[1], row[3]):  # in training, and in validation what the last step left
            if not math.isfinite(value):
                text = "finite: a lower `lr` or a smaller `clip_norm` may help"
                raise expected("loss", text, f"{value} in epoch {epoch + 1}")
        history.append([epoch + 1, *row, time.perf_counter() - start])
        if fabric.is_global_zero:
            run.checkpoint(model, loss, optimizer, history, _best(history) if recipe.keep == "best" else 0)
        fabric.barrier()
    if recipe.keep == "best":
        load_weights(model, run.best(_best(history)))
        fabric.barrier()  # the end of the run removes that file

    facts = {
        **run.facts,
        "epochs": recipe.epochs,
        "split": "/".join(str(len(splits[name].labels)) for name in splits),
        "throughput": round(len(train) / float(np.median([row[-1] for row in history])), 1),
        "commit": commit(),
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name() if fabric.device.type == "cuda" else "cpu",
    }
    held_out, groups = [], None
    for name, feed in (("val", val), ("test", Feed(splits["test"].inputs, spec, fabric.device, dtype))):
        of_feed = splits[name].labels
        if spec.kind == "dense":
            part, of_feed, groups, facts[f"{name}_pixels"] = pixels_of(model, feed, of_feed, seed)
        else:
            part = logits_of(model, feed).cpu().numpy()
        held_out += [part, of_feed]
    facts["accuracy"] = float((held_out[2].argmax(1) == held_out[3]).mean())
    result = Logits(*held_out, facts, groups)  # the last groups, of the test split
    if fabric.is_global_zero:
        if spec.kind == "dense":
            write_npz(run.folder / "maps.npz", maps_of(model, feed))  # the last feed, of the test split
        run.finish(model, result)
    return result


def _best(history: list) -> int:
    """The last of the epochs with the largest validation accuracy, counted from 1."""
    accuracies = [row[5] for row in history]
    return len(accuracies) - int(np.argmax(accuracies[::-1]))


def assemble(
    dataset: str,
    model: str,
    loss: str,
    budget: str,
    paper: str | None = None,
    *,
    seed: int = 0,
    pretrained: bool = False,
) -> tuple[nn.Module, nn.Module, Recipe, dict]:
    """What ``python -m calibkit train`` gives to :func:`fit`: fresh network, loss, recipe, and facts for the Logits.

    Args:
        dataset: key of DATASETS.
        model: key of MODELS, in the form that suits the data set's inputs.
        loss: key of a loss with its options, as "mbls margin=8". An option that is
            not given is the paper's for this data set, or the default. "cutmix" and "mc_dropout" are cross-entropy with
            a change of the recipe, whose fields are their options: "cutmix cutmix=1.0".
        budget: "smoke", "reduced" or "paper".
        paper: whose recipe, at the budget "paper". Default: that of the loss, see
            :func:`calibkit.training.recipes.recipe_of`.
        seed: of the network's first weights.
        pretrained: start from torchvision's ImageNet weights.

    Raises:
        ValueError: something is unknown: the data set, the loss, one of its options, or the recipe; a network that is
            unknown or not for such data.

    Example:
        >>> _, loss, recipe, facts = assemble("cifar10", "resnet20", "mbls", "reduced")
        >>> loss.margin, recipe.epochs, facts["loss_options"]
        (6.0, 30, {'margin': 6.0})
    """
    spec = datasets.DATASETS[check_choice("dataset", dataset, datasets.DATASETS)]
    key = Key.parse(loss)
    if key.objective is not None:
        raise expected("loss", "NAME [OPTION=VALUE ...]", repr(loss))
    name, options = check_choice("loss", key.name, (*LOSSES, *VARIANTS)), dict(key.options)
    if "n_samples" in options:
        raise expected("loss", "without n_samples, which is the number of training samples", repr(loss))
    recipe = recipe_of(dataset, budget, name, paper)
    if name in VARIANTS:
        recipe = make(Recipe, "loss", asdict(recipe) | VARIANTS[name] | options)
        name, options = "cross_entropy", {}
    check_choice("model", model, suited(spec.kind, spec.shape))
    cls = LOSSES[name]
    options = LOSS_OPTIONS.get((name, dataset), {}) | options
    facts = {"model": model, "loss": str(key), "loss_options": options, "budget": budget, "pretrained": pretrained}
    if "n_samples" in inspect.signature(cls).parameters:  # it may keep a history of every image
        options = options | {"n_samples": len(datasets.load_split(dataset, "train").labels)}
    torch.manual_seed(seed)
    weights = {"weights": "DEFAULT"} if pretrained else {}
    network = build(model, spec.n_classes, **options_for(model, spec.shape, spec.n_tokens), **weights)
    dtype = torch.float64 if recipe.precision == "64-true" else torch.float32  # whatever torch's default is
    return network.to(dtype), make(cls, "loss", options), recipe, facts


def predict(model: nn.Module, inputs: np.ndarray, data: str) -> np.ndarray:
    """Logits ``(N, K, *)`` of inputs of data set ``data``, as ``load`` gives them, in the precision of the weights."""
    weight, spec = next(model.parameters()), datasets.DATASETS[check_choice("data", data, datasets.DATASETS)]
    return logits_of(model, Feed(inputs, spec, weight.device, weight.dtype)).cpu().numpy()


def _optimizer(model: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    if recipe.optimizer == "sgd":
        return torch.optim.SGD(model.parameters(), recipe.lr, recipe.momentum, weight_decay=recipe.weight_decay)
    adam = torch.optim.Adam if recipe.optimizer == "adam" else torch.optim.AdamW
    return adam(model.parameters(), recipe.lr, (recipe.momentum, 0.999), weight_decay=recipe.weight_decay)


@torch.no_grad()
def _validate(model: nn.Module, feed: Feed, labels: Tensor) -> list[float]:
    """Negative log-likelihood and accuracy over the labels that count."""
    model.eval()
    total = torch.zeros(3, dtype=torch.float64, device=feed.device)
    for index in feed.batches():
        z, y = model(feed(index)).double(), labels[index].long()
        nll = F.cross_entropy(z, y, reduction="sum", ignore_index=IGNORE)
        total += torch.stack([nll, (z.argmax(1) == y).sum().double(), (y != IGNORE).sum().double()])
    model.train()
    nll, hits, n = total.tolist()
    return [nll / n, hits / n]


def _epoch(fabric, model, loss, optimizer, feed, labels, recipe, epoch, seed) -> list[float]:
    """One pass over the training data; returns learning rate, mean loss and accuracy."""
    generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
    torch.manual_seed(seed * 1_000_003 + epoch)  # stochastic layers
    world, steps = fabric.world_size, -(-len(feed) // recipe.batch_size)
    indexed = getattr(loss, "uses_index", False)  # it keeps a history of every image
    total = torch.zeros(3, dtype=torch.float64, device=fabric.device)
    model.train()
    batches = shuffled(feed, labels, recipe, generator, fabric.global_rank, world)
    for step, (index, y, inputs, mix) in enumerate(progress(batches, steps, f"epoch {epoch + 1}/{recipe.epochs}")):
        lr = recipe.lr_at(epoch + step / steps)
        for group in optimizer.param_groups:
            group["lr"] = lr
        logits = distributed.whole(fabric, model(inputs), len(index))
        value = loss(logits, y, *([index] if indexed else []))
        if mix:
            value = mix.share * value + (1 - mix.share) * loss(logits, y[mix.partner])
        optimizer.zero_grad(set_to_none=True)
        fabric.backward(value * world)
        if recipe.clip_norm is not None:
            fabric.clip_gradients(model, optimizer, max_norm=recipe.clip_norm, error_if_nonfinite=False)
        optimizer.step()
        hits = logits.detach().argmax(1) == y
        if indexed:
            loss.update(index, hits)
        counted = (y != IGNORE).sum()
        total += torch.stack([value.detach().double() * counted, hits.sum().double(), counted.double()])
    if indexed:
        loss.end_epoch()
    loss_sum, hits, counted = total.tolist()
    return [lr, loss_sum / counted, hits / counted]


def progress(steps: Iterable, n: int, text: str) -> Iterable:
    """``n`` steps behind a progress bar where a person watches (a terminal), else as they are."""
    if not sys.stderr.isatty():
        return steps
    with needs("train"):
        from tqdm import tqdm

    return tqdm(steps, desc=text, total=n, leave=False)
