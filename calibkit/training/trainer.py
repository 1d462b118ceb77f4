"""``fit``: set-up, epochs, inference on held-out data, in a folder that survives a kill.

All randomness of an epoch comes from (seed, epoch), so a run that resumes after a kill sees the images that it would
have seen.

Of several processes each holds every ``world_size``-th row of a batch. A loss that is no mean over rows (MMCE, MDCA,
CRL) and batch normalisation would both come out differently on the parts than on the whole. So the rows of all
processes are joined before the loss, and torch joins the batch statistics of all GPUs: a run on several GPUs takes the
steps of a run on one. Several processes on CPUs each normalise by their own rows.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from calibkit._checks import expected
from calibkit._extras import needs
from calibkit._folders import commit
from calibkit.data import IGNORE
from calibkit.logits import Logits
from calibkit.models import load_weights, mc_dropout
from calibkit.training.batches import Batch, shuffled
from calibkit.training.cape import bin_targets, confidence_loss
from calibkit.training.inference import BINS, gap_of_bins, held_out
from calibkit.training.recipes import Recipe
from calibkit.training.run_folder import LOG, Run, best_epoch, digest_of, settings_of
from calibkit.training.setup import Setup, check_run, launch, set_up

if TYPE_CHECKING:
    from lightning_fabric import Fabric


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

    ``folder`` gets ``checkpoint.npz`` and ``log.csv`` after every epoch, and at the end, in place of the checkpoint,
    ``weights.npz`` and ``logits.npz``; of dense prediction also ``maps.npz``, confidence and class of every pixel of a
    few test images. A killed run is resumed by the same call and ends in the same logits; a finished one returns them.
    The model is left in evaluation mode, with the weights of the end, and torch's random numbers start from the seed.

    Args:
        model: network from images (N, C, H, W), or tokens (N, L), to logits (N, K), or (N, K, H, W) for dense
            prediction; its fresh weights are the starting point. Its layers and their shapes tell it from another.
        loss: ``loss(logits, labels) -> scalar``, one of LOSSES or any module. The numbers and texts among its
            attributes, and its arrays of floats, tell it from another, as they are when ``fit`` is called. What it
            changes in training, as a count of steps, belongs in buffers: a checkpoint keeps these and nothing else.
        data: name of a data set.
        recipe: what to do.
        folder: where the run's files go.
        seed: of image order, augmentation and stochastic layers.
        device: "auto", "cpu" or "cuda".
        devices: processes or GPUs; more than one trains with distributed data parallel, each on its share of every
            batch, with the loss and, on GPUs, the batch statistics of the whole batch, so that the result is that of
            one; but for dropout, whose masks are then others.
        nodes: machines, each with as many ``devices`` and the same call. They share ``folder``, and the environment of
            each says which it is: ``MASTER_ADDR``, ``MASTER_PORT``, ``NODE_RANK``, or what torchrun or Slurm set.
        compile: run the network through ``torch.compile``: faster on a GPU after minutes of compiling.
        meta: facts to store in the Logits beside the run's own, as model and loss names; the same for a resume.

    Raises:
        ValueError: a network, loss or recipe that is none; a folder that holds a run with another recipe, network,
            loss, data set or seed, in which another process trains at the moment, or whose checkpoint is damaged; a
            loss that gives anything but one number with a gradient; one that is not finite any more, after which the
            last checkpoint stays; no GPU for ``device="cuda"``; one process where torchrun started several; a recipe
            with CutMix for what is no image or for a loss that keeps a history of images, with CaPE for pixels or
            beside CutMix; one with dropout for a network without a last linear layer.
    """
    check_run(model, data, loss, recipe, seed, device, devices, nodes)
    seed = int(seed)  # one of numpy's would overflow
    facts = {"loss": repr(loss), **(meta or {}), "dataset": data, "seed": seed, "recipe": asdict(recipe)}
    facts |= {"network_digest": digest_of(model), "loss_settings": settings_of(loss)}
    run = Run(Path(folder), facts)
    if recipe.dropout:
        mc_dropout(model, recipe.dropout, recipe.passes, seed=seed)
    torch.manual_seed(seed)
    fabric = launch(device, devices, nodes, recipe.precision)
    with run.held(fabric) as finished:
        if finished:
            return run.result(model)
        setup = set_up(fabric, model, loss, data, recipe, seed, compile)
        history = run.resume(setup.model, loss, setup.optimizer)

        def save(history: list) -> None:
            if fabric.is_global_zero:
                run.checkpoint(setup.model, loss, setup.optimizer, history)
            fabric.barrier()

        train(setup, history, save)
        if recipe.keep == "best":
            load_weights(setup.model, run.best(best_epoch(history)))
            fabric.barrier()  # the end of the run removes that file
        arrays, held_out_facts, maps = held_out(setup)
        logits = Logits(**arrays, meta={**run.facts, **facts_of(setup, history), **held_out_facts})
        if fabric.is_global_zero:
            run.finish(setup.model, logits, maps)
    setup.model.eval()
    return logits


