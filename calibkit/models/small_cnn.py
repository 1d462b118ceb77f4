"""A small convolutional network for small grey or colour images: the ``smoke`` budget's model."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from calibkit._checks import check_int


class SmallCNN(nn.Module):
    """Two 3 x 3 convolutions of 32 channels, average pooling to 4 x 4, one hidden layer of 64 units.

    The input image has 1 of ``channels``, grey, or 3, colour.

    Example:
        >>> import torch
        >>> SmallCNN(10, channels=1)(torch.zeros(2, 1, 8, 8)).shape
        torch.Size([2, 10])
    """

    def __init__(self, n_classes: int, channels: int = 3) -> None:
        super().__init__()
        n_classes = check_int("n_classes", n_classes, 2)
        self.conv1 = nn.Conv2d(check_int("channels", channels, 1), 32, 3, padding=1)
        self.conv2 = nn.Conv2d(32, 32, 3, padding=1)
        self.hidden = nn.Linear(32 * 16, 64)
        self.linear = nn.Linear(64, n_classes)

    def forward(self, x: Tensor) -> Tensor:
        """(N, channels, H, W) normalised images -> (N, K) logits."""
        x = F.relu(self.conv2(F.relu(self.conv1(x))))
        x = F.adaptive_avg_pool2d(x, 4).flatten(1)
        return self.linear(F.relu(self.hidden(x)))
