"""The default of the estimators, and their sigmoid, beside what scikit-learn offers."""

import warnings

import numpy as np
import pytest
import sklearn
from drawn_logits import classes_apart
from refusals import refused
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits, make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

from calibkit import load_calibrator
from calibkit.estimators import CalibratedClassifier, LogitCalibrator
from calibkit.reading import read
from calibkit.reporting import diagnose


def seven_classes(seed):
    return make_classification(4000, 20, n_informative=8, n_classes=7, flip_y=0.1, class_sep=0.8, random_state=seed)


def seven_digits(seed):
    """The digits 0 to 6 under noise: without any a forest is too good for its calibration to matter."""
    X, y = (part[load_digits().target < 7] for part in load_digits(return_X_y=True))
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))
    return X[order] + rng.normal(scale=6, size=X.shape), y[order]


def two_classes(seed):
    return make_classification(4000, 20, n_informative=6, flip_y=0.1, class_sep=0.6, random_state=seed)


FOREST = RandomForestClassifier(30, random_state=0)
BOOSTING = HistGradientBoostingClassifier(max_iter=30, random_state=0)


def row_losses(model, data, n):
    X, y = data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        probs = model.fit(X[:n], y[:n]).predict_proba(X[n:])
    return -np.log(np.maximum(probs[np.arange(len(X) - n), y[n:]], np.finfo(float).eps))  # as log_loss does


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "sets"),
    [
        (FOREST, [(seven_classes, 10, 1500), (seven_classes, 11, 1500), (seven_digits, 10, 600)]),
        (BOOSTING, [(two_classes, 10, 1500), (two_classes, 11, 1500)]),
    ],
    ids=["forest", "boosting"],
)
def test_no_method_of_scikit_learn_has_a_lower_nll_beyond_chance(model, sets):
    """Over the data sets together, on common test rows: with two standard errors of the mean difference."""
    sets = [(draw(seed), n) for draw, seed, n in sets]
    ours = np.concatenate([row_losses(CalibratedClassifier(model), *data) for data in sets])
    version = tuple(map(int, sklearn.__version__.split(".")[:2]))
    for method in ("sigmoid", "isotonic", "temperature")[: 3 if version >= (1, 8) else 2]:
        for ensemble in (True, False):
            theirs = CalibratedClassifierCV(model, method=method, ensemble=ensemble)
            change = ours - np.concatenate([row_losses(theirs, *data) for data in sets])
            assert change.mean() <= 2 * change.std() / len(change) ** 0.5, (method, ensemble, change.mean())


def test_a_zero_counts_as_in_the_report():
    (X, y), n = seven_classes(0), 600
    forest = FOREST.fit(X[:n], y[:n])
    probs = forest.predict_proba(X[n : 2 * n])
    found = CalibratedClassifier(forest, cv="prefit").fit(X[n : 2 * n], y[n : 2 * n])
    reported = diagnose(read({"probs": probs, "labels": y[n : 2 * n]}))
    assert found.floor_ == probs[probs > 0].min() / 2 == pytest.approx(reported.floor, rel=1e-12)
    by_hand = found.calibrator_.calibrator_(np.log(np.where(probs > 0, probs, found.floor_)))
    np.testing.assert_allclose(found.predict_proba(X[n : 2 * n]), by_hand, rtol=1e-12)


@pytest.mark.parametrize("data", [load_digits(return_X_y=True), classes_apart(4), classes_apart(2)], ids=len)
def test_sigmoid_is_that_of_scikit_learn(data):
    """One against the rest where there are more than two classes; theirs stops at a gradient of 1e-6."""
    X, y = data
    model = FrozenEstimator(LogisticRegression(C=0.001, max_iter=1000).fit(X[::2], y[::2]))
    theirs = CalibratedClassifierCV(model, method="sigmoid").fit(X[1::2], y[1::2])
    ours = CalibratedClassifier(model, "sigmoid").fit(X[1::2], y[1::2])
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), rtol=0, atol=1e-5)


def test_separated_classes_have_an_optimum():
    """4 of 12: a label counts as 5 / 6, another as 1 / 10, and both scores are met."""
    z, y = 50 * np.eye(3)[[0, 1, 2] * 4], [0, 1, 2] * 4
    found = LogitCalibrator("sigmoid").fit(z, y).predict_proba(z[:1])[0]
    np.testing.assert_allclose(found, np.array([5 / 6, 1 / 10, 1 / 10]) / (5 / 6 + 2 / 10), rtol=1e-6)


def test_its_file_is_read_and_its_name_is_listed(tmp_path):
    z, y = 2.0 * np.eye(3)[[0, 1, 2] * 4], [0, 1, 2] * 4
    fitted = LogitCalibrator("sigmoid").fit(z, y).calibrator_
    np.testing.assert_array_equal(load_calibrator(fitted.save(tmp_path / "sigmoid.npz"))(z), fitted(z))
    for method in ("sigmoyd", None):
        refused(f'`method` to be .*"sigmoid".*, but got {method!r}: Expected `', LogitCalibrator(method).fit, z, y)
