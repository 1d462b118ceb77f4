"""What this project knows of a paper, and the parts of its small picture: SVG in the colour of the text around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from calibkit.keys import Key

TS, TS_ECE, CTS = "temperature_scaling", "temperature_scaling:ece", "class_temperature_scaling"
CE = "cross_entropy"
WIDTH, HEIGHT, EDGE = 160, 72, 8  # of a picture


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


def framed(text: str, inside: str) -> str:
    """A picture of these parts, which ``text`` says in words."""
    frame = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    return f'<svg class="thumbnail" {frame} role="img" aria-label="{text}">{inside}</svg>'


def curve(function: Callable[[float], float], low: float, high: float, top: float, *, dashed: bool = False) -> str:
    """A function between two abscissae, with ``top`` at the upper edge and 0 at the lower."""
    steps = [low + (high - low) * i / 60 for i in range(61)]
    points = " ".join(f"{_x((x - low) / (high - low)):.1f},{_y(function(x) / top):.1f}" for x in steps)
    dashes = ' stroke-dasharray="4 3"' if dashed else ""
    return f'<polyline points="{points}" fill="none" stroke="currentColor" stroke-width="2"{dashes}/>'


def bars(heights: Sequence[float]) -> str:
    """A bar for each height, the largest as high as the picture."""
    step = (WIDTH - 2 * EDGE) / len(heights)
    shown = []
    for i, height in enumerate(heights):
        y = _y(height / max(heights))
        box = f'x="{EDGE + i * step:.1f}" y="{y:.1f}" width="{step - 2:.1f}" height="{HEIGHT - EDGE - y:.1f}"'
        shown.append(f'<rect {box} fill="currentColor" opacity="0.75"/>')
    return "".join(shown)


def line(height: float) -> str:
    """A dashed level, as a share of the height."""
    y = _y(height)
    ends = f'x1="{EDGE}" x2="{WIDTH - EDGE}" y1="{y:.1f}" y2="{y:.1f}"'
    return f'<line {ends} stroke="currentColor" stroke-width="1.5" stroke-dasharray="4 3"/>'


def _x(share: float) -> float:
    return EDGE + share * (WIDTH - 2 * EDGE)


def _y(share: float) -> float:
    return HEIGHT - EDGE - share * (HEIGHT - 2 * EDGE)
