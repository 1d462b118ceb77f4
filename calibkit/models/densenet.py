r"""Densely connected networks for 32 x 32 images.

Each layer of a dense block sees all that came before it in the block, :math:`x_l = [x_{l-1}, H_l(x_{l-1})]`, where H is
batch normalisation, ReLU and a 3 x 3 convolution to k channels, k being the growth rate. Three blocks of n layers have
transitions between them: batch normalisation, ReLU, a 1 x 1 convolution, and average pooling by 2. The depth is 3n + 4.

The BC variant puts a 1 x 1 convolution to 4k channels before each 3 x 3 one (depth 6n + 4), halves the channels in each
transition, and starts with 2k channels instead of 16.

"DenseNet40" of class-wise loss scaling (Table 1) is the plain network with k = 12: its logits are those of Kull et al.
2019, whose code has neither bottlenecks nor compression, and starts with 2k = 24 channels (``stem=24``).

Papers: Huang et al. 2017 (arXiv:1608.06993); Kull et al. 2019 (arXiv:1910.12656).
"""

from __future__ import annotations

from collections import OrderedDict

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from calibkit._checks import check_int, expected


class Layer(nn.Module):
    """Appends ``growth`` channels to its input; with a bottleneck through a 1 x 1 convolution."""

    def __init__(self, c_in: int, growth: int, bottleneck: bool) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(c_in)
        self.norm2 = nn.BatchNorm2d(4 * growth) if bottleneck else None
        if bottleneck:
            self.conv1 = nn.Conv2d(c_in, 4 * growth, 1, bias=False)
            self.conv2 = nn.Conv2d(4 * growth, growth, 3, 1, 1, bias=False)
        else:
            self.conv1 = nn.Conv2d(c_in, growth, 3, 1, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(N, c_in, H, W) -> (N, c_in + growth, H, W)."""
        new = self.conv1(F.relu(self.norm1(x)))
        if self.norm2 is not None:
            new = self.conv2(F.relu(self.norm2(new)))
        return torch.cat((x, new), 1)


class DenseNet(nn.Module):
    """DenseNet or DenseNet-BC of a given depth.

    Args:
        depth: 3n + 4, or 6n + 4 with ``bc``: 40 and 100 in the paper.
        n_classes: number of classes K.
        growth: rate k, channels that each layer appends. Default 12 (paper, Table 2).
        bc: bottlenecks, and transitions that halve the channels. Default False.
        stem: channels of the first convolution. Default None: 16, or 2k with ``bc`` (paper, Sec. 3).

    Raises:
        ValueError: a depth that is not 3n + 4 or 6n + 4, fewer than 2 classes, a growth or a stem below 1.

    Example:
        >>> sum(p.numel() for p in DenseNet(40, 10).parameters())     # 1.0 million, Table 2
        1019722
    """

    def __init__(self, depth: int, n_classes: int, growth: int = 12, bc: bool = False, stem: int | None = None) -> None:
        super().__init__()
        unit = 6 if bc else 3
        n_layers, rest = divmod(check_int("depth", depth, unit + 4) - 4, unit)
        if rest:
            raise expected("depth", f"{unit}n + 4 for an integer n", depth)
        n_classes = check_int("n_classes", n_classes, 2)
        growth = check_int("growth", growth, 1)
        channels = (2 * growth if bc else 16) if stem is None else check_int("stem", stem, 1)
        parts = OrderedDict(conv0=nn.Conv2d(3, channels, 3, 1, 1, bias=False))
        for block in (1, 2, 3):
            layers = OrderedDict()
            for i in range(n_layers):
                layers[f"denselayer{i + 1}"] = Layer(channels, growth, bc)
                channels += growth
            parts[f"denseblock{block}"] = nn.Sequential(layers)
            if block < 3:
                c_out = channels // 2 if bc else channels
                transition = OrderedDict[str, nn.Module](norm=nn.BatchNorm2d(channels), relu=nn.ReLU())
                transition |= {"conv": nn.Conv2d(channels, c_out, 1, bias=False), "pool": nn.AvgPool2d(2)}
                parts[f"transition{block}"] = nn.Sequential(transition)
                channels = c_out
        parts["norm_final"] = nn.BatchNorm2d(channels)
        self.features = nn.Sequential(parts)
        self.classifier = nn.Linear(channels, n_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight)

    def forward(self, x: Tensor) -> Tensor:
        """(N, 3, H, W) normalised images -> (N, K) logits."""
        return self.classifier(F.relu(self.features(x)).mean((2, 3)))
