"""Before the first epoch: what a run is made of, whether it goes together, its processes, the data on the device."""

from __future__ import annotations

import inspect
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from calibkit import data as datasets
from calibkit._checks import check_choice, check_int, expected
from calibkit._extras import needs
from calibkit.data import Dataset, Split
from calibkit.keys import Key, find, make
from calibkit.losses import LOSSES, CrossEntropy
from calibkit.losses._base import RankedLoss
from calibkit.models import build, options_for, suited, takes
from calibkit.training.batches import Feed
from calibkit.training.recipes import LOSS_OPTIONS, VARIANTS, Recipe, owner_of, recipe_of

if TYPE_CHECKING:
    from lightning_fabric import Fabric


def assemble(
    dataset: str,
    model: str,
    loss: str,
    budget: str,
    paper: str | None = None,
    *,
    seed: int = 0,
    pretrained: bool = False,
) -> tuple[nn.Module, nn.Module, Recipe, dict]:
    """What ``calibkit train`` gives to :func:`fit`: fresh network, loss, recipe, and facts for the Logits.

    Args:
        dataset: key of DATASETS.
        model: key of MODELS, in the form that suits the data set's inputs.
        loss: key of a loss with its options, as "mbls margin=8", or of an entry point or a file, "mine.py:Mine". An
            option that is not given is the paper's for this data set, or the default. "cutmix", "mc_dropout" and
            "cape_bin" are cross-entropy with a change of the recipe, whose fields are their options: "cutmix
            cutmix=1.0".
        budget: "smoke", "reduced" or "paper".
        paper: whose recipe, at the budget "paper". Default: that of the loss, see
            :func:`calibkit.training.recipes.recipe_of`.
        seed: of the network's first weights.
        pretrained: start from torchvision's first ImageNet weights, as MbLS did: its code pins torchvision 0.8.2, which
            has no others. The later ones of the ResNets were trained with label smoothing.

    Raises:
        ValueError: an unknown data set, network, loss, option of it, or recipe; a paper at another budget; an option
            that the data set fixes, such as the number of training samples.

    Example:
        >>> _, loss, recipe, facts = assemble("cifar10", "resnet20", "mbls", "reduced")
        >>> loss.margin, recipe.epochs, facts["loss_options"]
        (6.0, 30, {'margin': 6.0})
    """
    spec = datasets.DATASETS[check_choice("dataset", dataset, datasets.DATASETS)]
    key = Key.parse(loss)
    if key.objective is not None:
        raise expected("loss", "NAME [OPTION=VALUE ...]", repr(loss))
    cls = find(key.name, {**LOSSES, **dict.fromkeys(VARIANTS, CrossEntropy)}, "loss")
    if not issubclass(cls, nn.Module):
        raise expected("loss", "a subclass of torch.nn.Module", repr(key.name))
    recipe = recipe_of(dataset, budget, loss, paper, model=model)
    check_choice("model", model, suited(spec.kind, spec.shape))
    options = {} if key.name in VARIANTS else LOSS_OPTIONS.get((key.name, dataset), {}) | dict(key.options)
    facts = {"model": model, "loss": str(key), "loss_options": options, "budget": budget, "pretrained": pretrained}
    if budget == "paper":
        facts["paper"] = owner_of(dataset, budget, key.name, paper)
    if "n_samples" in options and "n_samples" in inspect.signature(cls).parameters:
        raise expected("loss", "without `n_samples`, which is the size of the training set", repr(loss))
    criterion = _loss(cls, options, dataset)
    check_int("seed", seed, 0, 2**63)
    if pretrained and not takes(model, "weights"):
        raise expected("pretrained", f"False, as {model} has no such weights", True)
    weights = {"weights": "IMAGENET1K_V1"} if pretrained else {}
    form = options_for(model, spec.shape, spec.n_tokens)
    if recipe.vectors is not None:
        form = {"vectors": datasets.word_vectors(datasets.vocabulary(dataset))}
    with torch.random.fork_rng(devices=[]):  # the caller's random numbers go on as they were
        torch.manual_seed(seed)
        network = build(model, spec.n_classes, **form, **weights)
    return network.to(dtype_of(recipe)), criterion, recipe, facts


def _loss(cls: type[nn.Module], options: dict, dataset: str) -> nn.Module:
    """The loss; the training set is read only for one that keeps a history of every sample."""
    if "n_samples" in inspect.signature(cls).parameters:
        tried = make(cls, "loss", options | {"n_samples": 1})
        if getattr(tried, "uses_index", False):
            options = options | {"n_samples": len(datasets.load_split(dataset, "train").labels)}
    return make(cls, "loss", options)


