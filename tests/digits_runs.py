"""Small trainings on scanned digits, in double precision; also in processes of their own, which may be killed."""

import multiprocessing
import os
import signal
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import nn

from calibkit.logits import Logits
from calibkit.losses import LOSSES
from calibkit.models import build
from calibkit.training import Recipe, fit

RECIPE = Recipe(4, batch_size=50, lr=0.05, schedule="cosine", precision="64-true")

#: Its processes begin with everything imported.
_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(["calibkit.training", "calibkit.models", "lightning_fabric", "sklearn.datasets"])


def digits_model() -> nn.Module:
    torch.manual_seed(0)
    return build("small_cnn", 10, channels=1).double()


def train_digits(folder, loss: nn.Module | None = None, recipe: Recipe = RECIPE, **options) -> Logits:
    """A training on the CPU, by cross-entropy unless told."""
    torch.set_num_threads(1)
    loss = nn.CrossEntropyLoss() if loss is None else loss
    return fit(digits_model(), loss, "digits", recipe, folder=folder, device="cpu", **options)


class Skipped(nn.Sequential):
    """Stochastic depth: in training half of its calls do nothing."""

    def forward(self, x):
        return super().forward(x) if not self.training or torch.rand(()) < 0.5 else x


def train_layers(name: str, folder, *, devices: int = 1, nodes: int = 1) -> None:
    """By a loss; by cross-entropy with CutMix or CaPE ("cutmix", "cape"), or of a network with a skipped layer."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    layers = [nn.Conv2d(1, 8, 3, 2), nn.GroupNorm(2, 8), nn.ReLU(), nn.Flatten(), nn.Linear(72, 10)]
    if name == "skipped":
        layers.insert(4, Skipped(nn.Linear(72, 72)))
    recipe = Recipe(2, batch_size=51, lr=0.05, milestones=(), augment="none", precision="64-true")  # 31 rows remain
    recipe = replace(recipe, cutmix=float(name == "cutmix"), cape_bins=7 * (name == "cape"), cape_every=2)
    loss = LOSSES.get(name, LOSSES["cross_entropy"])(**({"n_samples": 1000} if name == "crl" else {}))
    network = nn.Sequential(*layers).double()
    fit(network, loss, "digits", recipe, folder=folder, device="cpu", devices=devices, nodes=nodes)


def in_a_process(target, *args) -> multiprocessing.Process:
    """A process that runs ``target(*args)``, started."""
    process = _SERVER.Process(target=target, args=args)
    process.start()
    return process


def was_killed(process: multiprocessing.Process) -> bool:
    """Whether SIGKILL ended a process; False if it ended by itself. Anything else fails."""
    process.join(120)
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def interrupt() -> None:
    raise KeyboardInterrupt


def ending_after(n: int, end: Callable[[], None] = interrupt) -> nn.Module:
    """Cross-entropy that ends its run when ``n`` steps are behind it. It has no settings of its own."""
    steps = iter(range(n))

    class Ending(nn.CrossEntropyLoss):
        def forward(self, logits, labels):
            if next(steps, None) is None:
                end()
            return super().forward(logits, labels)

    return Ending()


def die_in_step(folder, n: int, recipe: Recipe) -> None:
    """Train and be killed in the loss of the n-th step."""
    train_digits(folder, ending_after(n - 1, die), recipe, meta={"loss": "CrossEntropyLoss()"})


def die_before_rename(folder, n: int, recipe: Recipe) -> None:
    """Train and be killed before the n-th file gets its name."""
    renames, replace = iter(range(1, n)), os.replace

    def deadly(*paths):
        if next(renames, None) is None:
            die()
        replace(*paths)

    os.replace = deadly
    train_digits(folder, None, recipe)


def die_after(folder, name: str, recipe: Recipe) -> None:
    """Train and be killed after the file called ``name`` got its name."""
    replace = os.replace

    def deadly(source, target):
        replace(source, target)
        if os.path.basename(target) == name:
            die()

    os.replace = deadly
    train_digits(folder, None, recipe)
