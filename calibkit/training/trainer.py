"""``fit``: set-up, epochs, inference on held-out data, in a folder that survives a kill."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from torch import nn

from calibkit._folders import commit
from calibkit.logits import Logits
from calibkit.models import load_weights, mc_dropout
from calibkit.training.distributed import launch
from calibkit.training.fingerprint import digest_of, settings_of
from calibkit.training.inference import held_out
from calibkit.training.loop import train
from calibkit.training.recipes import Recipe
from calibkit.training.run_folder import LOG, Run, best_epoch
from calibkit.training.setup import Setup, check_run, set_up


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

    ``folder`` gets ``checkpoint.npz`` after every epoch, beside the one before it, ``log.csv``, and at the end, in
    place of the checkpoints, ``weights.npz`` and ``logits.npz``; of dense prediction also ``maps.npz``, confidence and
    class of every pixel of a few test images. A killed run is resumed by the same call and ends in the same logits; a
    finished one returns them. A checkpoint that was damaged on the disk is put aside with a warning, and the run goes
    on from the one before.

    Args:
        model: network from images (N, C, H, W), or tokens (N, L), to logits (N, K), or (N, K, H, W) for dense
            prediction; its fresh weights are the starting point. Its layers and their shapes tell it from another.
        loss: ``loss(logits, labels) -> scalar``, one of LOSSES or any module. The numbers and texts among its
            attributes, and its arrays of floats, tell it from another, as they are when ``fit`` is called.
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
        meta: facts to store in the Logits beside the run's own, as model and loss names.

    Raises:
        ValueError: a folder that holds a run with another recipe, network, loss, data set or seed, in which another
            process trains at the moment, or whose checkpoints are all damaged; a loss that is not finite any more,
            after which the last checkpoint stays; no GPU for ``device="cuda"``; one process where torchrun started
            several; a recipe with CutMix for what is no image or for a loss that keeps a history of images; one with
            dropout for a network without a last linear layer.
    """
    check_run(data, loss, recipe, seed, device, devices, nodes)
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
        "device": torch.cuda.get_device_name() if setup.fabric.device.type == "cuda" else "cpu",
    }
