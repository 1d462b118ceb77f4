"""``method="sigmoid"`` of the estimators beside scikit-learn's, and a search over method and classifier."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits, make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.tree import DecisionTreeClassifier

from calibkit import load_calibrator
from calibkit.estimators import CalibratedClassifier, LogitCalibrator


def drawn(n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    return make_classification(400, 10, n_informative=6, n_classes=n_classes, flip_y=0.2, random_state=0)


@pytest.mark.parametrize("data", [load_digits(return_X_y=True), drawn(4), drawn(2)], ids=["digits", "four", "two"])
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
        with pytest.raises(ValueError, match=f'^Expected `method` to be .*"sigmoid".*, but got {method!r}: Expected `'):
            LogitCalibrator(method).fit(z, y)


def test_a_search_over_method_and_classifier():
    X, y = drawn(3)
    grid = {"method": ["sigmoid", "temperature_scaling", "ets"], "estimator__max_depth": [1, 3]}
    search = GridSearchCV(CalibratedClassifier(DecisionTreeClassifier(), cv=2), grid, scoring="neg_log_loss", cv=2)
    best = search.fit(X, y).best_estimator_
    assert len(search.cv_results_["params"]) == 6 and np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert {name: best.get_params()[name] for name in grid} == search.best_params_
    copied = clone(best).set_params(method="sigmoid", estimator__max_depth=2)
    assert copied.fit(X, y).estimators_[0].get_depth() == 2
    assert repr(copied.calibrator_.calibrator_).startswith("Sigmoid(slopes=")
