"""Spline calibration: scipy's natural splines, the authors' numbers, and what becomes of the other classes."""

import numpy as np
import pytest
import torch
from data_parameters import with_logits
from drawn_logits import true_logits

from calibkit.calibrators import Identity, Spline
from calibkit.calibrators.spline import natural_cubic, with_confidence
from calibkit.logits import Logits
from calibkit.metrics import accuracy, ece, ks_error
from calibkit.networks import published as published_files


@pytest.mark.parametrize("n_knots", [3, 4, 6, 11])
def test_basis_equals_scipys_natural_spline(n_knots):
    interpolate = pytest.importorskip("scipy.interpolate", reason="the reference is scipy's")
    rng = np.random.default_rng(n_knots)
    knot_values, t = rng.normal(size=n_knots), np.concatenate([rng.random(50), [0.0, 1.0]])
    reference = interpolate.CubicSpline(np.linspace(0, 1, n_knots), knot_values, bc_type="natural")
    values, slopes = natural_cubic(t, n_knots)
    np.testing.assert_allclose(values @ knot_values, reference(t), atol=1e-12)
    np.testing.assert_allclose(slopes @ knot_values, reference(t, 1), atol=1e-11)


def test_the_knots_fit_the_cumulative_error_by_least_squares():
    n = 1000
    confidence = np.linspace(0.6, 0.9, n)
    z = np.stack([np.log(confidence), np.log(1 - confidence)], 1)
    spline = Spline().fit(z, np.zeros(n, dtype=int))
    error = np.cumsum(1 - confidence) / n
    values, _ = natural_cubic(np.linspace(0, 1, n), 6)
    np.testing.assert_allclose(spline.knot_values, np.linalg.lstsq(values, error, rcond=None)[0], atol=1e-12)


def test_error_falls_and_argmax_is_kept(overconfident):
    z, y = overconfident
    fit, new = (z[:2000], y[:2000]), (z[2000:], y[2000:])
    spline, raw = Spline().fit(*fit), Identity().fit(*fit)
    for metric in (ece, ks_error):
        assert metric(spline(new[0]), new[1]) < 0.25 * metric(raw(new[0]), new[1])
    assert accuracy(spline(new[0]), new[1]) == accuracy(raw(new[0]), new[1])


def test_calibrated_scores_are_its_own_nodes(overconfident):
    """Without ties, the confidences of the fitted samples come back as r, clipped."""
    z, y = overconfident
    spline = Spline().fit(z, y)
    again = np.sort(z.softmax(1).amax(1).numpy())
    assert np.array_equal(again, spline.scores)
    order = z.softmax(1).amax(1).argsort(stable=True)
    inner = (spline.calibrated > 0.21) & (spline.calibrated < 1)
    np.testing.assert_allclose(spline(z).amax(1)[order].numpy()[inner], spline.calibrated[inner], atol=1e-12)


def test_the_other_classes():
    rows = {
        0.7: [0.7, 0.2, 0.1],  # the others keep their proportions, 2 : 1
        0.4: [0.4, 0.4, 0.2],
        0.36: [0.36, 0.36, 0.28],  # 2 : 1 of 0.64 would be 0.427 and overtake: levelled to 0.36
        0.0: [1 / 3, 1 / 3, 1 / 3],  # never below 1 / K
        1.3: [1.0, 0.0, 0.0],
    }
    probs = torch.tensor([[0.7, 0.2, 0.1]], dtype=torch.float64).repeat(5, 1)
    out = with_confidence(probs, torch.zeros(5).long(), torch.tensor(list(rows), dtype=torch.float64))
    np.testing.assert_allclose(out, list(rows.values()), atol=2e-6)
    assert not out.argmax(1).any()
    np.testing.assert_allclose(out.sum(1), 1.0, atol=1e-15)


@pytest.mark.parametrize("n_classes", [2, 3, 50])
def test_rows_of_any_confidence_sum_to_one_and_keep_their_argmax(n_classes):
    rng = np.random.default_rng(0)
    probs = torch.from_numpy(rng.dirichlet(np.full(n_classes, 0.1), 2000))
    probs[0] = torch.eye(n_classes)[0]
    index = probs.argmax(1)
    out = with_confidence(probs, index, torch.from_numpy(rng.random(2000)))
    assert torch.equal(out.argmax(1), index)
    assert torch.allclose(out.sum(1), torch.ones(2000, dtype=torch.float64), atol=1e-14) and out.min() >= 0


