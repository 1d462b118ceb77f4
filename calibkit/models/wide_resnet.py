r"""Wide residual networks for 32 x 32 images.

A network of depth 6n + 4 and width k has a 3 x 3 convolution to 16 channels and three stages of n blocks with 16k, 32k,
64k channels. A block is pre-activated: :math:`h_l = s(h_{l-1}) + F_l(h_{l-1})`, where F is twice batch normalisation,
ReLU, 3 x 3 convolution. The first block of a stage has a 1 x 1 convolution as shortcut s, fed with the normalised
input; in the others s is the identity. The depth counts every convolution, those three shortcuts too, and not the
linear layer.

The calibration papers count in three ways, so that a name is not a depth:

- "Wide-ResNet-40-10" (Neural Clamping, Table 1) and "WideResNet28" (class-wise loss scaling, Table 2) count like
  Zagoruyko and Komodakis: n = 6 and 4. The second names no width; 10 is taken.
- "Wide-ResNet-26-10" (class-based temperature scaling, Table I) leaves the three shortcuts out and counts the linear
  layer: 6n + 2, so n = 4. The networks are those of Mukhoti et al. 2020, whose code activates after the sum and
  normalises the shortcuts; here it is WRN-28-10 of the original paper.
- "WideResNet32" (class-wise loss scaling, Table 1) counts so too, n = 5: its logits are those of Kull et al. 2019,
  whose code sets depth 34 and remarks that this is 32 without the shortcuts.

Papers: Zagoruyko and Komodakis 2016 (arXiv:1605.07146); Mukhoti et al. 2020 (arXiv:2002.09437); Kull et al. 2019
(arXiv:1910.12656).
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from calibkit._checks import check_int, expected


class Block(nn.Module):
    """Two pre-activated 3 x 3 convolutions; the shortcut is a 1 x 1 convolution where the channels change."""

    def __init__(self, c_in: int, c_out: int, stride: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(c_in)
        self.conv1 = nn.Conv2d(c_in, c_out, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(c_out)
        self.conv2 = nn.Conv2d(c_out, c_out, 3, 1, 1, bias=False)
        self.shortcut = nn.Conv2d(c_in, c_out, 1, stride, bias=False) if c_in != c_out else None

    def forward(self, x: Tensor) -> Tensor:
        """(N, c_in, H, W) -> (N, c_out, H / stride, W / stride)."""
        active = F.relu(self.bn1(x))
        shortcut = x if self.shortcut is None else self.shortcut(active)
        return shortcut + self.conv2(F.relu(self.bn2(self.conv1(active))))


class WideResNet(nn.Module):
    """Wide ResNet of a given depth, 6n + 4, and width k >= 1; ValueError of others. 10 is the paper's best.

    Example:
        >>> import torch
        >>> with torch.device("meta"):  # counts without memory
        ...     sum(p.numel() for p in WideResNet(28, 10).parameters())  # 36.5 million, Table 4
        36479194
    """

    def __init__(self, depth: int, n_classes: int, width: int = 10) -> None:
        super().__init__()
        depth = check_int("depth", depth, 10)
        if depth % 6 != 4:
            raise expected("depth", "6n + 4 for an integer n", depth)
        n_classes = check_int("n_classes", n_classes, 2)
        width = check_int("width", width, 1)
        self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        blocks, c_in = [], 16
        for stage in range(3):
            for i in range((depth - 4) // 6):
                c_out = 16 * width * 2**stage
                blocks.append(Block(c_in, c_out, 2 if stage and not i else 1))
                c_in = c_out
        self.blocks = nn.Sequential(*blocks)
        self.bn = nn.BatchNorm2d(c_in)
        self.linear = nn.Linear(c_in, n_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                nn.init.kaiming_normal_(module.weight)

    def forward(self, x: Tensor) -> Tensor:
        """(N, 3, H, W) normalised images -> (N, K) logits."""
        x = F.relu(self.bn(self.blocks(self.conv1(x))))
        return self.linear(x.mean((2, 3)))
