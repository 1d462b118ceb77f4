r"""Networks of torchvision: for 224 x 224 images, the small-image forms of its ResNets and DenseNet-121, DeepLabV3.

The CIFAR and Tiny-ImageNet networks of Mukhoti et al. 2020 differ from torchvision's at both ends only (``stem``):

- "cifar": the first convolution is 3 x 3 with stride 1, and no pooling follows it.
- "tiny": the same, and the last average pooling leaves 2 x 2 positions, all of which the linear layer sees.
- "imagenet": torchvision's own 7 x 7 convolution with stride 2, and maximum pooling by 2.

CTS (Sec. IV) takes those networks, trained; MbLS and ACLS take the settings. No paper describes the first layers, but
the configurations of MbLS and ACLS name a module ``resnet_tiny_imagenet``, as the code of Mukhoti et al. does. MbLS's
configuration of ResNet-101 for CUB-200-2011 has dropout before the last layer, of which the paper does not speak; here
there is none.

``weights`` is a name that torchvision knows, as "DEFAULT" or "IMAGENET1K_V1": it downloads the file into torch's cache.
Without it a network is fresh. For K other than 1,000 the last linear layer is then fresh, as MbLS (App. B) does for
CUB-200-2011.

Papers: He et al. 2016 (arXiv:1512.03385); Huang et al. 2017 (arXiv:1608.06993); Dosovitskiy et al. 2021
(arXiv:2010.11929); Mukhoti et al. 2020 (arXiv:2002.09437).
"""

from __future__ import annotations

import re
from collections import OrderedDict
from typing import Any, ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from calibkit._checks import check_choice, check_int, check_real, expected
from calibkit._extras import ensure_torchvision_importable, needs


def plain(name: str, n_classes: int, weights: str | None = None, **options: Any) -> nn.Module:
    """A classification network of torchvision, as it is, for K = ``n_classes``; ``options`` are torchvision's own.

    Raises:
        ValueError: a name or weights that torchvision does not have.

    Example:
        >>> sum(p.numel() for p in plain("efficientnet_b0", 1000).parameters())
        5288548
    """
    n_classes = check_int("n_classes", n_classes, 2)
    ensure_torchvision_importable()
    with needs("train"):
        from torchvision import models

    check_choice("name", name, models.list_models(models))
    if weights is None:
        return models.get_model(name, num_classes=n_classes, **options)
    known = models.get_model_weights(name).__members__
    state = known[check_choice("weights", weights, known)].get_state_dict(check_hash=True, weights_only=True)
    # the files of the DenseNets are older than the names of their layers: norm.1 is now norm1
    state = {re.sub(r"(denselayer\d+\.(?:norm|conv))\.(\d)", r"\1\2", key): value for key, value in state.items()}
    net = models.get_model(name, num_classes=1000, **options)
    net.load_state_dict(state)
    if n_classes != 1000:
        path, last = [(path, module) for path, module in net.named_modules() if isinstance(module, nn.Linear)][-1]
        parent, _, leaf = path.rpartition(".")
        setattr(net.get_submodule(parent), leaf, nn.Linear(last.in_features, n_classes))
    return net


def resnet(name: str, n_classes: int, stem: str = "cifar", weights: str | None = None) -> nn.Module:
    """ResNet with bottlenecks: torchvision's "resnet50", "resnet101" or "resnet152", with one of the three stems.

    ValueError tells of an unknown stem, and of unknown weights or any with another stem than ImageNet's.

    Example:
        >>> sum(p.numel() for p in resnet("resnet50", 10).parameters())
        23520842
    """
    _check_stem(stem, ("cifar", "tiny", "imagenet"), weights)
    net = plain(name, n_classes, weights)
    if stem != "imagenet":
        net.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
        nn.init.kaiming_normal_(net.conv1.weight, mode="fan_out", nonlinearity="relu")  # as torchvision's others
        net.maxpool = nn.Identity()
    if stem == "tiny":
        net.avgpool = nn.AdaptiveAvgPool2d(2)
        net.fc = nn.Linear(4 * net.fc.in_features, n_classes)
    return net


def densenet(name: str, n_classes: int, stem: str = "cifar", weights: str | None = None) -> nn.Module:
    """DenseNet-BC with four blocks: torchvision's "densenet121" or "densenet161", with the stem "cifar" or "imagenet".

    With "cifar" the first dense block follows the convolution directly, as in Mukhoti et al.'s code. Errors are those
    of :func:`resnet`.

    Raises:
        ValueError: fewer than 2 classes, an unknown stem or weights.

    Example:
        >>> sum(p.numel() for p in densenet("densenet121", 10).parameters())
        6956298
    """
    _check_stem(stem, ("cifar", "imagenet"), weights)
    net = plain(name, n_classes, weights)
    if stem == "cifar":
        first = net.features.conv0
        net.features.conv0 = nn.Conv2d(3, first.out_channels, 3, 1, 1, bias=False)
        nn.init.kaiming_normal_(net.features.conv0.weight)
        del net.features.norm0, net.features.relu0, net.features.pool0
    return net


