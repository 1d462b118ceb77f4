"""Histogram binning against a loop over classes and bins."""

import numpy as np
import pytest

from calibkit.calibrators import HistogramBinning


def slow_table(probs, labels, n_bins):
    """Share of label k among the samples whose p_k lies in (i / n, (i + 1) / n], one bin at a time."""
    table = np.zeros((probs.shape[1], n_bins))
    for k in range(probs.shape[1]):
        for i in range(n_bins):
            inside = (probs[:, k] > i / n_bins) & (probs[:, k] <= (i + 1) / n_bins)
            if i == 0:
                inside |= probs[:, k] == 0
            table[k, i] = (labels[inside] == k).mean() if inside.any() else (i + 0.5) / n_bins
    return table


@pytest.mark.parametrize("n_bins", [1, 4, 15])
def test_equals_a_loop(n_bins, overconfident):
    z, y = overconfident
    hb = HistogramBinning(n_bins=n_bins).fit(z, y)
    probs = z.softmax(1).numpy()
    table = slow_table(probs, y.numpy(), n_bins)
    np.testing.assert_allclose(hb.frequencies, table, atol=1e-15)
    cells = np.clip(np.ceil(probs * n_bins).astype(int) - 1, 0, n_bins - 1)
    rows = np.stack([table[k][cells[:, k]] for k in range(5)], 1)
    np.testing.assert_allclose(hb(z).numpy(), rows / rows.sum(1, keepdims=True), atol=1e-14)


def test_empty_bins_keep_their_midpoint_and_zero_rows_their_softmax():
    z = np.log(np.array([[0.9, 0.1]] * 2))
    hb = HistogramBinning(n_bins=2).fit(z, np.array([0, 0]))
    assert hb.frequencies.tolist() == [[0.25, 1.0], [0.0, 0.75]]
    assert HistogramBinning(n_bins=2).fit(z[:1], np.array([1])).frequencies.tolist() == [[0.25, 0.0], [1.0, 0.75]]
    hb.frequencies = np.zeros((2, 2))
    np.testing.assert_allclose(hb(z), np.exp(z), atol=1e-15)


def test_blocks_do_not_matter(overconfident, monkeypatch):
    z, y = overconfident
    whole = HistogramBinning().fit(z, y)
    monkeypatch.setattr(
        "calibkit.calibrators.histogram_binning.row_blocks", lambda x: [slice(i, i + 7) for i in range(0, len(x), 7)]
    )
    assert np.array_equal(HistogramBinning().fit(z, y).frequencies, whole.frequencies)


def test_a_state_has_as_many_bins_as_it_was_fitted_with():
    rng = np.random.default_rng(3)
    z, y = rng.normal(size=(200, 4)), rng.integers(4, size=200)
    fitted = HistogramBinning(n_bins=20).fit(z, y)
    np.testing.assert_array_equal(HistogramBinning(n_bins=15).load_state_dict(fitted.state_dict())(z), fitted(z))
