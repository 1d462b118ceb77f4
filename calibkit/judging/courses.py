"""What a loss is judged on: a network, its seeds, and the stored trainings by the same recipe."""

from __future__ import annotations

from typing import NamedTuple

from calibkit import _folders
from calibkit.keys import Key
from calibkit.logits import Logits
from calibkit.training.recipes import as_stored, recipe_of


class Course(NamedTuple):
    """What a loss is trained on, by the recipe "reduced" of the data set.

    Attributes:
        model: the network.
        seeds: trainings, unless told.
        timeout: seconds that one may take, unless told.
    """

    model: str
    seeds: int
    timeout: float


COURSES = {"digits": Course("small_cnn", 5, 600.0), "cifar10": Course("resnet20", 1, 86400.0)}


def stored(data: str) -> dict[str, list[Logits]]:
    """The trainings of the book by the recipe "reduced" of a data set: key of the loss -> its seeds."""
    found: dict[str, list[Logits]] = {}
    for folder in ("losses", "logits"):
        for path in sorted((_folders.stored() / folder / data).glob(f"{COURSES[data].model}-*.npz")):
            logits = Logits.load(path)
            loss, of = logits.meta["loss"], logits.meta["recipe"]
            if logits.meta["budget"] == "reduced" and as_stored(of) == as_stored(recipe_of(data, "reduced", loss)):
                found.setdefault(str(Key.parse(loss)), []).append(logits)
    return found
