"""Variational lower bounds and parts of scores: authors' package, loops, networks of known error, the border."""

import math

import numpy as np
import oracles
import pandas as pd
import pytest
import torch
from drawn_logits import true_logits
from refusals import refused
from scipy.special import softmax

from calibkit.calibrators import Identity, StructuredMatrixScaling, TemperatureScaling
from calibkit.metrics import brier, nll, score_parts, variational_calibration_error, variational_ece

ORACLE = oracles.numbers("variational")["lp"]
NORMS = [float(p) for p in ORACLE]


class Root:
    """A recalibration that learns nothing: the square roots of the probabilities, normalised."""

    def fit(self, logits, labels):
        return self

    def __call__(self, logits):
        return (logits / 2).softmax(1)


def oracle_sample():
    """(300, 4) probabilities and labels drawn from milder ones."""
    rng = np.random.default_rng(0)
    f = rng.dirichlet(np.full(4, 0.7), size=300)
    return f, np.array([rng.choice(4, p=row**0.6 / (row**0.6).sum()) for row in f])


def binary(seed, n, sharpness):
    """Two classes, the log odds of the predicted one ``sharpness`` times the true ones, and the true error."""
    rng = np.random.default_rng(seed)
    odds = np.abs(rng.normal(3.0, 2.0, n))
    true, confidence = 1 / (1 + np.exp(-odds)), 1 / (1 + np.exp(-sharpness * odds))
    labels = (rng.random(n) >= true).astype(int)
    return np.stack([confidence, 1 - confidence], 1), labels, np.abs(confidence - true).mean()


def test_equals_what_the_authors_package_returned():
    f, y = oracle_sample()
    for p, want in ORACLE.items():
        assert variational_calibration_error(f, y, Root(), p=float(p)).value == pytest.approx(want)


def test_equals_the_authors_package_with_a_calibrator():
    """Fitted on the same folds."""
    losses = pytest.importorskip("probmetrics.metrics")
    from probmetrics.distributions import CategoricalDirac, CategoricalProbs

    f, y = oracle_sample()
    g = np.empty_like(f)
    for out in folds(300):
        g[out] = TemperatureScaling().fit(np.log(f[~out]), y[~out])(np.log(f[out]))
    before, after = (CategoricalProbs(torch.from_numpy(probs)) for probs in (f, g))
    for p in NORMS:
        loss, truth = losses.ProperLpLoss(p=p), CategoricalDirac(torch.from_numpy(y), 4)
        theirs = float(loss.compute(truth, before, f_x=before) - loss.compute(truth, after, f_x=before))
        assert variational_calibration_error(f, y, TemperatureScaling(), p=p).value == pytest.approx(theirs)


def folds(n):
    fold = torch.randperm(n, generator=torch.Generator().manual_seed(0)).numpy() % 5
    return [fold == k for k in range(5)]


@pytest.mark.parametrize("n_bins", [1, 4, 15])
def test_top_label_equals_a_plain_loop(n_bins):
    probs, labels, _ = binary(0, 203, 1.3)
    confidence, gap = probs.max(1), probs.max(1) - (probs.argmax(1) == labels)
    over = under = 0.0
    for out in folds(203):
        ordered = np.sort(confidence[~out])
        edges = [part[-1] for part in np.array_split(ordered, n_bins)][:-1]
        for i in np.flatnonzero(out):
            same = ~out & (np.searchsorted(edges, confidence) == np.searchsorted(edges, confidence[i]))
            if gap[same].sum() > 0:
                over += gap[i] / 203
            elif gap[same].sum() < 0:
                under -= gap[i] / 203
    bound = variational_ece(probs, labels, n_bins=n_bins)
    assert bound.over.value == pytest.approx(over, abs=1e-12)
    assert bound.under.value == pytest.approx(under, abs=1e-12)
    assert bound.total.value == pytest.approx(over + under, abs=1e-12)


