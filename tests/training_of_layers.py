"""Trainings of a few layers on scanned digits, alike on one process and on several."""

import torch
from torch import nn

from calibkit.losses import LOSSES
from calibkit.training import Recipe, fit


class Skipped(nn.Sequential):
    """Stochastic depth: in training half of its calls do nothing."""

    def forward(self, x):
        return super().forward(x) if not self.training or torch.rand(()) < 0.5 else x


def train(name: str, folder, *, devices: int = 1, nodes: int = 1) -> None:
    """By a loss; by cross-entropy with CutMix ("cutmix"), or of a network with a skipped layer ("skipped")."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    layers = [nn.Conv2d(1, 8, 3, 2), nn.GroupNorm(2, 8), nn.ReLU(), nn.Flatten(), nn.Linear(72, 10)]
    if name == "skipped":
        layers.insert(4, Skipped(nn.Linear(72, 72)))
    recipe = Recipe(
        2, batch_size=51, lr=0.05, milestones=(), augment="none", precision="64-true", cutmix=float(name == "cutmix")
    )  # 31 rows remain
    loss = LOSSES.get(name, LOSSES["cross_entropy"])(**({"n_samples": 1000} if name == "crl" else {}))
    network = nn.Sequential(*layers).double()
    fit(network, loss, "digits", recipe, folder=folder, device="cpu", devices=devices, nodes=nodes)