def facts_of(setup: Setup, history: list) -> dict:
    """How large and how fast a run was, what ran it, and how the validation samples fared by epoch."""
    columns = dict(zip(LOG, np.transpose(history).tolist(), strict=True))
    by_epoch = {name: np.round(columns[name], 6).tolist() for name in ("val_nll", "val_ece", "val_class_std")}
    return {
        "by_epoch": by_epoch,
        "epochs": setup.recipe.epochs,
        "split": "/".join(str(len(split.labels)) for split in setup.splits.values()),
        "throughput": round(len(setup.train) / float(np.median(columns["seconds"])), 1),
        "commit": commit(),
        "torch": torch.__version__,
        "precision": setup.fabric.strategy.precision.precision,
        "device": torch.cuda.get_device_name() if setup.fabric.device.type == "cuda" else "cpu",
    }


def train(setup: Setup, history: list, save: Callable[[list], None]) -> None:
    """Go on from ``history``, a row of ``LOG`` an epoch, to the recipe's end; ``save(history)`` after every epoch.

    An epoch after which the loss is not finite any more is not saved: it ends in a ValueError.
    """
    while (epoch := len(history)) < setup.recipe.epochs:
        start = time.perf_counter()
        lr, loss, accuracy = train_epoch(setup, epoch)
        check_finite(loss, epoch)
        validated = validate(setup, epoch)
        history.append([epoch + 1, lr, loss, accuracy, *validated, time.perf_counter() - start])
        save(history)


