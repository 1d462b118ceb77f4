r"""Global-pooling network for text: word vectors, 1-D convolutions, the largest response over all positions.

Three convolutions of 128 channels and width 5 without padding, each with ReLU; after the first two, a running maximum
over 5 positions; after the third, the maximum over all positions that are left; then a hidden layer of 128 units with
ReLU, and the linear layer. An input of L tokens leaves L - 20 positions.

MbLS (Table 6; App. B) calls it GPool-CNN, cites Lin et al. 2014 for the pooling, follows Mukhoti et al. 2020 and says
no more than GloVe vectors; the layers are those of both papers' code. Mukhoti et al.'s code keeps GloVe's 100
dimensions fixed in training and has dropout 0.3 before the last layer, which MbLS's code leaves out.

Papers: Lin, Chen and Yan 2014 (arXiv:1312.4400); Mukhoti et al. 2020 (arXiv:2002.09437); Liu et al. 2022
(arXiv:2111.15430).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from calibkit._checks import Array, check_int, check_real, expected, to_tensor

MIN_TOKENS = 21
#: Groups of texts of similar length that a batch is cut into.
GROUPS = 8


class GPoolCNN(nn.Module):
    """Global-pooling CNN on token ids.

    Padding is a word like others, with the zero vector: pad all texts to one length, or the logits of a text depend on
    the batch it is in. A text of fewer than 21 tokens is padded in front to 21.

    Args:
        n_classes: number of classes K.
        n_tokens: size V of the vocabulary, padding included. Default 20,000, as in Mukhoti et al.'s code; ignored with
            ``vectors``.
        dim: dimension D of the word vectors. Default 100; ignored with ``vectors``.
        vectors: (V, D) pretrained word vectors, kept fixed in training. Row 0 belongs to the padding and counts as
            zero. Default None: vectors that are learnt, from uniform ones in [-0.05, 0.05]. From normal ones of
            variance 1 the few occurrences of a word would not move its vector enough.
        dropout: rate in [0, 1] before the last layer. Default 0, as in MbLS's code.

    Raises:
        ValueError: fewer than 2 classes or tokens, a dimension below 1, a rate outside [0, 1], vectors that are not a
            matrix of floating-point numbers.

    Example:
        >>> GPoolCNN(20, n_tokens=50)(torch.ones(2, 30, dtype=torch.int64)).shape
        torch.Size([2, 20])
    """

    def __init__(
        self, n_classes: int, n_tokens: int = 20_000, dim: int = 100, vectors: Array | None = None, dropout: float = 0.0
    ) -> None:
        super().__init__()
        n_classes = check_int("n_classes", n_classes, 2)
        dropout = check_real("dropout", dropout, 0.0, 1.0)
        if vectors is not None:
            vectors = to_tensor("vectors", vectors)
            if vectors.ndim != 2 or not vectors.is_floating_point():
                got = f"{vectors.dtype} of shape {tuple(vectors.shape)}"
                raise expected("vectors", "floating point of shape (V, D)", got)
            n_tokens, dim = vectors.shape
        self.embedding = nn.Embedding(check_int("n_tokens", n_tokens, 2), check_int("dim", dim, 1), padding_idx=0)
        nn.init.uniform_(self.embedding.weight.data[1:], -0.05, 0.05)
        if vectors is not None:
            self.embedding.weight.data[1:] = vectors[1:]
            self.embedding.weight.requires_grad_(False)
        self.conv1 = nn.Conv1d(dim, 128, 5)
        self.conv2 = nn.Conv1d(128, 128, 5)
        self.conv3 = nn.Conv1d(128, 128, 5)
        self.hidden = nn.Linear(128, 128)
        self.dropout = nn.Dropout(dropout)
        self.linear = nn.Linear(128, n_classes)

    def forward(self, tokens: Tensor) -> Tensor:
        """(N, L) int32 or int64 token ids in [0, V), 0 = padding -> (N, K) logits.

        In training, texts of similar length go together, without most of their padding: its windows are all alike.
        """
        tokens = F.pad(tokens, (max(0, MIN_TOKENS - tokens.shape[1]), 0))
        features = self._in_groups(tokens) if self.training and not tokens.is_meta else self._features(tokens)
        return self.linear(self.dropout(F.relu(self.hidden(features))))

    def _in_groups(self, tokens: Tensor) -> Tensor:
        """What :meth:`_features` gives, with a window of padding before the longest text of each group."""
        lengths = (tokens != 0).flip(1).cumsum(1).argmax(1) + 1  # up to the first token that is no padding
        order = lengths.argsort()
        groups = [tokens[part, -(int(lengths[part[-1]]) + MIN_TOKENS) :] for part in order.chunk(GROUPS)]
        return torch.cat([self._features(group) for group in groups])[order.argsort()]

    def _features(self, tokens: Tensor) -> Tensor:
        """(N, L) -> (N, 128)."""
        x = self.embedding(tokens).transpose(1, 2).unsqueeze(2)  # (N, D, 1, L)
        x = F.max_pool2d(F.relu(_convolved(x, self.conv1)), (1, 5), 1)
        x = F.max_pool2d(F.relu(_convolved(x, self.conv2)), (1, 5), 1)
        return F.relu(_convolved(x, self.conv3)).amax((2, 3))


def _convolved(x: Tensor, layer: nn.Conv1d) -> Tensor:
    """``layer`` over (N, C, 1, L): in two dimensions, channels last, a CPU is three times as fast."""
    return F.conv2d(x, layer.weight.unsqueeze(2), layer.bias)
