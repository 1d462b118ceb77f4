"""Class-wise loss scaling, Jung et al. 2023; its authors also write SCTL."""

from book.papers._paper import CTS, TS, Paper, bars, line
from calibkit.keys import Key


def _base(table: str, key: Key) -> str:
    """Of a calibrator by another objective the same calibrator by likelihood."""
    if key.objective is None or key.objective.name == "nll":
        return "identity"
    return f"{key.name}:nll" if key.name == CTS else key.name


def _replay(method: str) -> str:
    """By the authors' optimiser."""
    key = Key.parse(method)
    if key.name not in (TS, CTS, "ets", "pts"):
        return method
    return str(Key(key.name, {"solver": "sctl", **key.options}, key.objective))


PAPER = Paper(
    place=2,
    short="CLS",
    method="Class-wise loss scaling",
    citation="jung2023scaling",
    claim="Weights that equalise the classes' losses generally improve a calibrator and keep its accuracy.",
    found="""
As its code has them, they do on long-tailed CIFAR-10, and on balanced CIFAR-10 by 0.2 points.
Weighting all classes equally, which its code does and its printed formula does not, brings most of the gain by itself,
its own weights alone 27 to 55%:
the ECE of a DenseNet-40 falls from {ours}`ece cifar10_lt densenet40 temperature_scaling` to
{ours}`ece cifar10_lt densenet40 temperature_scaling:class_balanced` by equal weights alone, and to
{ours}`ece cifar10_lt densenet40 temperature_scaling:class_loss_scaling` with the weights by loss too.
""",
    proposes=(None, "temperature_scaling:class_loss_scaling"),
    picture=(
        "Shares of the classes in long-tailed data, and the equal weight that each gets, dashed",
        bars([0.1 ** (k / 9) for k in range(10)]) + line(0.5),
    ),
    network="cifar10_lt/resnet110",
    parameters={"logits": "cifar10_lt/resnet110-cross_entropy-s0"},
    method_base=_base,
    replay=_replay,
    # Its focal loss and its equation (3), as its code has them.
    replays=(
        *(f"{name}:focal detach=True" for name in (TS, CTS, "ets")),
        *(f"{name}:class_loss_scaling variant=paper" for name in (TS, CTS)),
    ),
    published="sctl-",
    public_tables=("1", "3"),
    stand_ins={
        "resnet110": "resnet20",
        "cifar10/resnet110_sd": "resnet50",
        "cifar100/resnet110_sd": "resnet56_b",
        "cifar100/densenet40": "densenet40_bc",
        "cifar100_lt/densenet40": "resnet20",
        "wide_resnet_32": "resnet8",
        "wide_resnet_28": "resnet8",
    },
)