def train_epoch(setup: Setup, epoch: int) -> list[float]:
    """One pass over the training data: last learning rate, mean loss and accuracy."""
    with needs("train"):
        from tqdm import tqdm

    fabric, recipe, loss = setup.fabric, setup.recipe, setup.loss
    seed = (setup.seed * 1_000_003 + epoch) % 2**63
    n_steps = -(-len(setup.train) // recipe.batch_size)
    keeps_history = getattr(loss, "uses_index", False)  # of every image

    generator = torch.Generator().manual_seed(seed)  # order, crops, flips, CutMix
    torch.manual_seed(seed)  # stochastic layers
    in_epoch = recipe.in_epoch(epoch)
    batches = shuffled(setup.train, setup.labels, in_epoch, generator, fabric.global_rank, fabric.world_size)
    total = torch.zeros(3, dtype=torch.float64, device=fabric.device)
    targets = None
    if recipe.cape_bins and (epoch + 1) % recipe.cape_every == 0:
        targets = bin_targets(setup.model, setup.train, setup.labels, recipe.cape_bins)
    setup.network.train()
    text = f"epoch {epoch + 1}/{recipe.epochs}"  # shown on a terminal only
    for step, batch in enumerate(tqdm(batches, text, n_steps, leave=False, disable=None)):
        lr = recipe.lr_at(epoch + step / n_steps)
        total += train_step(setup, batch, lr, keeps_history, targets)
    if keeps_history:
        loss.end_epoch()
    loss_sum, hits, n = total.tolist()
    return [lr, loss_sum / n, hits / n]


def train_step(setup: Setup, batch: Batch, lr: float, keeps_history: bool, targets: Tensor | None) -> Tensor:
    """One step of the optimiser: (3,) sum of the loss, hits, and number of labels that count.

    Given ``targets`` (N,), the confidence of each training sample is trained towards its own, whatever the loss.
    """
    fabric, network, loss, optimizer = setup.fabric, setup.network, setup.loss, setup.optimizer
    index, y, inputs, mix = batch
    clip_norm = setup.recipe.clip_norm
    for group in optimizer.param_groups:
        group["lr"] = lr

    logits = gather_batch(fabric, network(inputs), len(index))
    if targets is None:
        value = loss(logits, y, *([index] if keeps_history else []))
        check_scalar(value)
    else:
        value = confidence_loss(logits, targets[index].to(logits.dtype))
    if mix:
        value = mix.share * value + (1 - mix.share) * loss(logits, y[mix.partner])

    optimizer.zero_grad(set_to_none=True)
    fabric.backward(value * fabric.world_size)
    if clip_norm is not None:
        fabric.clip_gradients(network, optimizer, max_norm=clip_norm, error_if_nonfinite=False)
    optimizer.step()

    hits = logits.detach().argmax(1) == y
    if keeps_history:
        loss.update(index, hits)
    n = (y != IGNORE).sum()
    return torch.stack([value.detach().double() * n, hits.sum().double(), n.double()])


def gather_batch(fabric: Fabric, part: Tensor, n: int) -> Tensor:
    """The n rows of which this rank holds ``part``, those from its rank on in steps of ``world_size``.

    Gradients flow into ``part`` only. Each rank then holds its part of the gradient of one loss; as data parallel
    training averages over ranks, the loss has to be multiplied by ``world_size``.
    """
    if fabric.world_size == 1:
        return part
    exact = torch.int64 if part.dtype == torch.bool else part.dtype
    rows = torch.zeros(n, *part.shape[1:], dtype=exact, device=part.device)
    rows[fabric.global_rank :: fabric.world_size] = part.detach().to(exact)
    rows = fabric.all_reduce(rows, reduce_op="sum").to(part.dtype)
    if part.requires_grad:
        rows[fabric.global_rank :: fabric.world_size] = part
    return rows


def check_scalar(value: object) -> None:
    """Refuse what a loss gives where no optimiser can descend on it."""
    got = type(value).__name__
    if isinstance(value, Tensor):
        got = f"shape {tuple(value.shape)}" if value.ndim else "" if value.requires_grad else "one without a gradient"
    if got:
        raise expected("loss", "a module that gives one number, a tensor with a gradient", got)


def check_finite(loss: float, epoch: int) -> None:
    """Refuse a loss that an epoch has driven to infinity or NaN."""
    if not math.isfinite(loss):
        text = "finite: a lower `lr` or a smaller `clip_norm` may help"
        raise expected("loss", text, f"{loss} in epoch {epoch + 1}")


@torch.no_grad()
def validate(setup: Setup, epoch: int) -> list[float]:
    """Over the validation labels that count: negative log-likelihood, accuracy, ECE with 15 bins, and the standard
    deviation over classes of their mean losses.
    """
    n_classes, hits, gap = setup.spec.n_classes, 0, np.zeros(BINS)
    losses, counts = (torch.zeros(n_classes, dtype=torch.float64, device=setup.fabric.device) for _ in range(2))
    setup.network.eval()
    for index in setup.val.batches():
        z, y = setup.network(setup.val(index)).double().movedim(1, -1), setup.val_labels[index].long()
        labelled = y != IGNORE
        z, y = z[labelled], y[labelled]
        nll = F.cross_entropy(z, y, reduction="none")
        check_finite(float(nll.sum()), epoch)  # what the last step left
        losses.index_add_(0, y, nll)
        counts += torch.bincount(y, minlength=n_classes)
        hits += int((z.argmax(1) == y).sum())
        gap += gap_of_bins(z.softmax(1), y)
    setup.network.train()
    n, occurs = float(counts.sum()), counts > 0
    spread = (losses[occurs] / counts[occurs]).std(correction=0)
    return [float(losses.sum()) / n, hits / n, float(np.abs(gap).sum()) / n, float(spread)]
