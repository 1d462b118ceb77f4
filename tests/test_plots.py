"""Figures draw the numbers that the metrics give, into the Axes they were handed, or into new ones."""

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy import stats

from calibkit import plots
from calibkit.metrics import ece, reliability_bins


@pytest.fixture
def ax():
    figure, axes = plt.subplots()
    yield axes
    plt.close(figure)


@pytest.fixture
def sample(overconfident):
    logits, labels = overconfident
    return logits.softmax(1), labels


def test_style_is_ours_and_lasts_only_where_it_is_wanted():
    with mpl.rc_context():
        plots.use_style()
        assert mpl.rcParams["figure.dpi"] == 100 and not mpl.rcParams["axes.spines.top"]
        assert mpl.rcParams["axes.prop_cycle"].by_key()["color"] == list(plots.COLORS)


def test_reliability_diagram_draws_the_bins(ax, sample):
    assert plots.reliability_diagram(*sample, ax=ax, n_bins=10) is ax
    bins = reliability_bins(*sample, n_bins=10)
    full = bins.counts > 0
    np.testing.assert_allclose([bar.get_height() for bar in ax.patches], bins.accuracy[full])
    np.testing.assert_allclose([bar.get_x() for bar in ax.patches], bins.edges[:-1][full])
    assert ax.texts[0].get_text() == f"ECE {100 * ece(*sample, n_bins=10):.2f} %"
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["if calibrated", "gap", "accuracy"]


def test_reliability_diagram_without_interval_and_with_numpy(ax, sample):
    probs, labels = (x.numpy() for x in sample)
    plots.reliability_diagram(probs, labels, ax=ax, interval=False)
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["gap", "accuracy"]


def test_consistency_interval_is_binomial_where_confidences_are_equal():
    """400 samples of confidence 0.7: the number of right ones is Binomial(400, 0.7)."""
    probs = np.tile([0.7, 0.3], (400, 1))
    bins = reliability_bins(probs, np.zeros(400, int), n_bins=10)
    low, high = plots.consistency_interval(probs, bins, n_resamples=4000)
    held = np.flatnonzero(bins.counts)
    expected = np.array(stats.binom.interval(0.95, 400, 0.7)) / 400
    np.testing.assert_allclose([low[held].item(), high[held].item()], expected, atol=0.006)
    assert np.isnan(np.delete(low, held)).all() and np.isnan(np.delete(high, held)).all()


def test_consistency_interval_holds_a_calibrated_network_and_not_an_overconfident_one(overconfident):
    logits, labels = overconfident
    inside = []
    for temperature in (3.0, 1.0):
        probs = (logits / temperature).softmax(1)
        bins = reliability_bins(probs, labels)
        low, high = plots.consistency_interval(probs, bins)
        full = bins.counts > 30
        inside.append(((bins.accuracy >= low) & (bins.accuracy <= high))[full].mean())
    assert inside[0] > 0.8 and inside[1] < 0.2


def test_same_seed_same_interval(sample):
    bins = reliability_bins(*sample)
    one, two = (plots.consistency_interval(sample[0], bins, n_resamples=20) for _ in range(2))
    np.testing.assert_array_equal(one, two)


def test_confidence_histogram_shows_shares_and_means(ax, sample):
    probs, labels = sample
    assert plots.confidence_histogram(probs, labels, ax=ax) is ax
    assert sum(bar.get_height() for bar in ax.patches) == pytest.approx(1.0)
    confidence, accuracy = (line.get_xdata()[0] for line in ax.lines)
    assert confidence == pytest.approx(probs.max(1).values.mean().item())
    assert accuracy == pytest.approx((probs.argmax(1) == labels).double().mean().item())


def test_class_scatter(ax):
    assert plots.class_scatter([0.1, 0.9], [2.0, 1.0], ax=ax, names=["cat", "dog"], reference=1.5) is ax
    line, points = ax.lines
    assert line.get_ydata()[0] == 1.5
    np.testing.assert_array_equal(points.get_xydata(), [[0.1, 2.0], [0.9, 1.0]])
    assert [t.get_text() for t in ax.texts] == ["cat", "dog"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.1], [1.0, 2.0]), r"Expected `values` to be of shape \(1,\)"),
        (([[0.1]], [[1.0]]), r"Expected `values` to be of shape"),
        (([0.1], [1.0], ["a", "b"]), "Expected `names` to be 1 names, one a class, but got 2"),
    ],
)
def test_class_scatter_refuses(arguments, message):
    x, y, *names = arguments
    with pytest.raises(ValueError, match=message):
        plots.class_scatter(x, y, names=names[0] if names else None)


@pytest.mark.parametrize("draw", [plots.reliability_diagram, plots.confidence_histogram])
def test_bad_probs_and_bins_are_refused(draw, sample):
    """Before a figure is made: none is left behind."""
    figures = plt.get_fignums()
    with pytest.raises(ValueError, match="Expected `probs` to be"):
        draw(sample[0] * 2, sample[1])
    with pytest.raises(ValueError, match="Expected `n_bins` to be an integer >= 1"):
        draw(*sample, n_bins=0)
    assert plt.get_fignums() == figures


@pytest.mark.parametrize(
    ("draw", "data"),
    [
        (plots.reliability_diagram, ([[0.8, 0.2], [0.3, 0.7]], [0, 1])),
        (plots.confidence_histogram, ([[0.8, 0.2], [0.3, 0.7]], [0, 1])),
        (plots.class_scatter, ([0.5, 0.9], [1.0, 2.0])),
    ],
)
def test_axes_are_made_where_none_are_given(ax, draw, data):
    """A new figure each time, with what is drawn into given Axes, which is not touched."""
    made = [draw(*data), draw(*data)]
    try:
        assert len({ax.figure, *(one.figure for one in made)}) == 3 and not ax.has_data()
        draw(*data, ax=ax)
        for one in made:
            assert (one.get_xlabel(), one.get_xlim()) == (ax.get_xlabel(), ax.get_xlim())
            assert [len(one.lines), len(one.patches)] == [len(ax.lines), len(ax.patches)]
    finally:
        for one in made:
            plt.close(one.figure)
