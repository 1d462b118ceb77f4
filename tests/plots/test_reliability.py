"""Reliability diagrams, the histogram and errors by period draw the numbers that metrics and monitor give."""

from datetime import date

import numpy as np
import pytest
from refusals import refused
from scipy import stats

from calibkit import plots
from calibkit.metrics import Monitor, adaptive_ece, ece, reliability_bins


def test_reliability_diagram_draws_the_bins(ax, sample):
    assert plots.reliability_diagram(*sample, ax=ax, n_bins=10) is ax
    bins = reliability_bins(*sample, n_bins=10)
    full = bins.counts > 0
    np.testing.assert_allclose([bar.get_height() for bar in ax.patches], bins.accuracy[full])
    np.testing.assert_allclose([bar.get_x() for bar in ax.patches], bins.edges[:-1][full])
    assert ax.texts[0].get_text() == f"ECE {100 * ece(*sample, n_bins=10):.2f}%"
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["if calibrated", "gap", "accuracy"]
    plain = plots.reliability_diagram(*(x.numpy() for x in sample), interval=False)
    assert [t.get_text() for t in plain.get_legend().get_texts()] == ["gap", "accuracy"]


def test_equal_mass_has_even_bins_and_its_own_error(ax, sample):
    plots.reliability_diagram(*sample, ax=ax, n_bins=8, scheme="mass")
    (strip,) = ax.child_axes
    assert {bar.get_height() for bar in strip.patches} == {len(sample[1]) / 8}
    confidence = np.sort(sample[0].max(1).values.numpy())
    np.testing.assert_allclose([bar.get_x() for bar in ax.patches][1:], confidence[499:-1:500])
    assert ax.texts[0].get_text() == f"AECE {100 * adaptive_ece(*sample, n_bins=8):.2f}%"


def test_the_strip_counts_the_samples_of_each_bin(ax, sample):
    plots.reliability_diagram(*sample, ax=ax)
    (strip,) = ax.child_axes
    counts = np.histogram(sample[0].max(1).values, np.linspace(0, 1, 16))[0]
    assert [bar.get_height() for bar in strip.patches] == counts.tolist()
    assert [t.get_text() for t in strip.get_yticklabels()] == [f"{counts.max():,}"]
    assert ax.figure.axes == [ax]
    assert not plots.reliability_diagram(*sample, counts=False).child_axes


def test_before_and_after_share_axes_and_legend(sample):
    probs, labels = sample
    after = (probs.log() / 3).softmax(1)
    figure = plots.before_after({"before": probs, "with_temperature": after}, labels, n_bins=10)
    assert [ax.get_title() for ax in figure.axes] == ["before", "with temperature"]
    for ax, of in zip(figure.axes, (probs, after), strict=True):
        bins = reliability_bins(of, labels, n_bins=10)
        np.testing.assert_allclose([bar.get_height() for bar in ax.patches], bins.accuracy[bins.counts > 0])
        assert ax.get_legend() is None
    assert len(figure.legends) == 1 and figure.axes[0].get_shared_y_axes().joined(*figure.axes)
    figure.draw_without_rendering()  # as the first that is saved, whose lowest label was cut
    assert figure.axes[0].xaxis.label.get_window_extent().y0 >= 0


def test_a_panel_a_group_has_the_bins_of_its_rows(sample):
    probs, labels = sample
    site = np.array(["b", "a", "a"])[np.arange(len(labels)) % 3]
    figure = plots.reliability_by_group(probs, labels, site, n_bins="auto", scheme="mass")
    assert [ax.get_title() for ax in figure.axes] == ["a", "b"]
    for ax in figure.axes:
        rows = site == ax.get_title()
        bins = reliability_bins(probs[rows], labels[rows], n_bins="auto", scheme="mass")
        np.testing.assert_allclose([bar.get_height() for bar in ax.patches], bins.accuracy[bins.counts > 0])


def test_seven_methods_stand_in_three_rows(sample):
    probs, labels = sample
    figure = plots.before_after({f"m{i}": probs for i in range(7)}, labels, counts=False, interval=False)
    assert len({ax.get_position().y0 for ax in figure.axes}) == 3 and len(figure.axes) == 7
    assert [bool(ax.get_xlabel()) for ax in figure.axes] == [False] * 4 + [True] * 3


def test_consistency_interval_is_binomial_where_confidences_are_equal():
    """400 samples of confidence 0.7: the number of right ones is Binomial(400, 0.7)."""
    probs = np.tile([0.7, 0.3], (400, 1))
    bins = reliability_bins(probs, np.zeros(400, int), n_bins=10)
    low, high = plots.consistency_interval(probs, bins, n_resamples=4000)
    held = np.flatnonzero(bins.counts)
    expected = np.array(stats.binom.interval(0.95, 400, 0.7)) / 400
    np.testing.assert_allclose([low[held].item(), high[held].item()], expected, atol=0.006)
    assert np.isnan(np.delete(low, held)).all() and np.isnan(np.delete(high, held)).all()


