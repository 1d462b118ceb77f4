"""Margin-based label smoothing, Liu et al. 2022."""

from book.papers._paper import CE, Paper, curve
from calibkit.losses import LOSSES

MARGIN = LOSSES["mbls"]().margin
WITHOUT_MARGIN = "mbls margin=0 weight=0.05"
_SWEPT = (0, 2, 4, 8, 10, 15)  # margins beside 6, the default on CIFAR-10: Figure 2, and Figure A of ACLS
#: What the two chapters on losses compare.
COMPARED = (*LOSSES, WITHOUT_MARGIN, *(f"{loss} margin={m}" for loss in ("mbls", "acls") for m in _SWEPT))

PAPER = Paper(
    place=4,
    short="MbLS",
    method="Margin-based label smoothing",
    citation="liu2022devil",
    claim="A margin on the logits calibrates better than other losses that are made for it, at no cost in accuracy.",
    found="""
Averaged over nine networks for balanced data, five of them trained once and one a text network with the paper's
layers, epochs and rates, the ECE and the NLL of MbLS are clearly higher than with cross-entropy and one temperature.
The margin is 6 or 10, not tuned. Accuracy is the same within 0.6 points.
Without any temperature its ECE is lower than that of cross-entropy on seven of the nine:
{ours}`ece cifar10 resnet20 mbls | identity` against {ours}`ece cifar10 resnet20 identity` with a ResNet-20 on CIFAR-10,
and {ours}`ece cifar10 resnet50 mbls | identity` against {ours}`ece cifar10 resnet50 identity` with the paper's
ResNet-50, trained once and for 20 of 350 epochs. With one temperature, cross-entropy has
{ours}`ece cifar10 resnet20 temperature_scaling` and {ours}`ece cifar10 resnet50 temperature_scaling`.
Against the focal loss it is clearly lower, averaged over five networks, and against label smoothing
over the four networks for CIFAR-10. Over all nine that hangs on a few of them.
Against a margin of 0 its ECE is lower on five of the six networks that have both,
clearly on average and on three: two ResNet-8s for CIFAR-10 and one for CIFAR-100. Its NLL is lower on four, clearly on
the two for CIFAR-10.
(Accuracy: our ResNet-20 {ours}`accuracy cifar10 resnet20 mbls | identity`, our ResNet-50
{ours}`accuracy cifar10 resnet50 mbls | identity`, the paper's 95.25%.)
""",
    proposes=("mbls", "identity"),
    picture=(
        "The penalty on the distance of a logit from the largest: none up to the margin, then in proportion",
        curve(lambda d: max(0.0, d - MARGIN), 0, 2 * MARGIN, MARGIN),
    ),
    network="cifar10/resnet50",
    parameters={"dataset": "cifar10", "model": "resnet50"},
    losses=COMPARED,
    pretrained=("cub200", "voc2012"),  # Appendix B
    loss_base=lambda loss: "label_smoothing" if loss == "mbls" else CE,
    loss_bases=("label_smoothing", "mbls", WITHOUT_MARGIN),
    stand_ins={
        "cifar10/resnet50": "resnet20",
        "cifar10/resnet101": "resnet20",
        "tiny_imagenet/resnet50": "tiny_imagenet_20/resnet20",
        "deeplabv3_resnet34": "camvid/deeplabv3_resnet34",
        "deeplabv3_resnet50": "camvid/deeplabv3_resnet34",
    },
)
