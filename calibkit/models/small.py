"""Small networks: one for seconds of a CPU, the ``smoke`` budget's, and ResNet-8 for minutes."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from calibkit._checks import check_int


class SmallCNN(nn.Module):
    """For small images: two 3 x 3 convolutions of 32 channels, average pooling to 4 x 4, a hidden layer of 64 units.

    The image has 1 of ``channels``, grey, or 3, colour.

    Raises:
        ValueError: fewer than 2 classes, fewer than 1 channel.

    Example:
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


class Stage(nn.Module):
    """Convolution, pooling, and a residual branch: (N, c_in, H, W) -> (N, c_out, H // 2, W // 2)."""

    def __init__(self, c_in: int, c_out: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(c_in, c_out, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(c_out)
        self.conv2 = nn.Conv2d(c_out, c_out, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(c_out)

    def forward(self, x: Tensor) -> Tensor:
        """See the class."""
        x = F.relu(self.bn1(F.max_pool2d(self.conv1(x), 2)))
        return x + F.relu(self.bn2(self.conv2(x)))


class ResNet8(nn.Module):
    r"""ResNet-8, wide and shallow, for 32 x 32 images: accurate after minutes on a CPU.

    Seven convolutions and a linear layer. A 2 x 2 convolution without padding turns the image into a map of 31 x 31;
    three stages follow, each a 3 x 3 convolution, max pooling over 2 x 2 and a residual branch of one more 3 x 3
    convolution:

    .. math:: u = \mathrm{ReLU}(\mathrm{BN}(\mathrm{pool}(W_1 * x))), \qquad
              h = u + \mathrm{ReLU}(\mathrm{BN}(W_2 * u)).

    The largest value of each channel goes into the linear layer.

    Most of its work is on maps of 15 x 15 and 7 x 7 with up to 256 channels, which a CPU handles far better than the
    ResNet-20's 16 channels at 32 x 32: it costs 118 million multiplications an image against 41 million, and an epoch
    takes less time. No paper here trains it. Its shape is that of the networks of speed contests on CIFAR-10: Page
    2018, "How to train your ResNet" (DAWNBench), and Jordan 2024, "94% on CIFAR-10 in 3.29 seconds" (arXiv:2404.00498).

    Raises:
        ValueError: fewer than 2 classes.

    Example:
        >>> sum(p.numel() for p in ResNet8(10).parameters())
        1972826
    """

    def __init__(self, n_classes: int) -> None:
        super().__init__()
        n_classes = check_int("n_classes", n_classes, 2)
        self.conv1 = nn.Conv2d(3, 24, 2, bias=False)
        self.bn1 = nn.BatchNorm2d(24)
        self.stages = nn.Sequential(Stage(24, 64), Stage(64, 256), Stage(256, 256))
        self.linear = nn.Linear(256, n_classes)

    def forward(self, x: Tensor) -> Tensor:
        """(N, 3, 32, 32) normalised images -> (N, K) logits."""
        x = self.stages(F.relu(self.bn1(self.conv1(x))))
        return self.linear(x.amax((2, 3)))


class Whitening(nn.Module):
    r"""A fixed 2 x 2 convolution of 24 filters that whitens the patches of colour images.

    With the second moment of the patches, :math:`E[p p^T] = V \mathrm{diag}(\lambda) V^T`, the filters are the rows of
    :math:`\mathrm{diag}(\lambda + 0.0005)^{-1/2} V^T` and their negatives. The first batch in training sets them, and
    no step changes them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", torch.randn(24, 3, 2, 2) / 12**0.5)
        self.register_buffer("is_set", torch.tensor(False))

    def forward(self, x: Tensor) -> Tensor:
        """(N, 3, H, W) normalised images -> (N, 24, H - 1, W - 1)."""
        if self.training and not self.is_set:
            self.weight.copy_(self.filters(x))
            self.is_set.fill_(True)
        return F.conv2d(x, self.weight)

    @staticmethod
    @torch.no_grad()
    def filters(x: Tensor) -> Tensor:
        """The filters, (24, 3, 2, 2), for images ``x``."""
        patches = F.unfold(x.double(), 2).transpose(1, 2).flatten(0, 1)
        values, vectors = torch.linalg.eigh(patches.T @ patches / len(patches))
        rows = (vectors / (values + 5e-4).sqrt()).T.reshape(12, 3, 2, 2)
        return torch.cat([rows, -rows])


class WhitenedResNet8(ResNet8):
    """:class:`ResNet8` whose first layer whitens the image and is not trained: more accurate after as many epochs.

    After Jordan 2024 (arXiv:2404.00498, Sec. 3.2), with the branches and ReLU of ResNet-8 in place of plain
    convolutions and GELU, and the filters of the first batch in place of those of 5,000 images. Of several processes
    the first's are everyone's from the second step on. No paper here trains it.

    Raises:
        ValueError: fewer than 2 classes.

    Example:
        >>> sum(p.numel() for p in WhitenedResNet8(10).parameters())
        1972490
    """

    def __init__(self, n_classes: int) -> None:
        super().__init__(n_classes)
        self.conv1, self.bn1 = Whitening(), nn.Identity()
