"""Class-based temperature scaling, Frenkel and Goldberger 2021."""

import math

from book.papers._paper import CTS, TS, TS_ECE, Paper, bars, line
from calibkit.keys import Key


def _base(table: str, key: Key) -> str:
    """One temperature by ECE, as in the paper; of class temperatures without a constraint those with it."""
    if key.name == TS:
        return "identity"
    return CTS if key.name == CTS and "accuracy_constraint" in key.options else TS_ECE


PAPER = Paper(
    place=1,
    short="CTS",
    method="Class-based temperature scaling",
    citation="frenkel2021network",
    claim="A temperature for each class lowers the calibration error and keeps the accuracy.",
    found="""
It trades one score for the other.
We have nine of the paper's 36 networks, eight of them trained with the Brier score. Their mean ECE is 0.75 points lower
than with one temperature fitted by ECE, and 0.78 in print. The likelihood, of which the paper claims nothing, gets
worse, and 0.2 points of accuracy are lost on test images.
A finer grid, for the one temperature alone, brings a third of the mean gain, nearly all of it on two networks for
CIFAR-100.
Averaged over our own networks for balanced data there is no clear gain. Over the nine of them that were
trained with label smoothing there is one, against one temperature fitted by ECE.
""",
    proposes=(None, CTS),
    picture=(
        "A temperature for each class, about the one temperature of all, dashed",
        bars([0.6 + 0.35 * math.sin(2.4 * k) for k in range(10)]) + line(0.62),
    ),
    network="cifar100/resnet110",
    parameters={"logits": "cifar100/resnet110-cross_entropy-s0"},
    method_base=_base,
    replay=lambda method: f"{CTS} accuracy_constraint=running" if method == CTS else method,
    published="cts-",
    public_tables=("III",),
    stand_ins={
        "resnet110": "resnet20",
        "cifar100/resnet50": "resnet56_b",
        "cifar100/densenet121": "densenet40_bc",
        "wide_resnet_26_10": "resnet8",
        "tiny_imagenet/resnet50": "tiny_imagenet_20/resnet20",
    },
)