def test_by_hand():
    """All at 0.8; 0.6 are right. Of any fold the others say over-confident, and the mean gap is 0.2."""
    probs, labels = np.tile([0.8, 0.2], (100, 1)), np.repeat([0, 1], [60, 40])
    bound = variational_ece(probs, labels)
    assert bound.total.value == pytest.approx(0.2) == bound.over.value and bound.under == (0, 0, 0)
    assert bound.total.high - bound.total.value == pytest.approx(3 * math.sqrt(0.6 * 0.4 / 100))
    assert bound.total.value - bound.total.low == pytest.approx(3 * math.sqrt(0.6 * 0.4 / 100))
    halved = variational_ece(probs, labels, groups=np.arange(100) // 2)
    assert halved.total.value == pytest.approx(0.2)
    assert halved.total.high - 0.2 == pytest.approx(3 * math.sqrt(0.6 * 0.4 / 50))  # pairs that are right or wrong


def test_of_two_classes_the_vector_says_twice_one_entry():
    """|(d, -d)|_p = 2^(1/p) |d|."""
    probs, labels, _ = binary(1, 500, 1.4)
    one, *many = (variational_calibration_error(probs, labels, TemperatureScaling(), p=p) for p in (math.inf, *NORMS))
    assert [of.value for of in many] == pytest.approx([2 ** (1 / p) * one.value for p in NORMS])


@pytest.mark.parametrize("sharpness", [1.0, 1.1, 2.0])
def test_the_lower_end_holds(sharpness):
    """Above the true error in at most 2.5% of test sets; of over- and under-confidence too."""
    above = 0
    for seed in range(120):
        probs, labels, true = binary(seed, 400, sharpness)
        bound = variational_ece(probs, labels)
        above += bound.total.low > true or bound.over.low > true or bound.under.low > 0
    assert above <= 3


def simplex(seed, n, sharpness):
    true, labels = true_logits(n, 5, 1.5, seed)
    return softmax(sharpness * true, axis=1), labels, softmax(true, axis=1)


@pytest.mark.parametrize(
    ("p", "recalibrator"),
    [(1.0, TemperatureScaling()), (2.0, StructuredMatrixScaling()), (math.inf, TemperatureScaling())],
)
def test_the_error_of_the_whole_vector(p, recalibrator):
    values, true = [], []
    for seed in range(12):
        probs, labels, honest = simplex(seed, 1000, 1.5)
        values.append(variational_calibration_error(probs, labels, recalibrator, p=p).value)
        true.append(np.linalg.norm(probs - honest, ord=p, axis=1).mean())
    assert 0.9 * np.mean(true) < np.mean(values) < np.mean(true) + 3 * np.std(values) / math.sqrt(12)
    calibrated = [
        variational_calibration_error(*simplex(seed, 500, 1.0)[:2], recalibrator, p=p).value for seed in range(12)
    ]
    assert abs(np.mean(calibrated)) < 3 * np.std(calibrated) / math.sqrt(12)


def test_rows_that_go_together():
    """Each row four times over: as groups they say what the rows once say, else they would vouch for each other."""
    probs, labels, _ = binary(3, 300, 1.0)
    once, four = variational_ece(probs, labels), (np.repeat(probs, 4, 0), np.repeat(labels, 4))
    grouped, apart = variational_ece(*four, groups=np.repeat(np.arange(300), 4)), variational_ece(*four)
    assert [part.value for part in grouped] == pytest.approx([part.value for part in once], abs=1e-12)
    widths = [bound.total.high - bound.total.low for bound in (once, grouped, apart)]
    assert widths[1] > 0.8 * widths[0] > 1.5 * widths[2]
    assert apart.total.value > grouped.total.value + 0.005


def test_numpy_torch_and_float32_agree():
    probs, labels, _ = simplex(0, 400, 1.5)
    for call in (variational_ece, lambda p, y: [variational_calibration_error(p, y, TemperatureScaling())]):
        for part, other in zip(call(probs, labels), call(torch.from_numpy(probs), labels.tolist()), strict=True):
            assert part == other
        for part, other in zip(call(probs, labels), call(probs.astype(np.float32), labels), strict=True):
            assert part == pytest.approx(other, abs=1e-5)


def test_the_recalibrator_is_left_as_it_is_and_zeros_are_taken():
    probs, labels = np.tile(np.eye(3), (20, 1)), np.tile([0, 1, 1], 20)
    scaling = StructuredMatrixScaling()
    assert variational_calibration_error(probs, labels, scaling).value == pytest.approx(2 / 3, abs=0.05)
    assert scaling.n_classes is None


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"p": 0.5}, r"Expected `p` to be a number in \[1.0, inf\], but got 0.5"),
        *[({"p": p}, "Expected `p` to be a number") for p in (torch.ones(2), np.array([]), pd.NA, None, "inf")],
        ({"groups": [0] * 6}, "Expected `groups` to be at least 5 distinct numbers, but got 1"),
        ({"groups": [0] * 5}, r"Expected `groups` to be one for each of the 6 rows"),
    ],
)
def test_bad_options(options, match):
    probs, labels = np.tile([0.9, 0.1], (6, 1)), np.zeros(6, int)
    with pytest.raises(ValueError, match=match):
        variational_calibration_error(probs, labels, TemperatureScaling(), **options)


