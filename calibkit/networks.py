"""``Network``: which network, where it lies, and at which budget it was trained.

A trained network goes by the name ``<dataset>/<model>-<loss>-s<seed>``, whoever asks: the zoo that the project ships,
the folders of trainings, the command line, the chapters. The logits of other people's networks go by names of their
own, which ``PUBLISHED`` explains.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import torch

from calibkit import _folders
from calibkit._checks import check_choice, check_int, expected
from calibkit.keys import Key, in_file_name
from calibkit.logits import Logits, read_meta

if TYPE_CHECKING:
    from calibkit.training import Recipe

#: What a training may cost, in rising order: see the protocol page of the book.
BUDGETS = ("smoke", "reduced", "paper")

#: Published logits of networks that the papers used, by name: data set, model and loss of the network.
PUBLISHED: dict[str, tuple[str, str, str]] = {
    "cts-cifar10-resnet50-cross_entropy": ("cifar10", "resnet50", "cross_entropy"),
    **{
        f"cts-{dataset}-{model}-brier": (dataset, model, "brier")
        for dataset in ("cifar10", "cifar100")
        for model in ("resnet50", "resnet110", "wide_resnet_26_10", "densenet121")
    },
    "cts-svhn-resnet152_sd": ("svhn", "resnet152_sd", "cross_entropy"),
    **{
        f"sctl-{dataset.replace('_', '')}-{model}": (dataset, model, "cross_entropy")
        for dataset in ("cifar10", "cifar100", "cifar10_lt", "cifar100_lt")
        for model in ("densenet40", "resnet110", "resnet110_sd", f"wide_resnet_{28 if 'lt' in dataset else 32}")
    },
}

#: What :meth:`Network.train` takes beside the budget, and :meth:`Network.logits` passes on.
OPTIONS = ("paper", "pretrained", "folder", "device", "devices", "nodes", "compile")

_NAME = re.compile(r"(?P<dataset>\w+)/(?P<model>\w+)-(?P<loss>[\w,=.()[\]+-]+)-s(?P<seed>[0-9]+)")
_NEXT_OPTION = re.compile(r",\s*(?=[^\W\d]\w*=)")  # other commas are inside of a value


@dataclass(frozen=True)
class Network:
    """A network by what it is: data set, model, loss, seed.

    Attributes:
        dataset: key of DATASETS.
        model: key of MODELS.
        loss: key of a loss with its options, "mbls margin=8" or "mine.py:Mine"; a comma may stand before an option, as
            in names.
        seed: of its first weights and of the order of the training samples.

    Raises:
        ValueError: a name that is none, in ``parse``; a negative seed; a loss that is no key.

    Example:
        >>> network = Network("cifar10", "resnet20", "mbls margin=0", seed=1)
        >>> str(network)
        'cifar10/resnet20-mbls,margin=0-s1'
        >>> Network.parse("cifar10/resnet20-mbls,margin=0-s1") == network
        True
        >>> Network.parse("cifar10/resnet20-cross_entropy-s0").logits().meta["budget"]
        'reduced'
    """

    dataset: str
    model: str
    loss: str = "cross_entropy"
    seed: int = 0

    def __post_init__(self) -> None:
        """The loss as its key writes itself, so that equal networks are equal."""
        for name in ("dataset", "model", "loss"):
            if not isinstance(value := getattr(self, name), str):
                raise expected(name, "text", repr(value))
        object.__setattr__(self, "loss", str(Key.parse(_NEXT_OPTION.sub(" ", self.loss))))
        check_int("seed", self.seed, 0)

    @classmethod
    def parse(cls, name: str) -> Self:
        """The network called ``name``, ``<dataset>/<model>-<loss>-s<seed>``."""
        match = _NAME.fullmatch(str(name))
        if match is None:
            raise expected("network", "<dataset>/<model>-<loss>-s<seed>", repr(name))
        return cls(match["dataset"], match["model"], match["loss"], int(match["seed"]))

    def __str__(self) -> str:
        """The name: of its file in the zoo, and of the folder of its training. That of a loss in a file has a checksum,
        and :meth:`parse` does not read it.
        """
        return f"{self.dataset}/{self.model}-{in_file_name(Key.parse(self.loss))}-s{self.seed}"

    def folder(self, budget: str, paper: str | None = None) -> Path:
        """Where its training at a budget puts its files.

        At "paper", by the recipe of another ``paper`` than the default's, below a folder of that recipe.
        """
        where = _folders.runs(check_choice("budget", budget, BUDGETS))
        if paper is not None and self._recipe(budget, paper) != self._recipe(budget):
            from calibkit.training import named_for

            where = where / named_for(paper, self.dataset, self.model)
        return where / str(self)

    def find(self, budget: str = "smoke", paper: str | None = None) -> Path | None:
        """Its Logits file, or None: of the zoo at the budget "smoke"; else one of that budget or a higher one.

        A training of one's own comes before the zoo. With ``paper`` only one by the recipe of that paper will do.
        """
        zoo_file = _folders.stored() / "logits" / f"{self}.npz"
        if check_choice("budget", budget, BUDGETS) == "smoke":
            return zoo_file if zoo_file.exists() else None
        enough = BUDGETS[BUDGETS.index(budget) :]
        of_papers = [paper, None] if paper is not None else [None]
        own = [self.folder(name, of) / "logits.npz" for name in enough for of in of_papers]
        for path in filter(Path.exists, own):
            if self._is_by(paper, read_meta(path)):
                return path
        meta = read_meta(zoo_file) if zoo_file.exists() else {}
        return zoo_file if meta.get("budget") in enough and self._is_by(paper, meta) else None

    def _recipe(self, budget: str, paper: str | None = None) -> Recipe:
        from calibkit.training import recipe_of

        return recipe_of(self.dataset, budget, self.loss, paper, model=self.model)

    def _is_by(self, paper: str | None, meta: Mapping) -> bool:
        """Whether what was trained has the recipe of a paper; of a file that does not say it, its name for that."""
        if paper is None:
            return True
        from calibkit.training import as_stored, named_for

        if "recipe" in meta:
            return as_stored(meta["recipe"]) == as_stored(self._recipe("paper", paper))
        same, found = (named_for(of, self.dataset, self.model) for of in (paper, meta.get("paper", paper)))
        return same == found

    def weights(self, budget: str = "smoke") -> Path | None:
        """The file of its weights beside its Logits, where they were kept."""
        return self._beside("weights", budget)

    def maps(self, budget: str = "smoke") -> Path | None:
        """Of dense prediction: the file of its maps of a few test images."""
        return self._beside("maps", budget)

    def _beside(self, what: str, budget: str) -> Path | None:
        found = self.find(budget)
        if found is not None and found.name == "logits.npz":
            path = found.with_name(f"{what}.npz")
        else:
            path = _folders.stored() / what / f"{self}.npz"
        return path if path.exists() else None

    def logits(self, budget: str = "smoke", **training: Any) -> Logits:
        """Its Logits: stored at that budget, or trained now; at "smoke" only read.

        Args:
            budget: one of ``BUDGETS``.
            training: options of :meth:`train`.

        Raises:
            ValueError: at "smoke", a network that the zoo does not hold; ``pretrained`` where what is stored was not;
                what :meth:`train` refuses, options also where nothing is left to train.
        """
        _check_options(budget, training)
        found = self.find(budget, training.get("paper"))
        if found is None and budget == "smoke":
            want = "one of those that `calibkit networks` lists, or trained at a higher budget"
            raise _absent("network", want, str(self))
        if found is None:
            return self.train(budget, **training)
        logits = Logits.load(found)
        if training.get("pretrained") and not logits.meta.get("pretrained"):
            raise expected("pretrained", f"False, as it was for the stored {found}", True)
        return logits

    def train(
        self, budget: str, *, paper: str | None = None, pretrained: bool = False, folder: Path | None = None, **how: Any
    ) -> Logits:
        """Train it by the recipe of a budget; a killed training goes on, a finished one is read.

        Args:
            budget: one of ``BUDGETS``.
            paper: whose recipe, at "paper"; default: that of the loss.
            pretrained: start from torchvision's ImageNet weights.
            folder: of its files; default: :meth:`folder`.
            how: device, devices, nodes, compile, as in :func:`calibkit.training.fit`.

        Raises:
            ValueError: an unknown option, a paper at another budget than "paper", what
                :func:`calibkit.training.assemble` refuses; at the budget "paper" no GPU, unless ``device="cpu"`` says
                that it may take weeks.
        """
        from calibkit.training import assemble, fit

        _check_options(budget, {"paper": paper, **how})
        model, loss, recipe, facts = assemble(
            self.dataset, self.model, self.loss, budget, paper, seed=self.seed, pretrained=pretrained
        )
        where = Path(folder or self.folder(budget, paper))
        unasked = budget == "paper" and how.get("device", "auto") == "auto"
        if unasked and not (where / "logits.npz").exists() and not torch.cuda.is_available():
            raise expected("device", '"cpu", if it may take weeks, as there is no GPU', '"auto"')
        return fit(model, loss, self.dataset, recipe, folder=where, seed=self.seed, meta=facts, **how)


def _check_options(budget: str, training: Mapping[str, object]) -> None:
    """Refuse what no training takes, and a paper where no recipe is a paper's."""
    for name in training:
        check_choice("training", name, OPTIONS)
    if training.get("paper") is not None and budget != "paper":
        want = f"None at the budget {budget}, which has one recipe for all papers"
        raise expected("paper", want, repr(training["paper"]))


