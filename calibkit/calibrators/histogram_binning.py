"""Histogram binning: the probability of a class is replaced by its frequency in the bin."""

from __future__ import annotations

import torch
from torch import Tensor

from calibkit._arrays import row_blocks
from calibkit._checks import check_bins
from calibkit.fitting.base import Calibrator, as_vector
from calibkit.fitting.interpolate import normalize
from calibkit.metrics.binning import bin_edges, width_bins


class HistogramBinning(Calibrator):
    r"""Histogram binning, one class against the rest, then normalised.

    For each class k the held-out probabilities :math:`p_k` are sorted into equal-width bins; a new :math:`p_k` becomes
    the share of label k among the samples of its bin. The K shares of a row are divided by their sum. The argmax may
    change: recompute the accuracy.

    Args:
        n_bins: bins for each class, 1 or more; 15 as those of ``ece``, and right-closed as they are.

    Attributes:
        frequencies: (K, n_bins) float64, the share of label k in each bin; the bin's midpoint where it is empty.

    Paper: Zadrozny and Elkan 2001, "Obtaining calibrated probability estimates from decision trees and naive Bayesian
    classifiers"; for networks Guo et al. 2017, section 4.1, and Kull et al. 2019.
    Differs from the paper: Kull et al.'s code gives 0 in an empty bin, which makes a label there impossible and the
    NLL infinite. A row whose K shares are all 0 keeps its softmax.

    Raises:
        ValueError: bad input, ``n_bins`` < 1.
        RuntimeError: called before ``fit``.

    Example:
        >>> import numpy as np
        >>> z = np.log([[0.9, 0.1]] * 4 + [[0.3, 0.7]] * 4)
        >>> hb = HistogramBinning(n_bins=2).fit(z, np.array([0, 0, 0, 1, 1, 1, 1, 1]))
        >>> hb(np.log([[0.8, 0.2], [0.4, 0.6]])).tolist()
        [[0.75, 0.25], [0.0, 1.0]]
    """

    state, fractions, looks_up = ("frequencies",), ("frequencies",), True
    shapes = {"frequencies": ("K", "bins")}

    def __init__(self, *, n_bins: int = 15) -> None:
        super().__init__()
        self.n_bins = check_bins(n_bins)

    def _fit(self, logits: Tensor, labels: Tensor) -> None:
        n_classes = logits.shape[1]
        size = n_classes * self.n_bins
        counts = torch.zeros(size, dtype=torch.int64, device=logits.device)
        hits = counts.clone()
        for rows in row_blocks(logits):
            cells = self._cells(logits[rows].double().softmax(1), self.n_bins)
            counts += torch.bincount(cells.view(-1), minlength=size)
            hits += torch.bincount(cells.gather(1, labels[rows, None])[:, 0], minlength=size)
        edges = bin_edges(self.n_bins, device=logits.device)
        midpoints = ((edges[:-1] + edges[1:]) / 2).repeat(n_classes)
        frequencies = torch.where(counts > 0, hits.double() / counts, midpoints)
        self.frequencies = frequencies.view(n_classes, self.n_bins).cpu().numpy()

    def _cells(self, probs: Tensor, n_bins: int) -> Tensor:
        """(n, K) index of the cell of each probability in the flattened (K, n_bins) table."""
        return width_bins(probs, n_bins).add_(torch.arange(0, probs.shape[1] * n_bins, n_bins, device=probs.device))

    def _probs(self, logits: Tensor) -> Tensor:
        probs = logits.softmax(1)
        frequencies = as_vector(self.frequencies, probs)  # a loaded state has as many bins as it was fitted with
        found = normalize(frequencies.view(-1)[self._cells(probs, frequencies.shape[1])], probs)
        return torch.where(probs.isnan(), probs, found)  # which a deployed network may give
