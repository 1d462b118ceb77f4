"""What this project knows of a paper."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from calibkit.keys import Key

TS, TS_ECE, CTS = "temperature_scaling", "temperature_scaling:ece", "class_temperature_scaling"
CE = "cross_entropy"


@dataclass(frozen=True)
class Paper:
    """A paper. Its printed numbers are rows of ``paper.csv``, its claims of ``claims.csv``: both say its file's name.

    Attributes:
        place: in the order in which one reads the papers, that of every table; from 1.
        short: abbreviation of its method, with which the numbers of its claims begin.
        method: what it proposes, in words.
        citation: its entry in ``references.bib``, which has title, authors, venue and links.
        claim: on the front page, a sentence.
        found: what became of it, Markdown.
        proposes: training loss, None for any; calibrator.
        picture: what is seen in it, and the parts that draw it.
        network: "dataset/model" of the paper that its chapter compares at the budget "paper" ...
        parameters: ... with these parameters of the chapter ...
        losses: ... and trained with these losses.
        recipe: of which paper its networks follow the recipes, keys of ``calibkit.training.RECIPES``; "": its own.
        pretrained: data sets on which it starts from ImageNet weights.
        loss_base: training loss other than cross-entropy -> the loss that it is held against; None: no claim is about
            losses.
        method_base: table and calibrator -> the calibrator that this is held against.
        loss_bases: losses that all others of a data set and model are held against.
        replay: calibrator -> its key as the authors ran it, their optimiser or their reading of their algorithm.
        replays: more keys that are told apart on the paper's published logits.
        published: how the names of its networks in ``calibkit.networks.PUBLISHED`` begin; "": there are none.
        public_tables: tables of networks that third parties have.
        stand_ins: printed model, or "dataset/model" where that depends on the data -> the network of ours that gives a
            direction where nobody here trained that one, "dataset/model" where it is of other data too.
    """

    place: int
    short: str
    method: str
    citation: str
    claim: str
    found: str
    proposes: tuple[str | None, str]
    picture: tuple[str, str]
    network: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    losses: tuple[str, ...] = (CE,)
    recipe: str = ""
    pretrained: tuple[str, ...] = ()
    loss_base: Callable[[str], str] | None = None
    method_base: Callable[[str, Key], str] = lambda table, key: "identity"
    loss_bases: tuple[str, ...] = ()
    replay: Callable[[str], str] = lambda method: method
    replays: tuple[str, ...] = ()
    published: str = ""
    public_tables: tuple[str, ...] = ()
    stand_ins: Mapping[str, str] = field(default_factory=dict)

    @property
    def own(self) -> str:
        """The name of what it proposes: a loss, a calibrator, or the objective of one."""
        loss, method = self.proposes
        key = Key.parse(loss or method)
        return (key.objective or key).name
