"""The epochs of a run. All randomness of an epoch comes from (seed, epoch), so a run that resumes after a kill sees the
images that it would have seen.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable

import torch
import torch.nn.functional as F
from torch import Tensor

from calibkit._checks import expected
from calibkit._extras import needs
from calibkit.data import IGNORE
from calibkit.training.batches import Batch, shuffled
from calibkit.training.distributed import gather_batch
from calibkit.training.preparation import Setup


def train(setup: Setup, history: list, save: Callable[[list], None]) -> None:
    """Go on from ``history``, a row of ``LOG`` an epoch, to the recipe's end; ``save(history)`` after every epoch.

    Raises:
        ValueError: a loss that is not finite any more; the epoch is not saved.
    """
    while (epoch := len(history)) < setup.recipe.epochs:
        start = time.perf_counter()
        lr, loss, accuracy = train_epoch(setup, epoch)
        val_nll, val_accuracy = validate(setup)
        for value in (loss, val_nll):  # in training, and in validation what the last step left
            if not math.isfinite(value):
                text = "finite: a lower `lr` or a smaller `clip_norm` may help"
                raise expected("loss", text, f"{value} in epoch {epoch + 1}")
        history.append([epoch + 1, lr, loss, accuracy, val_nll, val_accuracy, time.perf_counter() - start])
        save(history)


def train_epoch(setup: Setup, epoch: int) -> list[float]:
    """One pass over the training data: last learning rate, mean loss and accuracy."""
    fabric, recipe, loss = setup.fabric, setup.recipe, setup.loss
    seed = setup.seed * 1_000_003 + epoch
    n_steps = -(-len(setup.train) // recipe.batch_size)
    keeps_history = getattr(loss, "uses_index", False)  # of every image

    generator = torch.Generator().manual_seed(seed)  # order, crops, flips, CutMix
    torch.manual_seed(seed)  # stochastic layers
    batches = shuffled(setup.train, setup.labels, recipe, generator, fabric.global_rank, fabric.world_size)
    total = torch.zeros(3, dtype=torch.float64, device=fabric.device)
    setup.network.train()
    for step, batch in enumerate(progress(batches, n_steps, f"epoch {epoch + 1}/{recipe.epochs}")):
        lr = recipe.lr_at(epoch + step / n_steps)
        total += train_step(setup, batch, lr, keeps_history)
    if keeps_history:
        loss.end_epoch()
    loss_sum, hits, n = total.tolist()
    return [lr, loss_sum / n, hits / n]


def train_step(setup: Setup, batch: Batch, lr: float, keeps_history: bool) -> Tensor:
    """One step of the optimiser: (3,) sum of the loss, hits, and number of labels that count."""
    fabric, network, loss, optimizer = setup.fabric, setup.network, setup.loss, setup.optimizer
    index, y, inputs, mix = batch
    clip_norm = setup.recipe.clip_norm
    for group in optimizer.param_groups:
        group["lr"] = lr

    logits = gather_batch(fabric, network(inputs), len(index))
    value = loss(logits, y, *([index] if keeps_history else []))
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


@torch.no_grad()
def validate(setup: Setup) -> list[float]:
    """Negative log-likelihood and accuracy over the validation labels that count."""
    total = torch.zeros(3, dtype=torch.float64, device=setup.fabric.device)
    setup.network.eval()
    for index in setup.val.batches():
        z, y = setup.network(setup.val(index)).double(), setup.val_labels[index].long()
        nll = F.cross_entropy(z, y, reduction="sum", ignore_index=IGNORE)
        total += torch.stack([nll, (z.argmax(1) == y).sum().double(), (y != IGNORE).sum().double()])
    setup.network.train()
    nll, hits, n = total.tolist()
    return [nll / n, hits / n]


def progress(steps: Iterable, n: int, text: str) -> Iterable:
    """``n`` steps behind a progress bar where a person watches (a terminal), else as they are."""
    if not sys.stderr.isatty():
        return steps
    with needs("train"):
        from tqdm import tqdm

    return tqdm(steps, desc=text, total=n, leave=False)
