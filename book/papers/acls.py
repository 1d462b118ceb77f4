"""Adaptive and conditional label smoothing, Park et al. 2023."""

from book.papers._paper import CE, Paper, curve
from book.papers.mbls import COMPARED, MARGIN
from calibkit.keys import Key

_BASES = {"acls": "mbls", "acls part=conditional": "mbls", "acls part=adaptive": "label_smoothing"}


def _base(loss: str) -> str:
    """Of ACLS and its parts those that its claims name; of another indicator (Table 6) the same loss."""
    key = Key.parse(loss)
    return key.name if "indicator" in key.options else _BASES.get(loss, CE)


PAPER = Paper(
    place=5,
    short="ACLS",
    method="Adaptive and conditional label smoothing",
    citation="park2023acls",
    claim="Smoothing that adapts to each sample, and acts only beyond a margin, is better still.",
    found="""
On all nine networks for balanced data on which we trained both, five of them once, ACLS has a clearly lower ECE than
cross-entropy. All but a text network are smaller than the paper's, or trained for a shorter time.
With a ResNet-20 on CIFAR-10 it has {ours}`ece cifar10 resnet20 acls | identity`, with no clear difference from MbLS.
With a ResNet-50, as in the paper but trained once and for 20 of 350 epochs, it has
{ours}`ece cifar10 resnet50 acls | identity`, where MbLS has {ours}`ece cifar10 resnet50 mbls | identity` and
cross-entropy {ours}`ece cifar10 resnet50 identity`.
With a ResNet-8 it has {ours}`ece cifar10 resnet8 acls | identity`, clearly less than MbLS with
{ours}`ece cifar10 resnet8 mbls | identity`, and so with a whitened one, whose first layer is fixed, right on 93%:
{ours}`ece cifar10 resnet8_whitened acls | identity` and {ours}`ece cifar10 resnet8_whitened mbls | identity`.
Cross-entropy with one temperature is clearly lower on all four, on the ResNet-50 by test images alone:
{ours}`ece cifar10 resnet20 temperature_scaling`, {ours}`ece cifar10 resnet50 temperature_scaling`,
{ours}`ece cifar10 resnet8 temperature_scaling` and {ours}`ece cifar10 resnet8_whitened temperature_scaling`.
With a ResNet-8 on CIFAR-100 it has {ours}`ece cifar100 resnet8 acls | identity`, where that temperature has
{ours}`ece cifar100 resnet8 temperature_scaling`: no clear difference, as on a whitened one. The NLL is higher beyond
chance on the test images of both.
The printed gradient belongs to no loss. The public code follows another gradient, which belongs to no loss either but
trains well.
(Accuracy: our ResNet-20 {ours}`accuracy cifar10 resnet20 acls | identity`, our ResNet-50
{ours}`accuracy cifar10 resnet50 acls | identity`, the paper's 95.40%.)
""",
    proposes=("acls", "identity"),
    picture=(
        "The penalty on a logit's distance: none up to the margin, then by its square",
        curve(lambda d: max(0.0, d - MARGIN) ** 2, 0, 2 * MARGIN, MARGIN**2),
    ),
    network="cifar10/resnet50",
    parameters={"comparison": "cifar10/resnet50", "logits": "cifar10/resnet50-cross_entropy-s0"},
    losses=COMPARED,
    pretrained=("voc2012",),  # it takes the settings of MbLS for VOC 2012
    loss_base=_base,
    loss_bases=("acls", "crl"),
    stand_ins={
        "cifar10/resnet50": "resnet20",
        "cifar10/resnet101": "resnet20",
        "tiny_imagenet/resnet50": "tiny_imagenet_20/resnet20",
        "deeplabv3_resnet50": "camvid/deeplabv3_resnet34",
    },
)