@pytest.mark.parametrize("n", [1, 2, 4])
def test_few_samples(n):
    z = np.random.default_rng(n).normal(size=(n, 3))
    assert np.isfinite(Spline().fit(z, np.zeros(n, dtype=int))(z)).all()


def with_neighbours_swapped(spline, logits):
    """Confidences by the authors' interpolation, and how far it moves those that are not below all fitted ones."""
    x, r = spline.scores, spline.calibrated
    s = torch.from_numpy(logits).double().softmax(1).amax(1).numpy()
    right = np.searchsorted(x, s).clip(1, len(x) - 1)
    share = (s - x[right - 1]) / np.maximum(x[right] - x[right - 1], 1e-300)
    swapped = np.where(s >= x[-1], r[-1], share * r[right - 1] + (1 - share) * r[right]).clip(0, 1)
    return swapped, abs(swapped - np.interp(s, x, r).clip(0, 1))[s >= x[0]]


@pytest.mark.parametrize("name", with_logits(["sctl-cifar10-resnet110"]))
def test_how_far_the_swapped_neighbours_move_a_confidence(name):
    """The most of all sets: the numbers of the docstring and of the errata."""
    data = Logits.load(published_files()[name])
    _, moved = with_neighbours_swapped(Spline().fit(*data.val), data.test_logits)
    assert (round(moved.mean(), 4), round(moved.max(), 3)) == (0.0002, 0.055)


def test_published_logits(published):
    """The authors' code, with its interpolation between the wrong neighbours put back, gives its numbers exactly."""
    known, (test_logits, test_labels) = published.oracle["spline"], published.logits.test
    spline = Spline().fit(*published.logits.val)
    np.testing.assert_allclose(spline.knot_values, known["knot_values"], atol=1e-12)

    swapped, moved = with_neighbours_swapped(spline, test_logits)
    assert swapped[:10] == pytest.approx(known["first10"], abs=1e-8)
    assert 0.00005 < moved.mean() < 0.00016 and moved.max() < 0.025

    probs = spline(test_logits)
    assert ks_error(probs, test_labels) == pytest.approx(known["test_ks"], abs=3e-4)
    assert ece(probs, test_labels, n_bins=25) == pytest.approx(known["test_ece25"], abs=3e-4)
    assert (probs.argmax(1) == test_logits.argmax(1)).all()


def test_a_thousand_knots_are_not_too_many():
    assert Spline(n_knots=1000).n_knots == 1000


@pytest.mark.parametrize("order", ["right first", "wrong first"])
def test_samples_of_equal_confidence_may_come_in_any_order(order):
    """Of the sure ones as many are right as it says, whichever stand first."""
    rng = np.random.default_rng(0)
    sure = rng.random(5000) < 0.6
    confidence = np.where(sure, 1.0, rng.uniform(0.5, 1.0, 5000))
    y = (rng.random(5000) >= np.where(sure, 0.93, 0.9 * confidence)).astype(int)
    z = np.stack([np.where(sure, 60.0, np.log(confidence / np.maximum(1 - confidence, 1e-30))), np.zeros(5000)], 1)
    rows = np.argsort(y if order == "right first" else -y, kind="stable")
    found, drawn = Spline().fit(z[rows], y[rows]), Spline().fit(z, y)
    np.testing.assert_allclose(found(z), drawn(z), rtol=1e-9)
    assert drawn(np.array([[60.0, 0.0]]))[0, 0] == pytest.approx(np.mean(y[sure] == 0), abs=0.01)


@pytest.mark.parametrize("k", [2, 3, 10, 1000])
def test_predictions_stay_in_float32(k):
    true, y = true_logits(500, k, 1.0)
    probs = Spline().fit(4 * true, y)(4 * true).astype(np.float32)
    np.testing.assert_array_equal(probs.argmax(1), true.argmax(1))
