r"""Residual networks for 32 x 32 images, with and without stochastic depth.

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
