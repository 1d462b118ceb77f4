"""Neural Clamping, Tang et al. 2024."""

import math

from book.papers._paper import TS, Paper, curve
from calibkit.keys import Key


def _wave(x: float) -> float:
    return 0.5 + 0.3 * math.sin(x) + 0.12 * math.sin(2.3 * x)


def _base(table: str, key: Key) -> str:
    """Of input and temperature the temperature alone: in Table 3 the one fitted by the same loss."""
    if key.name != "neural_clamping" or "part" in key.options:
        return "identity"
    return "neural_clamping part=output" if table == "3" else TS


PAPER = Paper(
    place=3,
    short="NC",
    method="Neural Clamping",
    citation="tang2024neural",
    claim="One learned shift of every input, with a temperature, beats the temperature.",
    found="""
We could not tell.
On all four networks, three trained with cross-entropy and one with label smoothing, our interval includes both no gain
at all and the 29% that the paper reports for adding the shift to the temperature that is fitted with it.
Only one of them tests the focal loss, for which the paper claims it. On the others γ is 0, below the paper's 0.01 to 5.
In our short fits the likelihood, which the paper does not report, is clearly worse on all four.
Accuracy falls there by 0.8 to 2.0 points from a random start, and by 0.1 to 0.8 points from that of Theorem 1, clearly
on two of four. The paper prints falls of at most 0.5.
""",
    proposes=(None, "neural_clamping"),
    picture=(
        "An input, and beside it the same input with one learned shift, dashed",
        curve(_wave, 0, 9, 1) + curve(lambda x: _wave(x) + 0.1 * math.cos(4 * x), 0, 9, 1, dashed=True),
    ),
    network="cifar100/resnet110",
    recipe="class_temperature_scaling",  # it prints none; that paper has one for the same network of CIFAR-100
    method_base=_base,
    stand_ins={"resnet110": "resnet20", "wide_resnet_40_10": "resnet8", "densenet121": "densenet40_bc"},
)
