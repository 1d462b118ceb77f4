import numpy as np
import pytest
import torch

from calibkit.metrics import adaptive_ece, ece, reliability_bins
from calibkit.metrics.binning import bin_edges, width_bins


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_edge_belongs_to_the_bin_below(dtype):
    """The decimal k / n_bins, however it is written, is in bin k - 1; just above it is in bin k."""
    for n_bins in (1, 2, 3, 7, 10, 15, 25, 100, 1000):
        k = torch.arange(1, n_bins + 1)
        decimals = torch.tensor([i / n_bins for i in k.tolist()], dtype=torch.float64).to(dtype)
        assert (width_bins(decimals, n_bins) == k - 1).all()
        above = torch.nextafter(decimals[:-1], torch.tensor(2.0, dtype=dtype))
        assert (width_bins(above, n_bins) == k[:-1]).all()
        assert width_bins(torch.zeros(1, dtype=dtype), n_bins) == 0
        assert width_bins(torch.tensor([1.0 + 1e-6], dtype=dtype), n_bins) == n_bins - 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_width_bins_are_bucketize(dtype):
    """Random values, and the nearest numbers to every edge, for many numbers of bins."""
    values = torch.from_numpy(np.random.default_rng(0).random(2000)).to(dtype)
    for n_bins in range(1, 300):
        edges = bin_edges(n_bins, dtype)
        near = torch.cat([torch.nextafter(edges, torch.full_like(edges, end)) for end in (-1.0, 2.0)]).clamp(0, 1)
        tried = torch.cat([values, edges, near])
        assert (width_bins(tried, n_bins) == torch.bucketize(tried, edges[1:-1])).all()


@pytest.mark.parametrize("scheme, metric", [("width", ece), ("mass", adaptive_ece)])
def test_reliability_bins_give_the_error(cases, scheme, metric):
    for given in cases.values():
        bins = reliability_bins(*given, scheme=scheme)
        assert bins.counts.sum() == len(given[1]) and bins.counts.dtype == np.int64 and len(bins.edges) == 16
        assert (np.isnan(bins.confidence) == (bins.counts == 0)).all()
        assert (np.isnan(bins.accuracy) == (bins.counts == 0)).all()
        total = np.nansum(bins.counts * np.abs(bins.accuracy - bins.confidence)) / len(given[1])
        assert total == pytest.approx(metric(*given), abs=1e-12)
        filled = bins.counts > 0
        assert (bins.confidence[filled] <= bins.edges[1:][filled] + 1e-7).all()
        assert (bins.confidence[filled] >= bins.edges[:-1][filled] - 1e-7).all()


def test_reliability_bins_of_a_class(mixed):
    probs, labels = mixed
    bins = reliability_bins(probs, labels, class_index=2)
    for b in range(15):
        inside = (probs[:, 2] > b / 15) & (probs[:, 2] <= (b + 1) / 15)
        assert bins.counts[b] == inside.sum()
        if inside.any():
            assert bins.accuracy[b] == pytest.approx((labels[inside] == 2).mean())
            assert bins.confidence[b] == pytest.approx(probs[inside, 2].mean())
