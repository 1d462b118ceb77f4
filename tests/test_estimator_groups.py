"""``CalibratedClassifier`` with a splitter that keeps groups together."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, LeaveOneGroupOut, cross_val_predict

from calibkit.calibrators import TemperatureScaling
from calibkit.estimators import CalibratedClassifier


@pytest.fixture(scope="module")
def data():
    X, y = make_classification(300, 6, n_informative=4, n_classes=3, random_state=0)
    return X, y, np.random.default_rng(0).integers(0, 9, 300)


@pytest.mark.parametrize("cv", [GroupKFold(3), LeaveOneGroupOut()])
def test_groups_are_kept_together(data, cv):
    """The temperature is that of out-of-fold scores by hand."""
    X, y, groups = data
    model = LogisticRegression(C=1e4)
    found = CalibratedClassifier(model, "temperature_scaling", cv=cv).fit(X, y, groups=groups)
    scores = cross_val_predict(model, X, y, groups=groups, cv=cv, method="decision_function")
    assert found.calibrator_.calibrator_.temperature == TemperatureScaling().fit(scores, y).temperature
    split = list(cv.split(X, y, groups))
    np.testing.assert_array_equal(
        found.predict_proba(X), CalibratedClassifier(model, "temperature_scaling", cv=split).fit(X, y).predict_proba(X)
    )
    assert all(not set(groups[rest]) & set(groups[out]) for rest, out in split)


def test_groups_are_no_parameter_of_the_classifier(data):
    """Weights of rows still reach it, cut to a fold, beside the groups; here by a name of their own."""

    class Seen(LogisticRegression):
        def fit(self, X, y, marks=None):
            assert marks is not None and np.array_equal(marks, X[:, 0])
            return super().fit(X, y)

    X, y, groups = data
    found = CalibratedClassifier(Seen(), cv=GroupKFold(3)).fit(X, y, groups=groups, marks=X[:, 0])
    plain = CalibratedClassifier(LogisticRegression(), cv=GroupKFold(3)).fit(X, y, groups=groups)
    np.testing.assert_array_equal(found.predict_proba(X), plain.predict_proba(X))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        CalibratedClassifier(LogisticRegression(), cv=GroupKFold(3)).fit(X, y, groups=groups[1:])
    with pytest.raises(ValueError, match="Expected `groups` to be None where nothing is split"):
        CalibratedClassifier(LogisticRegression().fit(X, y), cv="prefit").fit(X, y, groups=groups)