def zoo() -> dict[str, Path]:
    """The Logits files that the project ships, by the names of their networks."""
    folder = _folders.stored() / "logits"
    return {path.relative_to(folder).with_suffix("").as_posix(): path for path in sorted(folder.glob("*/*.npz"))}


def index() -> dict[str, tuple[str, float]]:
    """The networks of the zoo by name, with the budget of their training and their test accuracy.

    Example:
        >>> budget, accuracy = index()["cifar10/resnet20-cross_entropy-s0"]
        >>> budget, round(accuracy, 2)
        ('reduced', 0.87)
    """
    facts = {name: read_meta(path) for name, path in zoo().items()}
    return {name: (meta["budget"], meta["accuracy"]) for name, meta in facts.items()}


def published() -> dict[str, Path]:
    """Logits files of other people's networks, ``$CALIBKIT_DATA/logits/*.npz``, by name.

    ``calibkit data prepare published`` fetches them.
    """
    return {path.stem: path for path in sorted((_folders.cache() / "logits").glob("*.npz"))}


def load_logits(name: str | Path, named: str = "logits") -> Logits:
    """The Logits of a network of the zoo, of a published one, or at a path: what :meth:`Logits.load` reads.

    Raises:
        ValueError: none of the three; it is told of the argument ``named``.
        FileNotFoundError: no such file.
    """
    name = str(name)
    known = {**zoo(), **published()}
    if name in known or name.endswith(".npz") or (Path(name) / "val_logits.npy").exists():
        return Logits.load(known.get(name, name))
    names = "a name that `calibkit networks` lists"
    raise _absent(named, f"a path that ends in .npz, or {names}, or a folder with val_logits.npy and so on", name)


def _absent(what: str, want: str, name: str) -> ValueError:
    """The error for a network whose Logits are not here."""
    if _folders.checkout() is None:
        want += "; those of the book are in its checkout: work there, or train it"
    return expected(what, want, repr(name))
