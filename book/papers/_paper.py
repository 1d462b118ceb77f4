"""What this project knows of a paper."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from calibkit.keys import Key

TS, TS_ECE, CTS = "temperature_scaling", "temperature_scaling:ece", "class_temperature_scaling"
CE = "cross_entropy"


@dataclass(frozen=True)
class Paper:
    """A paper. Its printed numbers are rows of ``paper.csv``, its claims of ``claims.csv``, by its file's name."""

    place: int  # in the order in which one reads the papers, that of every table; from 1
    short: str  # abbreviation of its method, with which the numbers of its claims begin
    method: str  # what it proposes, in words
    citation: str  # its entry in ``references.bib``, which has title, authors, venue and links
    claim: str  # on the front page, a sentence
    found: str  # what became of it, Markdown
    proposes: tuple[str | None, str]  # training loss, None for any; calibrator
    picture: tuple[str, str]  # what is seen in it, and the parts that draw it
    network: str  # "dataset/model" of the paper that its chapter compares at the budget "paper" ...
    parameters: Mapping[str, str] = field(default_factory=dict)  # ... with these parameters of the chapter ...
    losses: tuple[str, ...] = (CE,)  # ... and trained with these losses
    recipe: str = ""  # the paper in ``calibkit.training.RECIPES`` whose recipes its networks follow; "": its own
    pretrained: tuple[str, ...] = ()  # data sets on which it starts from ImageNet weights
    #: Training loss other than cross-entropy -> the loss that it is held against; None: no claim is about losses.
    loss_base: Callable[[str], str] | None = None
    #: Table and calibrator -> the calibrator that this is held against.
    method_base: Callable[[str, Key], str] = lambda table, key: "identity"
    loss_bases: tuple[str, ...] = ()  # losses that all others of a data set and model are held against
    #: Calibrator -> its key as the authors ran it, their optimiser or their reading of their algorithm.
    replay: Callable[[str], str] = lambda method: method
    replays: tuple[str, ...] = ()  # more keys that are told apart on the paper's published logits
    published: str = ""  # how the names of its networks in ``calibkit.networks.PUBLISHED`` begin; "": there are none
    public_tables: tuple[str, ...] = ()  # tables of networks that third parties have
    #: Printed model, or "dataset/model" where that depends on the data -> the network of ours that gives a direction
    #: where nobody here trained that one, "dataset/model" where it is of other data too.
    stand_ins: Mapping[str, str] = field(default_factory=dict)

    @property
    def own(self) -> str:
        """The name of what it proposes: a loss, a calibrator, or the objective of one."""
        loss, method = self.proposes
        key = Key.parse(loss or method)
        return (key.objective or key).name
