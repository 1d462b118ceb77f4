"""The two parts of proper scores: networks whose true parts are known, and recalibrations that know nothing."""

import numpy as np
import pytest
import torch
from scipy.special import softmax

from calibkit.calibrators import Identity, TemperatureScaling
from calibkit.metrics import brier, nll, score_parts

SAMPLES = 40


@pytest.mark.slow
def test_the_intervals_hold_the_true_parts():
    """1,500 samples at the true logits and at 1.5 times these: in 95% of test sets, to 3 errors of 40 sets."""
    held, values, known = {}, {}, {}
    for seed in range(SAMPLES):
        rng = np.random.default_rng(seed)
        logits = 1.5 * rng.normal(size=(1500, 5))
        true, labels = softmax(logits, axis=1), (logits + rng.gumbel(size=logits.shape)).argmax(1)
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
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(200, 3))
    probs, labels = softmax(3 * logits, axis=1).astype(np.float32), (logits + rng.gumbel(size=(200, 3))).argmax(1)
    mended, left = (score_parts(torch.tensor(probs), labels, by) for by in (TemperatureScaling(), Identity()))
    for name, metric in (("nll", nll), ("brier", brier)):
        score, calibration, refinement = (part.value for part in mended[name])
        assert score == metric(probs, labels) == pytest.approx(calibration + refinement)
        assert calibration > 0.02
        assert left[name].calibration == pytest.approx((0, 0, 0), abs=1e-6)


def test_what_is_no_recalibrator():
    for odd in ("temperature_scaling", TemperatureScaling, None):
        with pytest.raises(ValueError, match="^Expected `recalibrator` to be a calibrator"):
            score_parts(np.full((9, 2), 0.5), np.zeros(9, int), odd)


def test_rows_that_go_together():
    """Twenty equal rows an image: their interval is as wide as that of 100 rows."""
    rng = np.random.default_rng(1)
    image = np.repeat(np.arange(100), 20)
    logits = rng.normal(size=(100, 4))
    probs, labels = softmax(logits, axis=1)[image], (logits + rng.gumbel(size=(100, 4))).argmax(1)[image]
    alone, together = (score_parts(probs, labels, TemperatureScaling(), groups=of)["nll"] for of in (None, image))
    assert together.score.high - together.score.low > 3 * (alone.score.high - alone.score.low)
    with pytest.raises(ValueError, match="^Expected `groups` to be at least 5 distinct numbers"):
        score_parts(probs, labels, TemperatureScaling(), groups=image % 2)