def test_consistency_intervals_are_accuracies_in_bins_of_either_scheme(sample):
    """Of probabilities of either precision, with ties and on edges."""
    for probs in (sample[0], sample[0].float(), sample[0].half(), sample[0].mul(20).round().div(20).softmax(1)):
        for scheme in ("width", "mass"):
            bins = reliability_bins(probs, sample[1], n_bins=20, scheme=scheme)
            low, high = plots.consistency_interval(probs, bins, n_resamples=5)
            full = bins.counts > 0
            assert (0 <= low[full]).all() and (low[full] <= high[full]).all() and (high[full] <= 1).all()


def test_confidence_histogram_shows_shares_and_means(ax, sample):
    probs, labels = sample
    assert plots.confidence_histogram(probs, labels, ax=ax) is ax
    assert sum(bar.get_height() for bar in ax.patches) == pytest.approx(1.0)
    confidence, accuracy = (line.get_xdata()[0] for line in ax.lines)
    assert confidence == pytest.approx(probs.max(1).values.mean().item())
    assert accuracy == pytest.approx((probs.argmax(1) == labels).double().mean().item())


@pytest.fixture
def monitor():
    """Twenty days; on the last two the network is far too sure."""
    rng, monitor = np.random.default_rng(0), Monitor()
    for day in range(20):
        right = rng.random(400) < (0.8 if day < 18 else 0.5)
        monitor.update(np.tile([0.8, 0.2], (400, 1)), 1 - right.astype(int), f"day {day:02}")
    return monitor


def test_points_band_and_marks_are_those_of_the_report(monitor):
    ax = plots.ece_by_period(monitor, drifted=["day 18", "day 19"])
    rows = monitor.report()
    errors, marked = ax.lines
    np.testing.assert_allclose(errors.get_ydata(), [100 * row["ece"] for row in rows])
    np.testing.assert_array_equal(marked.get_xdata(), [18, 19])
    tops = [bar.get_height() for bar in ax.patches]
    np.testing.assert_allclose(tops, [100 * row["ece_null"] for row in rows])
    assert [tick.get_text() for tick in ax.get_xticklabels()][:2] == ["day 00", "day 03"]


def test_what_is_refused(monitor):
    refused("`monitor` to be one with a period", plots.ece_by_period, Monitor())
    with pytest.raises(ValueError, match="Expected `drifted` to be periods of the monitor, day 00 to day 19"):
        plots.ece_by_period(monitor, drifted=["day 20"])


def test_a_date_is_marked_as_its_text_is():
    monitor, day = Monitor(), date(2026, 11, 22)
    monitor.update([[0.9, 0.1]] * 50, [0] * 50, day)
    for drifted in (day, [day], "2026-11-22", ["2026-11-22"], monitor.drift_by_period()):
        (_, marked) = plots.ece_by_period(monitor, drifted=drifted).lines
        assert marked.get_xdata().tolist() == [0]


def test_confidences_that_rounding_puts_above_1_and_bins_of_one_confidence(ax):
    """As the mean of a softmax in single precision over members has them; a bin without a width is drawn thin."""
    probs, labels = np.array([[1.00005, 0.0]] + [[1.0, 0.0]] * 30 + [[0.7, 0.3]] * 4), np.zeros(35, int)
    plots.reliability_diagram(probs, labels, ax=ax, scheme="mass")
    assert ax.texts[0].get_text() == f"AECE {100 * adaptive_ece(probs, labels):.2f}%"
    (strip,) = ax.child_axes
    drawn = [bar for panel in (ax, strip) for bar in panel.patches if bar.get_height() > 0]
    assert drawn and all(bar.get_width() > 0 for bar in drawn)


def test_one_period_has_a_band(ax):
    monitor = Monitor()
    monitor.update(np.tile([0.9, 0.1], (50, 1)), [0] * 50, "one")
    plots.ece_by_period(monitor, ax=ax)
    (band,) = ax.patches
    assert band.get_width() == 1 and band.get_height() == 100 * float(monitor.report()[0]["ece_null"])


def test_groups_keep_their_names():
    sure = np.tile([0.95, 0.05], (4, 1))
    figure = plots.reliability_by_group(sure, [0, 0, 1, 0], ["a_b", "a b", "a_b", "a b"])
    assert [ax.get_title() for ax in figure.axes] == ["a b", "a_b"]
