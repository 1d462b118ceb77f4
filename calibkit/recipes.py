"""Recipes: every number that decides a training run, with its place in the paper."""

from __future__ import annotations

import math
from dataclasses import dataclass

from calibkit._checks import check_choice, check_int, check_real


@dataclass(frozen=True)
class Recipe:
    """Everything that decides a training run besides data, model, loss and seed.

    Attributes:
        epochs: passes over the training images.
        batch_size: images a step, over all processes.
        lr: peak learning rate of SGD.
        momentum: of SGD, without Nesterov.
        weight_decay: L2 penalty, on all parameters.
        schedule: "steps": times 0.1 at each milestone; "cosine": to 0 over the run, by step.
        milestones: fractions of the run at which "steps" drops.
        warmup: epochs of linear rise from 0 to ``lr``.
        clip_norm: largest gradient norm; None does not clip.
        augment: "crop+flip": random crop from 4 pixels of black padding, and horizontal flip; "flip"; "none".
        keep: "last" or "best" (by validation accuracy) epoch's weights.
        precision: of the forward and backward pass: "bf16-mixed" or "32-true" or "64-true".
    """

    epochs: int
    batch_size: int = 128
    lr: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 5e-4
    schedule: str = "steps"
    milestones: tuple[float, ...] = (0.5, 0.75)
    warmup: float = 0.0
    clip_norm: float | None = None
    augment: str = "crop+flip"
    keep: str = "last"
    precision: str = "bf16-mixed"

    def __post_init__(self) -> None:
        """Check every value."""
        check_int("epochs", self.epochs, 1)
        check_int("batch_size", self.batch_size, 1)
        check_real("lr", self.lr, 0.0, open_low=True)
        check_real("momentum", self.momentum, 0.0, 1.0)
        check_real("weight_decay", self.weight_decay, 0.0)
        check_real("warmup", self.warmup, 0.0)
        check_choice("schedule", self.schedule, ("steps", "cosine"))
        check_choice("augment", self.augment, ("crop+flip", "flip", "none"))
        check_choice("keep", self.keep, ("last", "best"))
        check_choice("precision", self.precision, ("bf16-mixed", "32-true", "64-true"))
        if self.clip_norm is not None:
            check_real("clip_norm", self.clip_norm, 0.0, open_low=True)

    def lr_at(self, progress: float) -> float:
        """Learning rate at ``progress`` epochs into the run."""
        if progress < self.warmup:
            return self.lr * progress / self.warmup
        done = progress / self.epochs
        if self.schedule == "cosine":
            return self.lr * 0.5 * (1.0 + math.cos(math.pi * done))
        return self.lr * 0.1 ** sum(done >= m for m in self.milestones)


#: (paper, dataset) -> its recipe, with the place of each number; "reduced" is what hours of a CPU allow.
RECIPES: dict[tuple[str, str], Recipe] = {
    # CTS Sec. IV uses the networks of Mukhoti et al. 2020, Appendix: SGD 0.1, momentum 0.9, weight decay 5e-4, batch
    # 128, 350 epochs, x 0.1 at 150 and 250, gradient norm clipped at 2, last epoch.
    ("class_temperature_scaling", "cifar10"): Recipe(350, milestones=(150 / 350, 250 / 350), clip_norm=2.0),
    ("class_temperature_scaling", "cifar100"): Recipe(350, milestones=(150 / 350, 250 / 350), clip_norm=2.0),
    # An hour of two CPU cores. He et al. 2016, Sec. 4.2: weight decay 1e-4, x 0.1 at 50 % and 75 %. Their 164 epochs
    # are cut to 24, and crops are left out, so that the network fits its training images and is as over-confident as
    # the papers' fully trained ones.
    ("reduced", "cifar10"): Recipe(24, weight_decay=1e-4, augment="flip"),
    ("reduced", "cifar100"): Recipe(24, weight_decay=1e-4, augment="flip"),
    # SCTL Table 4: SGD, batch 128, 200 epochs; cut likewise.
    ("reduced", "cifar10_lt"): Recipe(50, weight_decay=1e-4, augment="flip"),
    ("reduced", "cifar100_lt"): Recipe(50, weight_decay=1e-4, augment="flip"),
    ("smoke", "digits"): Recipe(20, batch_size=50, lr=0.05, schedule="cosine", augment="none", precision="64-true"),
}
