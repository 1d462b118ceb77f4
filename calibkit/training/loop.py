"""The epochs of a run. All randomness of an epoch comes from (seed, epoch), so a run that resumes after a kill sees the
images that it would have seen.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from calibkit._checks import expected
from calibkit._extras import needs
from calibkit.data import IGNORE
from calibkit.training.batches import Batch, shuffled
from calibkit.training.distributed import gather_batch
from calibkit.training.inference import BINS, gap_of_bins
from calibkit.training.setup import Setup


def train(setup: Setup, history: list, save: Callable[[list], None]) -> None:
    """Go on from ``history``, a row of ``LOG`` an epoch, to the recipe's end; ``save(history)`` after every epoch.

    Raises:
        ValueError: a loss that is not finite any more; the epoch is not saved.
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


def progress(steps: Iterable, n: int, text: str) -> Iterable:
    """``n`` steps behind a progress bar where a person watches (a terminal), else as they are."""
    if not sys.stderr.isatty():
        return steps
    with needs("train"):
        from tqdm import tqdm

    return tqdm(steps, desc=text, total=n, leave=False)
