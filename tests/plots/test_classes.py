"""Single classes: which are shown, with which numbers, and that a thousand of them are no trouble."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from calibkit import ClassTemperatureScaling, plots
from calibkit.metrics import classwise_ece, reliability_bins
from calibkit.metrics.sample import Sample
from calibkit.plots.classes import MOST, chance, worst_classes


def cells(ax) -> np.ma.MaskedArray:
    return ax.get_images()[0].get_array()


def test_errors_of_the_classes_have_the_classwise_ece_as_their_mean(sample):
    order, errors = worst_classes(Sample.of(*sample), 12, 5)
    assert errors.mean() == pytest.approx(classwise_ece(*sample, n_bins=12))
    assert sorted(order) == list(range(5)) and (np.diff(errors) <= 0).all()


def test_chance_is_the_binomial_range():
    probs, labels = np.tile([0.3, 0.7], (500, 1)), np.zeros(500, int)
    half = chance(reliability_bins(probs, labels, n_bins=1, class_index=0), 0.95).item()
    low, high = np.array(stats.binom.interval(0.95, 500, 0.3)) / 500
    assert half == pytest.approx((high - low) / 2, abs=0.002)


def test_panels_are_the_classes_of_largest_error(sample):
    figure = plots.class_reliability(*sample, n_panels=3, columns=2, names="abcde")
    order, errors = worst_classes(Sample.of(*sample), 10, 3)
    titles = [f"{'abcde'[k]}  {100 * error:.2f}%" for k, error in zip(order, errors, strict=True)]
    assert [ax.get_title() for ax in figure.axes] == titles
    for ax, k in zip(figure.axes, order, strict=True):
        bins = reliability_bins(*sample, n_bins=10, class_index=int(k))
        drawn = ax.collections[-1].get_offsets()
        np.testing.assert_allclose(drawn, np.stack([bins.confidence, bins.accuracy], 1)[bins.counts > 0])


def test_map_shows_what_chance_does_not_explain(sample):
    ax = plots.class_gaps(*sample, n_bins=6, level=0.95)
    everything = cells(plots.class_gaps(*sample, n_bins=6, level=0))
    order, _ = worst_classes(Sample.of(*sample), 6, 5)
    for shown, every, k in zip(cells(ax), everything, order, strict=True):
        bins = reliability_bins(*sample, n_bins=6, class_index=int(k))
        gaps = 100 * (bins.confidence - bins.accuracy)
        np.testing.assert_allclose(every[~every.mask], gaps[~every.mask])
        beyond = np.abs(gaps) > 196 * np.sqrt(bins.confidence * (1 - bins.confidence) / bins.counts)
        assert (~np.ma.getmaskarray(shown) == beyond).all()
    assert [t.get_text() for t in ax.get_yticklabels()] == [str(k) for k in order]
    assert ax.get_images()[0].get_clim() == (-MOST, MOST)
    assert len(ax.lines[0].get_xdata()) + cells(ax).count() == everything.count()


def test_of_a_thousand_classes_the_worst_thirty():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(2000, 1000))
    logits[:, 700] += 4  # announced often, and never true
    probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    ax = plots.class_gaps(probs, rng.integers(0, 500, 2000))
    labels = [t.get_text() for t in ax.get_yticklabels()]
    assert len(labels) == len(set(labels)) == 30 and labels[0] == "700"
    assert len(plots.class_reliability(probs, rng.integers(0, 500, 2000)).axes) == 8


def test_class_scatter(ax):
    assert plots.class_scatter([0.1, 0.9], [2.0, 1.0], ax=ax, names=["cat", "dog"], reference=1.5) is ax
    line, points = ax.lines
    assert line.get_ydata()[0] == 1.5
    np.testing.assert_array_equal(points.get_xydata(), [[0.1, 2.0], [0.9, 1.0]])
    assert [t.get_text() for t in ax.texts] == ["cat", "dog"]
    crowd = plots.class_scatter([0.5] * 40, [1.0] * 40, names=[f"class {k}" for k in range(40)])
    assert 1 <= len(crowd.texts) <= 8  # no name without room


def test_temperatures_in_order_are_those_of_the_calibrator(overconfident):
    fitted = ClassTemperatureScaling("nll").fit(*overconfident)
    ax = plots.class_temperatures(fitted, names="abcde", reference=Fraction(3))
    order = np.argsort(fitted.temperatures)
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), fitted.temperatures[order])
    assert [t.get_text() for t in ax.get_yticklabels()] == ["abcde"[k] for k in order]
    assert ax.get_xlabel() == "temperature of the class; dashed: one temperature, 3.00"
    assert ax.lines[1].get_xdata()[0] == 3
    against = plots.class_temperatures(fitted, np.arange(5) / 5)
    np.testing.assert_array_equal(against.lines[0].get_ydata(), fitted.temperatures)
    ax = plots.class_temperatures(np.linspace(2, 1, 200))
    np.testing.assert_allclose(ax.lines[0].get_xydata(), np.stack([np.arange(200), np.linspace(1, 2, 200)], 1))
    assert not ax.get_xticks().size  # so many have no names