def vit(n_classes: int, image_size: int = 224, weights: str | None = None, dropout: float = 0.1) -> nn.Module:
    """Vision transformer ViT-B/16: 12 blocks of 12 heads, dimension 768, on patches of 16 x 16 pixels.

    MbLS (App. E) names no size; its code takes this one at 224 x 224 with dropout 0.1, from weights that were trained
    on ImageNet-21k and then ImageNet-1k. Those of torchvision are of ImageNet-1k alone. Images of another size are
    resized to ``image_size`` pixels, bilinearly. ``dropout`` is the rate after the position embedding, the attention,
    and in the hidden layers.

    Raises:
        ValueError: a size that is no multiple of 16 or does not fit the weights, unknown weights, a rate outside
            [0, 1].
    """
    image_size = check_int("image_size", image_size, 16)
    if image_size % 16:
        raise expected("image_size", "a multiple of 16", image_size)
    dropout = check_real("dropout", dropout, 0.0, 1.0)
    if weights is not None:
        ensure_torchvision_importable()
        with needs("train"):
            from torchvision.models import ViT_B_16_Weights

        known = ViT_B_16_Weights.__members__
        side = known[check_choice("weights", weights, known)].meta["min_size"][0]
        if image_size != side:
            raise expected("image_size", f"{side}, that of the weights", image_size)
    net = plain("vit_b_16", n_classes, weights, image_size=image_size, dropout=dropout)
    return nn.Sequential(OrderedDict(resize=nn.Upsample(size=image_size, mode="bilinear"), vit=net))


def dilate(stages: list[nn.Module]) -> None:
    """Replace, in place, the stride of 2 of each stage by dilation of what follows it."""
    rate = 1
    for stage in stages:
        for conv in stage.modules():
            if not isinstance(conv, nn.Conv2d):
                continue
            if conv.kernel_size == (3, 3):
                now = rate if conv.stride == (2, 2) else 2 * rate
                conv.dilation = conv.padding = (now, now)
            conv.stride = (1, 1)
        rate *= 2


class DeepLabV3(nn.Module):
    r"""DeepLabV3 for semantic segmentation, at output stride 8, on a ResNet whose last two stages dilate.

    In the last two stages a stride of 2 becomes 1, and all 3 x 3 convolutions after it are dilated by 2, then by 4. So
    the features have 1/8 of the image's side, not 1/32, and where the strided network has features the dilated one has
    the same. The head is the pyramid of dilated convolutions with rates 12, 24, 36 and 256 channels; its output is
    resized bilinearly to the image.

    torchvision dilates only blocks with bottlenecks when it builds a ResNet. Dilation changes no weight's shape, so
    here the finished network is changed, and ResNet-34 with its basic blocks dilates by the same rule. (The library
    that MbLS names, segmentation_models.pytorch, dilates the convolution too that had the stride, so there the identity
    above does not hold.)

    Paper: Chen et al. 2017 (arXiv:1706.05587), Sec. 3. Used by MbLS (Table 5) and ACLS (Table 4) on PASCAL VOC 2012,
    from ImageNet weights (``weights="DEFAULT"``).

    The names of its weights are torchvision's.

    Args:
        backbone: "resnet34" or "resnet50"; ValueError of another.
        n_classes: number of classes K, background included: 21 for PASCAL VOC.
        weights: name of pretrained weights of the backbone, as "DEFAULT"; None: fresh ones.
    """

    dense: ClassVar[bool] = True

    def __init__(self, backbone: str, n_classes: int, weights: str | None = None) -> None:
        super().__init__()
        n_classes = check_int("n_classes", n_classes, 2)
        check_choice("backbone", backbone, ("resnet34", "resnet50"))
        net = plain(backbone, 1000, weights)
        with needs("train"):
            from torchvision.models.segmentation.deeplabv3 import DeepLabHead

        channels = net.fc.in_features
        del net.avgpool, net.fc
        dilate([net.layer3, net.layer4])
        self.backbone = nn.Sequential(OrderedDict(net.named_children()))
        self.classifier = DeepLabHead(channels, n_classes)

    def forward(self, x: Tensor) -> Tensor:
        """(N, 3, H, W) normalised images -> (N, K, H, W) logits."""
        scores = self.classifier(self.backbone(x))
        return F.interpolate(scores, x.shape[2:], mode="bilinear", align_corners=False)


def _check_stem(stem: str, stems: tuple[str, ...], weights: str | None) -> None:
    """Refuse a stem that a network does not have, and pretrained weights with another than ImageNet's."""
    if check_choice("stem", stem, stems) != "imagenet" and weights is not None:
        raise expected("stem", "imagenet for pretrained weights", repr(stem))
