r"""DeepLabV3 for semantic segmentation, on a ResNet whose last two stages dilate instead of striding.

In the last two stages a stride of 2 becomes 1, and all 3 x 3 convolutions after it are dilated by 2, then by 4. So the
features have 1/8 of the image's side, not 1/32, and where the strided network has features the dilated one has the
same. The head is the pyramid of dilated convolutions with rates 12, 24, 36 and 256 channels; its output is resized
bilinearly to the image.

torchvision dilates only blocks with bottlenecks when it builds a ResNet. Dilation changes no weight's shape, so here
the finished network is changed, and ResNet-34 with its basic blocks dilates by the same rule. (The library that MbLS
names, segmentation_models.pytorch, dilates the convolution too that had the stride, so there the identity above
does not hold.)

Paper: Chen et al. 2017 (arXiv:1706.05587), Sec. 3. Used by MbLS (Table 5) and ACLS (Table 4) on PASCAL VOC 2012, from
ImageNet weights (``weights="DEFAULT"``).
"""

from __future__ import annotations

from collections import OrderedDict

import torch.nn.functional as F
from torch import Tensor, nn

from calibkit._checks import check_choice, check_int
from calibkit._extras import needs
from calibkit.models.vision import plain


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
    """DeepLabV3 at output stride 8. The names of its weights are torchvision's.

    Args:
        backbone: "resnet34" or "resnet50"; ValueError of another.
        n_classes: number of classes K, background included: 21 for PASCAL VOC.
        weights: name of pretrained weights of the backbone, as "DEFAULT"; None: fresh ones.
    """

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
