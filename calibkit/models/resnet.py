r"""Residual networks for 32 x 32 images, with and without stochastic depth, and wide ones.

A network of depth 6n + 2 has a 3 x 3 convolution and three stages of n blocks with 16, 32, 64 channels; each block is
:math:`h_{l} = \mathrm{ReLU}(s(h_{l-1}) + F_l(h_{l-1}))` with F two 3 x 3 convolutions and batch normalisation. Where a
stage halves the image, the shortcut s takes every second pixel and pads the missing channels with zeros (option A),
so it has no parameters, or is a 1 x 1 convolution with batch normalisation (option B).

With stochastic depth, block l of L is skipped in training with probability :math:`l / L \cdot d` (d = 0.5), and in
evaluation its branch is multiplied by the probability that it survives.

Two networks of the same name are others. The ResNet-110 of CTS, in the code of Mukhoti et al. 2020, has bottlenecks in
four stages of 3, 4, 26 and 3 blocks with up to 2048 channels; the one whose logits SCTL Table 1 takes, in the code of
Kull et al. 2019, normalises before each convolution and projects its shortcuts.

Papers: He et al. 2016, Sec. 4.2 (arXiv:1512.03385); Huang et al. 2016, "Deep Networks with Stochastic Depth"
(arXiv:1603.09382).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from calibkit._checks import check_choice, check_int, check_real, expected


class Block(nn.Module):
    """Two 3 x 3 convolutions and a shortcut; ``survival`` is the probability to be kept in training."""

    def __init__(self, c_in: int, c_out: int, stride: int, survival: float, shortcut: str = "A") -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(c_in, c_out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(c_out)
        self.conv2 = nn.Conv2d(c_out, c_out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(c_out)
        self.stride, self.pad, self.survival = stride, c_out - c_in, survival
        self.downsample = None
        if self.pad and shortcut == "B":
            self.downsample = nn.Sequential(nn.Conv2d(c_in, c_out, 1, stride, bias=False), nn.BatchNorm2d(c_out))

    def forward(self, x: Tensor) -> Tensor:
        """(N, c_in, H, W) -> (N, c_out, H / stride, W / stride)."""
        shortcut = x
        if self.downsample is not None:
            shortcut = self.downsample(x)
        elif self.pad:
            shortcut = F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, self.pad // 2, self.pad // 2))
        if self.training and self.survival < 1.0 and torch.rand(()).item() >= self.survival:
            return F.relu(shortcut)
        branch = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        if not self.training and self.survival < 1.0:
            branch = self.survival * branch
        return F.relu(shortcut + branch)


class ResNet(nn.Module):
    """CIFAR ResNet of a given depth.

    Args:
        depth: 6n + 2: 20, 32, 44, 56, 110 in the paper.
        n_classes: number of classes K.
        drop: skip probability of the last block, in [0, 1], falling linearly to 0 at the input. 0 is the plain network;
            the stochastic-depth paper takes 0.5.
        shortcut: "A" or "B" of He et al., Sec. 4.1, where the size changes. Their networks for CIFAR have A.

    Raises:
        ValueError: a depth that is not 6n + 2, fewer than 2 classes, a drop outside [0, 1], another shortcut.

    Example:
        >>> sum(p.numel() for p in ResNet(20, 10).parameters())     # 0.27 million, He et al. Table 6
        269722
    """

    def __init__(self, depth: int, n_classes: int, drop: float = 0.0, shortcut: str = "A") -> None:
        super().__init__()
        depth = check_int("depth", depth, 8)
        if depth % 6 != 2:
            raise expected("depth", "6n + 2 for an integer n", depth)
        n_classes = check_int("n_classes", n_classes, 2)
        drop = check_real("drop", drop, 0.0, 1.0)
        check_choice("shortcut", shortcut, ("A", "B"))
        n = (depth - 2) // 6
        self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        stages, c_in = [], 16
        for stage, c_out in enumerate((16, 32, 64)):
            blocks = []
            for i in range(n):
                survival = 1.0 - drop * (stage * n + i + 1) / (3 * n)
                blocks.append(Block(c_in, c_out, 2 if stage and not i else 1, survival, shortcut))
                c_in = c_out
            stages.append(nn.Sequential(*blocks))
        self.layer1, self.layer2, self.layer3 = stages
        self.linear = nn.Linear(64, n_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                nn.init.kaiming_normal_(module.weight)

    def forward(self, x: Tensor) -> Tensor:
        """(N, 3, H, W) normalised images -> (N, K) logits."""
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.linear(x.mean((2, 3)))


class WideBlock(nn.Module):
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
    r"""Wide ResNet of a given depth, 6n + 4, and width k >= 1; ValueError of others. 10 is the paper's best.

    A network of depth 6n + 4 and width k has a 3 x 3 convolution to 16 channels and three stages of n blocks with 16k,
    32k, 64k channels. A block is pre-activated: :math:`h_l = s(h_{l-1}) + F_l(h_{l-1})`, where F is twice batch
    normalisation, ReLU, 3 x 3 convolution. The first block of a stage has a 1 x 1 convolution as shortcut s, fed with
    the normalised input; in the others s is the identity. The depth counts every convolution, those three shortcuts
    too, and not the linear layer.

    The calibration papers count in three ways, so that a name is not a depth:

    - "Wide-ResNet-40-10" (Neural Clamping, Table 1) and "WideResNet28" (class-wise loss scaling, Table 2) count like
      Zagoruyko and Komodakis: n = 6 and 4. The second names no width; 10 is taken.
    - "Wide-ResNet-26-10" (class-based temperature scaling, Table I) leaves the three shortcuts out and counts the
      linear layer: 6n + 2, so n = 4. The networks are those of Mukhoti et al. 2020, whose code activates after the sum
      and normalises the shortcuts; here it is WRN-28-10 of the original paper.
    - "WideResNet32" (class-wise loss scaling, Table 1) counts so too, n = 5: its logits are those of Kull et al. 2019,
      whose code sets depth 34 and remarks that this is 32 without the shortcuts.

    Papers: Zagoruyko and Komodakis 2016 (arXiv:1605.07146); Mukhoti et al. 2020 (arXiv:2002.09437); Kull et al. 2019
    (arXiv:1910.12656).

    Example:
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
                blocks.append(WideBlock(c_in, c_out, 2 if stage and not i else 1))
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
