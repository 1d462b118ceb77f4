"""Recipes: every number that decides a training run, with its place in the paper."""

from __future__ import annotations

import json
import math
from dataclasses import MISSING, asdict, dataclass, fields, replace
from typing import Any

from calibkit._checks import check_choice, check_int, check_real, expected
from calibkit.keys import Key, make


@dataclass(frozen=True)
class Recipe:
    """Everything that decides a training run besides data, model, loss and seed.

    Attributes:
        epochs: passes over the training images.
        batch_size: images a step, over all processes.
        lr: peak learning rate.
        momentum: of SGD, without Nesterov; the first beta of Adam and AdamW, whose second is 0.999.
        weight_decay: L2 penalty, on all parameters; with "adamw" decoupled from the gradient.
        schedule: "steps": times 0.1 at each milestone; "cosine": to 0 over the run, by step.
        milestones: fractions of the run at which "steps" drops.
        warmup: epochs of linear rise from 0 to ``lr``.
        clip_norm: largest gradient norm; None does not clip.
        augment: "crop+flip": random crop from 4 pixels of black padding, and horizontal flip; "flip"; "none".
        uncropped: last epochs in which "crop+flip" only flips.
        keep: "last" or "best" (by validation accuracy) epoch's weights.
        precision: of the network's forward and backward pass: "bf16-mixed" or "32-true" or "64-true". The first is
            single precision on a processor without bfloat16, where it took nine times as long. The loss gets logits of
            torch's default dtype, single precision, with each of the three.
        optimizer: "sgd", "adam" or "adamw".
        n_tokens: last tokens of a text that are read; None: all that the data set keeps.
        vectors: "glove": a text network's word vectors are those of :func:`calibkit.data.word_vectors`; None: learnt.
        cutmix: share of the batches that are mixed by CutMix (Yun et al. 2019); see ``calibkit.training.batches.Mix``.
        dropout: rate of Monte-Carlo dropout before the last layer; see ``calibkit.models.mc_dropout``.
        passes: its stochastic passes for a prediction.
        cape_bins: bins of CaPE (Liu et al. 2022); 0: none; see ``calibkit.training.cape``.
        cape_every: epochs of which the last is trained towards the accuracy of the bins.
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
    uncropped: int = 0
    keep: str = "last"
    precision: str = "bf16-mixed"
    optimizer: str = "sgd"
    n_tokens: int | None = None
    vectors: str | None = None
    cutmix: float = 0.0
    dropout: float = 0.0
    passes: int = 10
    cape_bins: int = 0
    cape_every: int = 6

    def __post_init__(self) -> None:
        """Check every value; milestones may come as a list, as from a file."""
        if not isinstance(self.milestones, tuple | list):
            raise expected("milestones", "a tuple of fractions of the run", repr(self.milestones))
        object.__setattr__(self, "milestones", tuple(check_real("milestones", m, 0.0, 1.0) for m in self.milestones))
        check_int("epochs", self.epochs, 1)
        check_int("batch_size", self.batch_size, 1)
        check_real("lr", self.lr, 0.0, open_low=True)
        check_real("momentum", self.momentum, 0.0, 1.0)
        check_real("weight_decay", self.weight_decay, 0.0)
        check_real("warmup", self.warmup, 0.0, self.epochs)
        check_choice("schedule", self.schedule, ("steps", "cosine"))
        check_choice("augment", self.augment, ("crop+flip", "flip", "none"))
        check_int("uncropped", self.uncropped, 0, self.epochs)
        check_choice("keep", self.keep, ("last", "best"))
        check_choice("precision", self.precision, ("bf16-mixed", "32-true", "64-true"))
        check_choice("optimizer", self.optimizer, ("sgd", "adam", "adamw"))
        check_real("cutmix", self.cutmix, 0.0, 1.0)
        check_real("dropout", self.dropout, 0.0, 0.9)
        check_int("passes", self.passes, 1)
        check_int("cape_bins", self.cape_bins, 0)
        check_int("cape_every", self.cape_every, 1)
        if self.n_tokens is not None:
            check_int("n_tokens", self.n_tokens, 1)
        check_choice("vectors", self.vectors, (None, "glove"))
        if self.clip_norm is not None:
            check_real("clip_norm", self.clip_norm, 0.0, open_low=True)

    def in_epoch(self, epoch: int) -> Recipe:
        """The recipe as an epoch has it, counted from 0: without crops in the last ``uncropped``."""
        flips_only = self.augment == "crop+flip" and epoch >= self.epochs - self.uncropped
        return replace(self, augment="flip") if flips_only else self

    def lr_at(self, progress: float) -> float:
        """Learning rate at ``progress`` epochs into the run."""
        if progress < self.warmup:
            return self.lr * progress / self.warmup
        done = progress / self.epochs
        if self.schedule == "cosine":
            return self.lr * 0.5 * (1.0 + math.cos(math.pi * done))
        return self.lr * 0.1 ** sum(done >= m for m in self.milestones)


# SGD 0.1, momentum 0.9, weight decay 5e-4, gradient norm clipped at 2, x 0.1 at 150 and 250 of 350 epochs of batch 128:
# Mukhoti et al. 2020, Appendix, for CIFAR; 40 and 60 of 100 epochs of batch 64 for Tiny-ImageNet. CTS (Sec. IV) takes
# their networks, after the last epoch. MbLS (Appendix B) and ACLS (Sec. 4.1) take the same numbers, and their code the
# epoch with the best validation accuracy. (MbLS prints the third rate of CIFAR as 0.01; its code has 0.001.)
# Mukhoti et al.'s code sums its losses over a batch before it clips, all but the Brier score; here, as in MbLS, the
# mean is clipped. Its scripts give Brier networks other numbers: 550 epochs (WRN on CIFAR-10), 430 (ResNet-110 on
# CIFAR-100), rate 0.035 (Tiny-ImageNet).
_CIFAR = Recipe(350, milestones=(150 / 350, 250 / 350), clip_norm=2.0)
_TINY = Recipe(100, batch_size=64, milestones=(0.4, 0.6), clip_norm=2.0)
# MbLS Appendix B (weight decay from ACLS Sec. 4.1): batch 8, 0.01, x 0.1 at 40 and 80 of 100 epochs.
_VOC = Recipe(100, batch_size=8, lr=0.01, milestones=(0.4, 0.8), clip_norm=2.0, keep="best")
# MbLS Appendix B: Adam 0.001 (0.9, 0.999), x 0.1 at 50 of 100 epochs. It names neither batch nor weight decay.
_NEWS = Recipe(
    100, lr=1e-3, weight_decay=0.0, milestones=(0.5,), augment="none", keep="best", optimizer="adam", vectors="glove"
)
_TEXTS = ("20newsgroups", "20newsgroups_random", "20newsgroups_2000")
_LONG_TAILED = Recipe(200, weight_decay=1e-4)
# Minutes of a CPU core: a tenth of its epochs, on the last 300 words of a message, with vectors of its own.
_SHORT_NEWS = replace(_NEWS, epochs=10, n_tokens=300, vectors=None)

#: (paper, dataset) -> its recipe, with the place of each number; "reduced" is what hours of a CPU allow.
RECIPES: dict[tuple[str, str], Recipe] = {
    ("class_temperature_scaling", "cifar10"): _CIFAR,
    ("class_temperature_scaling", "cifar100"): _CIFAR,
    ("class_temperature_scaling", "tiny_imagenet"): _TINY,
    # SCTL Table 4, which names no schedule: that of He et al. 2016, Sec. 4.2, x 0.1 at 50% and 75%.
    ("class_loss_scaling", "cifar10_lt"): _LONG_TAILED,
    ("class_loss_scaling", "cifar100_lt"): _LONG_TAILED,
    ("mbls", "cifar10"): replace(_CIFAR, keep="best"),
    ("mbls", "tiny_imagenet"): replace(_TINY, keep="best"),
    # MbLS Appendix B: batch 16, 0.1, x 0.1 every 80 of 200 epochs, from ImageNet weights.
    ("mbls", "cub200"): Recipe(200, batch_size=16, milestones=(0.4, 0.8), clip_norm=2.0, keep="best"),
    ("mbls", "voc2012"): _VOC,
    **{("mbls", name): _NEWS for name in _TEXTS},
    ("acls", "cifar10"): replace(_CIFAR, keep="best"),
    ("acls", "tiny_imagenet"): replace(_TINY, keep="best"),
    # ACLS Sec. 4.1: AdamW 5e-4, weight decay 0.05, cosine, 200 epochs of batch 256.
    ("acls", "imagenet"): Recipe(
        200, batch_size=256, lr=5e-4, weight_decay=0.05, schedule="cosine", keep="best", optimizer="adamw"
    ),
    ("acls", "voc2012"): _VOC,
    # An hour of two CPU cores. He et al. 2016, Sec. 4.2: weight decay 1e-4, x 0.1 at 50% and 75%. Their 164 epochs
    # are cut to 30 or 24, and crops are left out, so that the network fits its training images and is as over-confident
    # as the papers' fully trained ones. CIFAR-10 carries the comparison of losses, with the clipping of its papers.
    ("reduced", "cifar10"): Recipe(30, weight_decay=1e-4, augment="flip", clip_norm=2.0),
    ("reduced", "cifar100"): Recipe(24, weight_decay=1e-4, augment="flip"),
    # Batch 64 as on all of Tiny-ImageNet: Mukhoti et al. 2020, Appendix.
    ("reduced", "tiny_imagenet_20"): Recipe(30, batch_size=64, weight_decay=1e-4, augment="flip", clip_norm=2.0),
    # SCTL Table 4: SGD, batch 128, 200 epochs; cut likewise.
    ("reduced", "cifar10_lt"): Recipe(50, weight_decay=1e-4, augment="flip"),
    ("reduced", "cifar100_lt"): Recipe(50, weight_decay=1e-4, augment="flip"),
    ("reduced", "20newsgroups"): _SHORT_NEWS,
    ("reduced", "20newsgroups_random"): _SHORT_NEWS,
    # With the weight decay, too, that the public code of MbLS has by default. 94 % of the messages have no more words.
    ("reduced", "20newsgroups_2000"): replace(_NEWS, n_tokens=500, weight_decay=5e-4),
    # Half an hour of a CPU core: MbLS's recipe for VOC 2012, at an eighth of its epochs, from fresh weights.
    ("reduced", "camvid"): Recipe(12, batch_size=8, lr=0.01, milestones=(0.4, 0.8), augment="flip", clip_norm=2.0),
    # Seconds of a CPU core, without a download: 30 epochs by the schedule of the reduced CIFAR-10, in batches of 50.
    ("reduced", "digits"): Recipe(30, batch_size=50, weight_decay=1e-4, augment="none", precision="64-true"),
    ("smoke", "digits"): Recipe(20, batch_size=50, lr=0.05, schedule="cosine", augment="none", precision="64-true"),
}

#: (loss, dataset) -> its settings there, where a paper has one that is not the loss's default: the margin 6 of MbLS
#: (Sec. 5) and ACLS (Sec. 4.1), 10 elsewhere. A key that sets the option itself, ``"mbls margin=8"``, has its way.
#: ACLS has no texts. It takes MbLS's margin on the data sets that both have, and here, too.
LOSS_OPTIONS: dict[tuple[str, str], dict] = {
    ("mbls", "cifar10"): {"margin": 6.0},
    **{("mbls", name): {"margin": 6.0} for name in _TEXTS},
    **{("acls", name): {"margin": 6.0} for name in ("cifar10", *_TEXTS)},
}

# Mukhoti et al.'s and MbLS's numbers (Appendix B) but for the schedule: crops are left out in the last epochs, as He et
# al. 2019 (arXiv:1909.09148) do, so that a network fits its training images after 20 epochs, and is over-confident.
_SHORT_CIFAR = dict(epochs=20, weight_decay=5e-4, schedule="cosine", warmup=2.0, augment="crop+flip", uncropped=5)

#: (paper, dataset, model) -> what its recipe has another value of. SCTL Table 4; and for the ResNet-110 the warm-up of
#: He et al. 2016, Sec. 4.2: some 400 steps, here 5 epochs of linear rise where they hold 0.01. Without it ours for
#: CIFAR-100-LT had 3.5% of its training images right after 9 epochs, with it 22%.
MODEL_SETTINGS: dict[tuple[str, str, str], dict[str, Any]] = {
    ("reduced", "cifar10", "resnet8"): _SHORT_CIFAR,
    ("reduced", "cifar10", "resnet50"): _SHORT_CIFAR,
    # The trials that led to it: book/results/recipes.csv.
    ("reduced", "cifar10", "resnet8_whitened"): _SHORT_CIFAR | {"epochs": 36, "weight_decay": 1e-3},
    ("reduced", "cifar100", "resnet8"): _SHORT_CIFAR,
    ("reduced", "cifar100", "resnet8_whitened"): _SHORT_CIFAR | {"weight_decay": 1e-3},
    ("class_loss_scaling", "cifar10_lt", "densenet40"): {"lr": 0.01},
    ("class_loss_scaling", "cifar10_lt", "wide_resnet_28"): {"weight_decay": 5e-4},
    ("class_loss_scaling", "cifar10_lt", "resnet110"): {"warmup": 5.0},
    ("class_loss_scaling", "cifar10_lt", "resnet110_sd"): {"lr": 0.04},
    ("class_loss_scaling", "cifar100_lt", "densenet40"): {"lr": 0.01},
    ("class_loss_scaling", "cifar100_lt", "wide_resnet_28"): {"weight_decay": 5e-4},
    ("class_loss_scaling", "cifar100_lt", "resnet110"): {"warmup": 5.0},
    ("class_loss_scaling", "cifar100_lt", "resnet110_sd"): {"lr": 0.05, "weight_decay": 1e-3},
}

#: Trainings of ACLS Table B that are cross-entropy with a change of the recipe, and go by names of their own. CutMix's
#: code mixes half of the batches of CIFAR, that of CaPE has ten bins in every sixth epoch, and a ResNet has no dropout;
#: ACLS names no setting of the three.
VARIANTS: dict[str, dict[str, float]] = {
    "cutmix": {"cutmix": 0.5},
    "mc_dropout": {"dropout": 0.1, "passes": 10},
    "cape_bin": {"cape_bins": 10, "cape_every": 6},
}


def papers_of(dataset: str) -> list[str]:
    """The papers that print a recipe for a data set.

    Example:
        >>> papers_of("cifar100_lt")
        ['class_loss_scaling']
    """
    return [owner for owner, data in RECIPES if data == dataset and owner not in ("smoke", "reduced")]


def owner_of(dataset: str, budget: str, loss: str, paper: str | None = None) -> str:
    """Whose recipe a training follows: at the budget "paper" that of ``paper``, else of the loss's own paper, else any;
    at another budget there is one for all papers, and ``paper`` is None. ValueError lists the recipes there are.

    Example:
        >>> owner_of("cifar10", "paper", "acls"), owner_of("cifar10", "paper", "cross_entropy", "mbls")
        ('acls', 'mbls')
    """
    if paper is not None and budget != "paper":
        raise expected("paper", f"None at the budget {budget}, which has one recipe for all papers", repr(paper))
    owners = [owner for owner, data in RECIPES if data == dataset]
    of_papers = papers_of(dataset)
    wanted = (paper or (loss if loss in of_papers else next(iter(of_papers), None))) if budget == "paper" else budget
    if not owners:
        raise expected("dataset", f"one with a recipe: {', '.join({data: 0 for _, data in RECIPES})}", repr(dataset))
    if wanted not in (of_papers if budget == "paper" else owners):
        known = ", ".join(owners if paper is None else of_papers)
        name = "budget" if paper is None else "paper"
        raise expected(name, f"one with a recipe for {dataset}, of {known}", repr(paper or budget))
    return wanted


def recipe_of(dataset: str, budget: str, loss: str, paper: str | None = None, *, model: str = "") -> Recipe:
    """The recipe for a data set of :func:`owner_of`, with what that paper has of its own for ``model``; of one of
    ``VARIANTS`` with its change, and with the options of its key, of which ValueError refuses what no recipe has.

    Example:
        >>> recipe_of("cifar10", "paper", "mbls") == RECIPES["mbls", "cifar10"]
        True
        >>> recipe_of("cifar10", "reduced", "mbls").epochs
        30
        >>> recipe_of("cifar100_lt", "paper", "cross_entropy", model="resnet110_sd").lr
        0.05
    """
    key = Key.parse(loss)
    recipe = _plain(owner_of(dataset, budget, key.name, paper), dataset, model)
    if key.name in VARIANTS:
        recipe = make(Recipe, "loss", asdict(recipe) | VARIANTS[key.name] | dict(key.options))
    return recipe


def _plain(owner: str, dataset: str, model: str) -> Recipe:
    return replace(RECIPES[owner, dataset], **MODEL_SETTINGS.get((owner, dataset, model), {}))


def named_for(paper: str, dataset: str, model: str = "") -> str:
    """The first paper with the recipe that ``paper`` has for a data set and a network: what two papers train alike is
    trained once, and goes by one name. ``paper`` itself, where it has none.

    Example:
        >>> named_for("acls", "cifar10"), named_for("class_temperature_scaling", "cifar10")
        ('mbls', 'class_temperature_scaling')
    """
    if (paper, dataset) not in RECIPES:
        return paper
    own = _plain(paper, dataset, model)
    return next(owner for owner in papers_of(dataset) if _plain(owner, dataset, model) == own)


def as_stored(recipe: Recipe | dict) -> dict:
    """A recipe as the facts of a training hold it; what facts do not name had no other value when they were written.

    Example:
        >>> as_stored({"epochs": 3}) == as_stored(Recipe(3))
        True
    """
    given = asdict(recipe) if isinstance(recipe, Recipe) else recipe
    defaults = {field.name: field.default for field in fields(Recipe) if field.default is not MISSING}
    return json.loads(json.dumps({**defaults, **given}))
