"""Several processes, one training step: every rank sees the loss and the batch statistics of the whole batch.

A rank holds every ``world_size``-th row of a batch. A loss that is no mean over rows (MMCE, MDCA, CRL) and batch
normalisation would both come out differently on the parts than on the whole. Here the rows of all ranks are joined
before the loss, and the sums of all ranks before the normalisation, so that a run on several processes takes the steps
of a run on one.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch import Tensor, nn

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
    fabric = Fabric(accelerator=device, devices=devices, num_nodes=nodes, precision=precision, **options)
    fabric.launch()
    return fabric


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


def synchronise(model: nn.Module, device: torch.device) -> nn.Module:
    """``model`` with batch normalisation over all processes; parameters, buffers and their names stay."""
    if device.type == "cuda":
        return nn.SyncBatchNorm.convert_sync_batchnorm(model)
    for name, child in model.named_children():
        if isinstance(child, nn.BatchNorm1d | nn.BatchNorm2d):
            synced = SyncBatchNorm(child.num_features, child.eps, child.momentum, child.affine)
            synced.load_state_dict(child.state_dict())
            setattr(model, name, synced.to(child.running_mean.dtype).train(child.training))
        else:
            synchronise(child, device)
    return model


class SyncBatchNorm(nn.modules.batchnorm._BatchNorm):
    """Batch normalisation over all processes on CPUs, where ``torch.nn.SyncBatchNorm`` does not run."""

    def _check_input_dim(self, input: Tensor) -> None:
        pass

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, *) -> (N, C, *)."""
        if not self.training:
            return super().forward(input)
        with torch.autocast(input.device.type, enabled=False):
            x = input if input.dtype == torch.float64 else input.float()
            over = [i for i in range(x.ndim) if i != 1]
            shape = [1, -1] + [1] * (x.ndim - 2)
            n = _Sum.apply(x.new_tensor([x.numel() / x.shape[1]]))
            mean = _Sum.apply(x.sum(over)) / n
            centred = x - mean.view(shape)
            variance = _Sum.apply(centred.square().sum(over)) / n
            with torch.no_grad():
                self.num_batches_tracked += 1
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(variance * n / (n - 1), self.momentum)
            y = centred * (self.weight / torch.sqrt(variance + self.eps)).view(shape) + self.bias.view(shape)
        return y.to(input.dtype)


class _Sum(torch.autograd.Function):
    """The sum of a tensor over all processes; so is its gradient."""

    @staticmethod
    def forward(ctx, part: Tensor) -> Tensor:
        total = part.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx, grad: Tensor) -> Tensor:
        total = grad.clone()
        dist.all_reduce(total)
        return total
