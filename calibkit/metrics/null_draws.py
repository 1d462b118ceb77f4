"""Calibration errors of a calibrated network: what chance alone makes of a metric whose true value is 0."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from calibkit._blocks import blocks
from calibkit.metrics.binning import mass_bins, width_bins
from calibkit.metrics.calibration import tie_ends
from calibkit.metrics.sample import Sample

#: Of a block of gaps (R, N) in float64.
BLOCK_BYTES = 1 << 25


def _of_bins(bins: Tensor, n_bins: int, reduce: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    one_hot = torch.nn.functional.one_hot(bins, n_bins).double()
    counts = one_hot.sum(0)
    return lambda gaps: reduce((gaps @ one_hot).abs(), counts)


def _ks(sample: Sample) -> Callable[[Tensor], Tensor]:
    ordered, order = sample.confidence.sort()
    ends = tie_ends(ordered)
    return lambda gaps: gaps[:, order].cumsum(1)[:, ends].abs().amax(1) / len(sample)


def _mean(sums: Tensor, counts: Tensor) -> Tensor:
    return sums.sum(1) / counts.sum()


def _largest(sums: Tensor, counts: Tensor) -> Tensor:
    return (sums / counts.clamp(min=1.0)).amax(1)


#: Of a sample and a number of bins: a function from the gaps, confidence - correct, of R outcomes (R, N) to (R,).
OF_GAPS: dict[str, Callable[[Sample, int], Callable[[Tensor], Tensor]]] = {
    "ece": lambda sample, n_bins: _of_bins(width_bins(sample.confidence, n_bins), n_bins, _mean),
    "mce": lambda sample, n_bins: _of_bins(width_bins(sample.confidence, n_bins), n_bins, _largest),
    "adaptive_ece": lambda sample, n_bins: _of_bins(mass_bins(sample.confidence, n_bins), n_bins, _mean),
    "ks_error": lambda sample, n_bins: _ks(sample),
}


def null_draws(
    sample: Sample, names: tuple[str, ...], n_draws: int, rng: np.random.Generator, n_bins: int
) -> dict[str, np.ndarray]:
    """Each metric of ``names`` on outcomes drawn from the confidences: (n_draws,).

    A prediction of confidence c is right with probability c, so that the network is calibrated and its true error 0.
    The bins are those of the sample, for the confidences stay as they are.

    Paper: Broecker & Smith 2007, "Increasing the reliability of reliability diagrams", Sec. 3, consistency resampling.
    """
    confidence = sample.confidence.double().cpu()
    of_gaps = {name: OF_GAPS[name](sample, n_bins) for name in names}
    found: dict[str, list[np.ndarray]] = {name: [] for name in names}
    for block in blocks(n_draws, len(sample), 8, BLOCK_BYTES):
        drawn = torch.from_numpy(rng.random((block.stop - block.start, len(sample))))
        gaps = (confidence - (drawn < confidence).double()).to(sample.labels.device)
        for name, function in of_gaps.items():
            found[name].append(function(gaps).cpu().numpy())
    return {name: np.concatenate(blocks) for name, blocks in found.items()}