def test_too_few_rows_and_what_is_no_recalibrator():
    refused("`probs` to be at least 5 rows, but got 4", variational_ece, np.tile([0.9, 0.1], (4, 1)), np.zeros(4, int))
    for odd in ("temperature_scaling", TemperatureScaling, None):
        refused("`recalibrator` to be a calibrator", score_parts, np.full((9, 2), 0.5), np.zeros(9, int), odd)


SAMPLES = 40


@pytest.mark.slow
def test_the_intervals_hold_the_true_parts():
    """1,500 samples at the true logits and at 1.5 times these: in 95% of test sets, to 3 errors of 40 sets."""
    held, values, known = {}, {}, {}
    for seed in range(SAMPLES):
        logits, labels = true_logits(1500, 5, 1.5, seed)
        true = softmax(logits, axis=1)
        for sharpness in (1.0, 1.5):
            probs = softmax(sharpness * logits, axis=1)
            parts = score_parts(probs, labels, TemperatureScaling(), n_resamples=200)
            for name, calibration, refinement in (
                ("nll", (true * np.log(true / probs)).sum(1), -(true * np.log(true)).sum(1)),
                ("brier", ((true - probs) ** 2).sum(1), 1 - (true**2).sum(1)),
            ):
                for part, truth in (("calibration", calibration.mean()), ("refinement", refinement.mean())):
                    found, key = getattr(parts[name], part), (name, part, sharpness)
                    values.setdefault(key, []).append(found.value)
                    known.setdefault(key, []).append(truth)
                    held.setdefault(key, []).append(found.low <= truth <= found.high)
    for key in held:
        assert np.mean(held[key]) >= 0.84, key
        error = 3 * np.std(values[key]) / SAMPLES**0.5 + 1 / 1500  # a fitted parameter costs 0.6 nats in all
        assert np.mean(values[key]) == pytest.approx(np.mean(known[key]), abs=error)


def test_the_score_is_the_sum_and_what_mends_nothing_finds_nothing():
    logits, labels = true_logits(200, 3, 1.0)
    probs = softmax(3 * logits, axis=1).astype(np.float32)
    mended, left = (score_parts(torch.tensor(probs), labels, by) for by in (TemperatureScaling(), Identity()))
    for name, metric in (("nll", nll), ("brier", brier)):
        score, calibration, refinement = (part.value for part in mended[name])
        assert score == metric(probs, labels) == pytest.approx(calibration + refinement)
        assert calibration > 0.02
        assert left[name].calibration == pytest.approx((0, 0, 0), abs=1e-6)


def test_parts_of_rows_that_go_together():
    """Twenty equal rows an image: their interval is as wide as that of 100 rows."""
    image = np.repeat(np.arange(100), 20)
    logits, labels = (x[image] for x in true_logits(100, 4, 1.0, seed=1))
    probs = softmax(logits, axis=1)
    alone, together = (score_parts(probs, labels, TemperatureScaling(), groups=of)["nll"] for of in (None, image))
    assert together.score.high - together.score.low > 3 * (alone.score.high - alone.score.low)
    with pytest.raises(ValueError, match="^Expected `groups` to be at least 5 distinct numbers"):
        score_parts(probs, labels, TemperatureScaling(), groups=image % 2)
