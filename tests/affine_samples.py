"""Samples on which the affine calibrators are tested, well-behaved and not."""

import numpy as np
import pytest
from drawn_logits import true_logits

from calibkit.calibrators import TemperatureScaling
from calibkit.fitting.affine_fit import folds

#: What :func:`corner` makes of a sample.
CORNERS = ("missing", "twins", "constant", "huge")


def random_sample(seed, n, k):
    """Logits that are too large, by another factor for each class, with an offset and a leak between classes."""
    rng = np.random.default_rng(seed)
    true = 1.5 * rng.normal(size=(n, k))
    y = (true + rng.gumbel(size=(n, k))).argmax(1)
    mixed = true @ (np.eye(k) + 0.1 * rng.normal(size=(k, k)))
    return 2 * np.exp(0.3 * rng.normal(size=k)) * mixed + rng.normal(size=k), y


def corner(case, z, y):
    """A class without a sample, two equal columns of logits, a constant one, or logits of 10,000."""
    if case == "missing":
        return z, y % 4
    if case == "huge":
        return 1e4 * z, y
    z = z.copy()
    z[:, 1] = z[:, 0] if case == "twins" else 3.0
    return z, y


def too_large(seed, n, k):
    """Logits of which nothing is wrong but the temperature."""
    true, y = true_logits(n, k, 1.5, seed)
    return 2 * true, y


def check_order(make, z, y):
    """The order of the rows, and that of four classes, are of no account in the fit. Gives the probabilities."""
    probs, classes = make().fit(z, y)(z), np.array([2, 0, 3, 1])
    rows = np.random.default_rng(0).permutation(len(z))
    np.testing.assert_allclose(make().fit(z[rows], y[rows])(z), probs, rtol=0, atol=1e-7)
    other = make().fit(z[:, classes], np.argsort(classes)[y])(z[:, classes])
    np.testing.assert_allclose(other, probs[:, classes], rtol=0, atol=1e-7)
    return probs


def check_choice(fitted, z, y):
    """Its criterion, by a plain loop over the folds, of what was chosen and of temperature scaling: the lower one."""
    fold, methods, losses = folds(len(y), 5).numpy(), [TemperatureScaling()], []
    if not fitted.fell_back:
        strengths = {name: getattr(fitted, f"chosen_{name}") for name in {"lam", "mu"} & set(fitted.options())}
        methods.append(type(fitted)(**strengths))
    for method in methods:
        p = np.empty(len(y))
        for f in range(5):
            out = fold == f
            p[out] = method.fit(z[~out], y[~out])(z[out])[np.arange(out.sum()), y[out]]
        losses.append(-np.log(p).mean())
    assert losses[0] == pytest.approx(fitted.cv_loss_temperature, rel=2e-4)
    if fitted.fell_back:
        np.testing.assert_allclose(fitted(z), TemperatureScaling().fit(z, y)(z), atol=1e-9)
        assert fitted.chosen_lam == np.inf and not fitted.bias.any()
    else:
        assert losses[1] == pytest.approx(fitted.cv_loss, rel=2e-4)
        assert losses[1] <= losses[0]