def check_run(
    model: nn.Module, data: str, loss: nn.Module, recipe: Recipe, seed: int, device: str, devices: int, nodes: int
) -> None:
    """Refuse what cannot be a run, before :func:`fit` starts."""
    for name, given in (("model", model), ("loss", loss)):
        if not isinstance(given, nn.Module):
            raise expected(name, "a torch.nn.Module, as `assemble` makes one", repr(given))
    if not isinstance(recipe, Recipe):
        raise expected("recipe", "a Recipe, as `assemble` finds one", repr(recipe))
    spec = datasets.DATASETS[check_choice("data", data, datasets.DATASETS)]
    check_choice("device", device, ("auto", "cpu", "cuda"))
    if device == "cuda" and not torch.cuda.is_available():
        raise expected("device", '"auto" or "cpu", as there is no GPU', '"cuda"')
    check_int("devices", devices, 1)
    check_int("nodes", nodes, 1)
    if nodes > 1 and not {"MASTER_ADDR", "SLURM_NTASKS"} & os.environ.keys():
        raise expected("nodes", "1, or MASTER_ADDR, MASTER_PORT and NODE_RANK in the environment of each", nodes)
    check_int("seed", seed, 0, 2**63)
    has_history = getattr(loss, "uses_index", False)
    if recipe.cutmix and (spec.kind != "image" or has_history):
        raise expected("recipe", "one without cutmix for dense or text data, or a loss with a history", recipe)
    if recipe.cape_bins and (spec.kind == "dense" or recipe.cutmix):
        raise expected("recipe", "one without cape_bins for dense data, or beside cutmix", recipe)
    if recipe.n_tokens is not None and spec.kind != "text":
        raise expected("recipe", f"one without n_tokens, as {data} is no text", recipe)
    if has_history and spec.kind == "dense":
        raise expected("loss", "one without a history of samples, as pixels have none", loss)
    if any(parameter.requires_grad for parameter in loss.parameters()):
        raise expected("loss", "one without parameters, as those of the model alone are trained", loss)


def launch(device: str, devices: int, nodes: int, precision: str) -> Fabric:
    """The processes of a run, each on its device; those that nobody has started yet are started.

    One process asks neither Slurm nor torchrun, and so hears none of their warnings; ValueError where torchrun started
    several, each of which would be a run of its own.
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


@dataclass(frozen=True)
class Setup:
    """What every epoch takes; all but the ``splits`` is on the device."""

    fabric: Fabric
    recipe: Recipe
    seed: int  #: of image order, augmentation and stochastic layers
    model: nn.Module
    network: nn.Module  #: the model as Fabric and ``torch.compile`` wrap it: it is called in training
    loss: nn.Module
    optimizer: torch.optim.Optimizer
    spec: Dataset
    splits: dict[str, Split]  #: "train", "val" and "test" as they are stored
    train: Feed
    labels: Tensor  #: of ``train``
    val: Feed
    val_labels: Tensor


def set_up(
    fabric: Fabric, model: nn.Module, loss: nn.Module, data: str, recipe: Recipe, seed: int, compile: bool
) -> Setup:
    """Network, loss, optimiser and data on the device of this process."""
    spec, device = datasets.DATASETS[data], fabric.device
    splits = {name: datasets.load_split(data, name) for name in ("train", "val", "test")}
    if isinstance(loss, RankedLoss) and loss.uses_index:
        if loss.n_samples != (n_samples := len(splits["train"].labels)):
            raise expected("loss", f"one with n_samples={n_samples}, as {data} has", loss)
        loss.forget()
    if recipe.n_tokens is not None:
        splits = {name: split._replace(inputs=split.inputs[:, -recipe.n_tokens :]) for name, split in splits.items()}
    model = model.to(device, dtype_of(recipe), memory_format=torch.channels_last)
    if fabric.world_size > 1 and device.type == "cuda":
        model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    network, optimizer = fabric.setup(torch.compile(model) if compile else model, optimizer_of(model, recipe))
    train, val = (Feed(splits[name].inputs, spec, device, dtype_of(recipe)) for name in ("train", "val"))
    labels, val_labels = (torch.from_numpy(np.array(splits[name].labels)).to(device) for name in ("train", "val"))
    return Setup(
        fabric, recipe, seed, model, network, loss.to(device), optimizer, spec, splits, train, labels, val, val_labels
    )


def optimizer_of(model: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    """The optimiser that a recipe names, over all parameters."""
    if recipe.optimizer == "sgd":
        return torch.optim.SGD(model.parameters(), recipe.lr, recipe.momentum, weight_decay=recipe.weight_decay)
    adam = torch.optim.Adam if recipe.optimizer == "adam" else torch.optim.AdamW
    return adam(model.parameters(), recipe.lr, (recipe.momentum, 0.999), weight_decay=recipe.weight_decay)


def dtype_of(recipe: Recipe) -> torch.dtype:
    """Of weights and inputs, whatever torch's default is."""
    return torch.float64 if recipe.precision == "64-true" else torch.float32
