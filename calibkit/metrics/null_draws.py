"""Calibration errors of a calibrated network: what chance alone makes of a metric whose true value is 0."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch

from calibkit._blocks import blocks
from calibkit.metrics.registry import METRICS
from calibkit.metrics.sample import Sample

#: Of a block of gaps (R, N) in float64.
BLOCK_BYTES = 1 << 25


def null_draws(
    sample: Sample, names: Iterable[str], n_draws: int, rng: np.random.Generator, n_bins: int
) -> dict[str, np.ndarray]:
    """Those of ``names`` that have ``Metric.of_gaps``, on outcomes drawn from the confidences: (n_draws,) each.

    A prediction of confidence c is right with probability c, so that the network is calibrated and its true error 0.
    The bins are those of the sample, for the confidences stay as they are.

    Paper: Broecker & Smith 2007, "Increasing the reliability of reliability diagrams", Sec. 3, consistency resampling.
    """
    known = {name: of_gaps(sample, n_bins) for name in names if (of_gaps := METRICS[name].of_gaps)}
    found: dict[str, list[np.ndarray]] = {name: [] for name in known}
    confidence = sample.confidence.double().cpu()
    for block in blocks(n_draws, len(sample), 8, BLOCK_BYTES) if known else ():
        drawn = torch.from_numpy(rng.random((block.stop - block.start, len(sample))))
        gaps = (confidence - (drawn < confidence).double()).to(sample.labels.device)
        for name, statistic in known.items():
            found[name].append(statistic(gaps).cpu().numpy())
    return {name: np.concatenate(parts) for name, parts in found.items()}
