"""Several processes, one training step: every rank sees the loss and, on GPUs, the batch statistics of the whole batch.

A rank holds every ``world_size``-th row of a batch. A loss that is no mean over rows (MMCE, MDCA, CRL) and batch
normalisation would both come out differently on the parts than on the whole. Here the rows of all ranks are joined
before the loss, and torch joins the batch statistics of all GPUs, so that a run on several GPUs takes the steps of a
run on one. Several processes on CPUs each normalise by their own rows.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from calibkit._checks import expected
from calibkit._extras import needs

if TYPE_CHECKING:
    from lightning_fabric import Fabric


def launch(device: str, devices: int, nodes: int, precision: str) -> Fabric:
    """The processes of a run, each on its device; those that nobody has started yet are started.

    One process asks neither Slurm nor torchrun, and so hears none of their warnings.

    Raises:
        ValueError: one process is asked for, and torchrun started several, each of which would be a run of its own.
    """
    with needs("train"):
        from lightning_fabric import Fabric
        from lightning_fabric.plugins.environments import LightningEnvironment
        from lightning_fabric.strategies import DDPStrategy

    if devices * nodes == 1:
        if (started := os.environ.get("WORLD_SIZE", "1")) != "1":
            raise expected("devices", f"{started} over all `nodes`, as many as were started (WORLD_SIZE)", devices)
        options = {"strategy": "auto", "plugins": LightningEnvironment()}
    else:
        # Of a block that stochastic depth skips, no process has a gradient: data parallel training looks for these.
        options = {"strategy": DDPStrategy(find_unused_parameters=True)}
    precision = at_speed(device, precision)
    fabric = Fabric(accelerator=device, devices=devices, num_nodes=nodes, precision=precision, **options)
    fabric.launch()
    return fabric


def at_speed(device: str, precision: str) -> str:
    """Single precision in place of bfloat16 where the processor has to imitate it, at a ninth of the speed."""
    if precision != "bf16-mixed" or (device != "cpu" and torch.cuda.is_available()):
        return precision
    has_it = torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return precision if has_it else "32-true"


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
