"""What each paper trained, as data; and a look at a plan of trainings before the first of them starts.

The networks of a paper are those of its printed tables, as far as it prints a recipe for their data, and what its
chapter compares beside them. ``python -m book.kit.plans`` counts them.
"""

from __future__ import annotations

import csv
import inspect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from book.papers import PAPERS
from calibkit import _folders
from calibkit._checks import check_choice, expected
from calibkit.data import DATASETS, available
from calibkit.keys import Key, make
from calibkit.losses import LOSSES
from calibkit.models import build, options_for, suited
from calibkit.networks import Network
from calibkit.training import LOSS_OPTIONS, RECIPES, VARIANTS, recipe_of

#: Data set -> train, val and test samples.
SIZES = {
    "digits": (1000, 300, 497),
    "cifar10": (45000, 5000, 10000),
    "cifar100": (45000, 5000, 10000),
    "cifar10_lt": (10215, 10216, 10000),
    "cifar100_lt": (9786, 9787, 10000),
    "svhn": (67257, 6000, 26032),
    "tiny_imagenet": (90000, 10000, 10000),
    "tiny_imagenet_20": (9000, 1000, 1000),
    "imagenet": (1281167, 25000, 25000),
    "cub200": (5394, 600, 5794),
    "voc2012": (1318, 146, 1449),
    "camvid": (367, 101, 233),
    "20newsgroups": (10414, 900, 7532),
    "20newsgroups_random": (14177, 900, 3769),
    "20newsgroups_2000": (14177, 900, 3769),
}


@dataclass(frozen=True)
class Training:
    """A network, and how it is trained at the budget "paper".

    Attributes:
        network: which.
        paper: whose recipe; None: that of the loss.
        pretrained: whether from ImageNet weights.
    """

    network: Network
    paper: str | None = None
    pretrained: bool = False

    def folder(self, budget: str) -> Path:
        """Where its files go."""
        return self.network.folder(budget, self.paper)

    def find(self, budget: str) -> Path | None:
        """Its Logits file, if there is one."""
        return self.network.find(budget, self.paper)

    @property
    def arguments(self) -> list[str]:
        """Of ``calibkit train``, but for budget and device.

        Example:
            >>> " ".join(Training(Network("cub200", "resnet101", "mbls"), "mbls", pretrained=True).arguments)
            '--dataset cub200 --model resnet101 --loss mbls --seed 0 --paper mbls --pretrained'
        """
        of = self.network
        words = ["--dataset", of.dataset, "--model", of.model, "--loss", of.loss, "--seed", str(of.seed)]
        words += [] if self.paper is None else ["--paper", self.paper]
        return words + ["--pretrained"] * self.pretrained


def networks_of(paper: str, seeds: Sequence[int] = (0,)) -> list[Training]:
    """All networks of a paper, with whose recipe they are trained.

    Raises:
        ValueError: no such paper.

    Example:
        >>> [str(of.network) for of in networks_of("class_loss_scaling")][:2]
        ['cifar100_lt/densenet40-cross_entropy-s0', 'cifar100_lt/resnet110-cross_entropy-s0']
    """
    of = PAPERS[check_choice("paper", paper, PAPERS)]
    recipe = of.recipe or paper
    with open(_folders.stored() / "paper.csv", newline="", encoding="utf-8") as stream:
        rows = [row for row in csv.DictReader(stream) if (row["paper"], row["source"]) == (paper, "printed")]
    cells = {(row["dataset"], row["model"], row["loss"]) for row in rows}
    cells |= {(*of.network.split("/"), loss) for loss in of.losses}
    known = [
        cell
        for cell in sorted(cells)
        if (recipe, cell[0]) in RECIPES and Key.parse(cell[2]).name in (*LOSSES, *VARIANTS)
    ]
    return [Training(Network(*cell, seed), recipe, cell[0] in of.pretrained) for cell in known for seed in seeds]


def check(trainings: Iterable[Training], budget: str, *, data: bool = True) -> None:
    """Refuse what would fail once it runs: every key, recipe and option, and the data sets.

    Raises:
        ValueError: the first that is wrong; with ``data``, all data sets that are not in the cache.
    """
    absent = []
    for training in trainings:
        of = training.network
        spec = DATASETS[check_choice("dataset", of.dataset, DATASETS)]
        check_choice("model", of.model, suited(spec.kind, spec.shape))
        key = Key.parse(of.loss)
        check_choice("loss", key.name, (*LOSSES, *VARIANTS))
        recipe_of(of.dataset, budget, of.loss, training.paper, model=of.model)
        if key.name in LOSSES:
            cls, options = LOSSES[key.name], LOSS_OPTIONS.get((key.name, of.dataset), {}) | dict(key.options)
            sized = {"n_samples": 1} if "n_samples" in inspect.signature(cls).parameters else {}
            make(cls, "loss", options | sized)
        if data and of.dataset not in absent and not available(of.dataset):
            absent.append(of.dataset)
    if absent:
        commands = "; ".join(f"calibkit data prepare {DATASETS[name].base or name}" for name in absent)
        raise expected("datasets", f"in {_folders.cache()} ({commands})", f"none of {', '.join(absent)}")


@cache
def size_of(dataset: str, model: str) -> tuple[int, float]:
    """The parameters of a network for a data set, and the floating-point operations of a forward pass of one sample."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    spec = DATASETS[dataset]
    with torch.device("meta"):
        network = build(model, spec.n_classes, **options_for(model, spec.shape, spec.n_tokens)).eval()
        if spec.kind == "text":
            sample = torch.zeros((1, *spec.shape), dtype=torch.long)
        else:
            sample = torch.zeros((1, spec.shape[2], *spec.shape[:2]))
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            network(sample)
    return sum(parameter.numel() for parameter in network.parameters()), float(counter.get_total_flops())


def disk(trainings: Iterable[Training]) -> int:
    """Bytes that finished trainings keep: weights and logits in float32, of a dense prediction those of 100 pixels an
    image.
    """
    total = 0
    for of in (training.network for training in trainings):
        spec, (_, val, test) = DATASETS[of.dataset], SIZES[of.dataset]
        rows = (val + test) * (100 if spec.kind == "dense" else 1)
        total += 4 * (size_of(of.dataset, of.model)[0] + rows * spec.n_classes)
    return total


def epochs_of_resnet50(trainings: Iterable[Training]) -> float:
    """Work in epochs of a ResNet-50 on CIFAR-10, which ``make epoch`` times: floating-point operations of all samples
    of all epochs. Stochastic depth and CutMix are counted as if they were not.
    """
    _, one = size_of("cifar10", "resnet50")
    total = 0.0
    for training in trainings:
        of = training.network
        recipe = recipe_of(of.dataset, "paper", of.loss, training.paper, model=of.model)
        total += recipe.epochs * SIZES[of.dataset][0] * size_of(of.dataset, of.model)[1]
    return total / (SIZES["cifar10"][0] * one)


def main() -> None:
    """Print a row a paper."""
    print(f"{'paper':26} {'networks':>8} {'epochs of ResNet-50':>20} {'disk, GB':>9}")
    for paper in PAPERS:
        plan = networks_of(paper)
        print(f"{paper:26} {len(plan):8} {epochs_of_resnet50(plan):20,.0f} {disk(plan) / 1e9:9.1f}")


if __name__ == "__main__":
    main()
