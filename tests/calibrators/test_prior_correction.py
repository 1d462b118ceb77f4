"""Prior correction: Bayes' rule where the truth is known, and the estimate's own equation."""

import numpy as np
import pytest
import torch
from drawn_logits import true_logits
from refusals import refused
from scipy.special import softmax

from calibkit import PriorCorrection, TemperatureScaling, metrics

RNG = np.random.default_rng(0)
PRIOR, TARGET = np.array([0.7, 0.2, 0.1]), np.array([0.2, 0.3, 0.5])
CENTRES = np.array([[0.0, 0.0], [1.5, 0.0], [0.0, 1.5]])


def samples(prior, n):
    """Points around the centre of their class, and the exact logits of the posterior under ``PRIOR``."""
    labels = RNG.choice(3, n, p=prior)
    x = CENTRES[labels] + RNG.normal(size=(n, 2))
    return -0.5 * ((x[:, None] - CENTRES) ** 2).sum(2) + np.log(PRIOR), labels


VAL, SHIFTED = samples(PRIOR, 200_000), samples(TARGET, 200_000)


def bayes(target):
    return softmax(SHIFTED[0] + np.log(np.array(target) / PRIOR), 1)


@pytest.mark.parametrize("target", [TARGET.tolist(), "uniform"])
def test_is_bayes_rule(target):
    """To the accuracy with which 200,000 labels say T = 1 and the frequencies."""
    probs = PriorCorrection(target).fit(*VAL)(SHIFTED[0])
    np.testing.assert_allclose(probs, bayes([1 / 3] * 3 if target == "uniform" else target), atol=0.01)


def test_the_frequencies_of_the_fit_are_temperature_scaling():
    fitted = PriorCorrection((np.bincount(VAL[1]) + 1).tolist()).fit(*VAL)
    np.testing.assert_allclose(fitted(VAL[0]), TemperatureScaling().fit(*VAL)(VAL[0]), rtol=1e-12)
    assert PriorCorrection(torch.tensor(TARGET)).target == PriorCorrection(TARGET).target == tuple(TARGET)


def test_estimated_frequencies():
    """Saerens et al. 2002, equation 2.9: the mean of the corrected probabilities is the frequency that corrects."""
    fitted = PriorCorrection().fit(*VAL).adapt(SHIFTED[0])
    np.testing.assert_allclose(fitted.target_prior, TARGET, atol=0.01)
    np.testing.assert_allclose(fitted(SHIFTED[0]).mean(0), fitted.target_prior, atol=1e-6)
    known = PriorCorrection(TARGET).fit(*VAL)(SHIFTED[0])
    assert metrics.nll(fitted(SHIFTED[0]), SHIFTED[1]) == pytest.approx(metrics.nll(known, SHIFTED[1]), abs=1e-3)


def test_a_class_that_is_gone_leaves_its_probability_to_the_others():
    """However sure the network was of it."""
    fitted = PriorCorrection([0.0, 1.0, 3.0]).fit(*VAL)
    probs = fitted(np.array([[1e4, 0.0, 0.0], [0.0, 0.0, -1e4]]))
    odds = 3 * fitted.prior[1] / fitted.prior[2]
    np.testing.assert_allclose(probs, [[0, 1 / (1 + odds), odds / (1 + odds)], [0, 1, 0]], rtol=1e-9)


@pytest.mark.parametrize(
    "target", ["train", None, b"abc", {0: 0.2, 1: 0.3, 2: 0.5}, [0.0] * 3, [1.0, -1.0, 1.0], [0.5, 0.5], [1e308] * 3]
)
def test_bad_targets(target):
    refused("`target`", lambda: PriorCorrection(target).fit(*VAL))


def test_no_frequencies_are_likelier():
    """Many classes, of which most are gone: what is left to gain is at most the largest slope less 1, by concavity."""
    z, y = true_logits(6000, 200)
    fitted = PriorCorrection().fit(z[:3000], y[:3000])
    kept = z[3000:][y[3000:] < 40]
    fitted.adapt(kept)
    likelihoods = softmax(kept / fitted.temperature, 1) / fitted.prior
    slope = (likelihoods / (likelihoods @ fitted.target_prior)[:, None]).mean(0)
    assert slope.max() < 1 + 1e-7 and fitted.target_prior.sum() == pytest.approx(1)
    assert fitted.target_prior[:40].sum() > 0.5  # of 0.2 in the validation set
