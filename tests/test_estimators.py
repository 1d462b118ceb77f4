"""The scikit-learn estimators: its own checks, its own temperature scaling, and a life inside its tools."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from drawn_logits import classes_apart, logits
from packaging.version import Version
from refusals import refused
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold, cross_val_predict, train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.utils.estimator_checks import check_estimator

from calibkit.calibrators import ETS, TemperatureScaling, VectorScaling, calibrator
from calibkit.estimators import CalibratedClassifier, LogitCalibrator
from calibkit.objectives import Focal

VERSION = Version(sklearn.__version__)
COLUMNS = "its features are logits, one column a class, and this check has 3 classes in 2 columns, or 2 in 3"
EXPECTED = {
    **dict.fromkeys(("check_estimators_overwrite_params", "check_estimators_fit_returns_self"), COLUMNS),
    **dict.fromkeys(("check_readonly_memmap_input", "check_estimators_nan_inf", "check_classifiers_classes"), COLUMNS),
    "check_classifiers_train": "it predicts the largest logit, and these features are none: too low an accuracy",
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the objective decreases up to the bound")  # features without any information
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.EstimatorCheckFailedWarning")  # of what is expected
@pytest.mark.parametrize(
    ("estimator", "expected"),
    [
        (LogitCalibrator(), EXPECTED),
        *((CalibratedClassifier(m, cv=2), {}) for m in (LogisticRegression(), GaussianNB())),
    ],
)
def test_what_scikit_learn_asks_of_an_estimator(estimator, expected):
    done = check_estimator(estimator, expected_failed_checks=expected, on_skip=None)
    assert sum(check["status"] == "passed" for check in done) > 40


@pytest.mark.skipif(Version("1.8") > VERSION, reason='scikit-learn has method="temperature" since 1.8')
@pytest.mark.parametrize(
    ("model", "n_classes"),
    [
        (LinearSVC(random_state=0), 2),
        (LogisticRegression(), 4),
        (GaussianNB(), 4),
        (RandomForestClassifier(20, min_samples_leaf=40, random_state=0), 2),  # without zeros
    ],
)
def test_is_the_optimum_that_scikit_learn_searches(model, n_classes):
    """Its search of log T stops within about the root of float64's precision; the loss is flat there."""
    X, y = classes_apart(n_classes)
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    ours = CalibratedClassifier(model, "temperature_scaling", cv=folds, ensemble=False).fit(X, y)
    theirs = CalibratedClassifierCV(model, method="temperature", cv=folds, ensemble=False).fit(X, y)
    beta = float(theirs.calibrated_classifiers_[0].calibrators[0].beta_)
    binary_score = n_classes == 2 and hasattr(model, "decision_function")
    temperature = ours.calibrator_.calibrator_.temperature
    assert temperature == pytest.approx(1 / beta / (2 if binary_score else 1), rel=1e-6)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-7)


class Score(ClassifierMixin, BaseEstimator):
    """The score is the first feature."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X):
        return X[:, 0]


def test_temperature_of_a_binary_score_by_hand():
    """Scores of +3 and -3, right 3 times of 4: sigma(3 / T) = 3/4, hence T = 3 / ln 3."""
    X, y = np.array([[3.0]] * 4 + [[-3.0]] * 4), np.array(["no", "yes", "yes", "yes"] + ["yes", "no", "no", "no"])
    fitted = CalibratedClassifier(Score().fit(X, y), "temperature_scaling", cv="prefit").fit(X, y)
    assert fitted.calibrator_.calibrator_.temperature == pytest.approx(3 / np.log(3), rel=1e-9)
    np.testing.assert_allclose(fitted.predict_proba(X)[:, 1], [0.75] * 4 + [0.25] * 4, rtol=1e-9)
    assert fitted.predict(X).tolist() == ["yes"] * 4 + ["no"] * 4


def test_a_binary_score_at_a_temperature_of_1_says_what_it_says():
    X, y = classes_apart(2)
    model = LogisticRegression().fit(X, y)
    kept = CalibratedClassifier(model, "identity", cv="prefit").fit(X, y)
    np.testing.assert_allclose(kept.predict_proba(X), model.predict_proba(X), atol=1e-14)


@pytest.mark.parametrize("method", ["vector_scaling", "pts", "isotonic"])
def test_the_order_of_two_classes_is_of_no_account(method):
    X, y = classes_apart(2, 200)
    model, mirrored = (LogisticRegression().fit(X, labels) for labels in (y, 1 - y))
    there = CalibratedClassifier(model, method, cv="prefit").fit(X, y)
    back = CalibratedClassifier(mirrored, method, cv="prefit").fit(X, 1 - y)
    np.testing.assert_allclose(back.predict_proba(X)[:, ::-1], there.predict_proba(X), atol=1e-12)


def test_each_score_of_the_fit_is_of_a_classifier_that_had_not_seen_the_sample():
    X, y = classes_apart(3, 240)
    z, models = np.empty((len(y), 3)), []
    for train, test in StratifiedKFold(5).split(X, y):
        models.append(LogisticRegression().fit(X[train], y[train]))
        z[test] = models[-1].decision_function(X[test])
    ets = calibrator("ets").fit(z, y)
    fitted = CalibratedClassifier(LogisticRegression(), "ets", ensemble=False).fit(X, y)
    by_hand = ets(LogisticRegression().fit(X, y).decision_function(X))
    np.testing.assert_array_equal(fitted.predict_proba(X), by_hand)
    by_hand = [ets(model.decision_function(X)) for model in models]
    averaged = CalibratedClassifier(LogisticRegression(), "ets").fit(X, y)
    np.testing.assert_allclose(averaged.predict_proba(X), np.mean(by_hand, axis=0), rtol=1e-14)


def test_logits_of_strings_and_of_rare_classes():
    z, y = logits()
    want = TemperatureScaling().fit(z, y)(z)
    names = np.array(["bee", "cat", "dog", "ape"])  # not by the alphabet
    named = LogitCalibrator(classes=names).fit(z, names[y])
    np.testing.assert_array_equal(named.predict_proba(z), want)
    assert named.score(z, names[y]) == np.mean(z.argmax(1) == y)
    rare = LogitCalibrator().fit(z[some := y != 3], y[some])
    assert rare.classes_.tolist() == [0, 1, 2, 3]
    np.testing.assert_array_equal(rare.predict_proba(z), TemperatureScaling().fit(z[some], y[some])(z))
    from_one = LogitCalibrator().fit(z, y + 1)
    assert from_one.classes_.tolist() == [1, 2, 3, 4] and from_one.score(z, y + 1) == named.score(z, names[y])


def test_labels_without_0_are_numbers_of_columns():
    z, y = logits()
    with pytest.warns(UserWarning, match="no label is 0: they are taken for numbers of columns from 0"):
        assert LogitCalibrator().fit(z[y != 0], y[y != 0]).classes_.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("text", [False, True])
def test_columns_called_as_numbers_are_those_classes(text):
    """In a table that a file was read into, names are text and labels are numbers."""
    names, (z, y) = np.array([30, 10, 20, 40]), logits()
    X = pd.DataFrame(z, columns=names.astype(str) if text else names)
    found = LogitCalibrator().fit(X, names[y])
    np.testing.assert_array_equal(found.classes_, names)
    np.testing.assert_array_equal(found.predict(X), names[z.argmax(1)])
    X.columns = ["1", "2", "3", "background"]
    with pytest.raises(ValueError, match="Expected `X` to be of columns with numbers, as the labels are"):
        LogitCalibrator().fit(X, np.where(y == 3, 1, y + 1))


def test_a_method_is_a_key_or_a_calibrator_that_stays_unfitted():
    z, y = logits()
    given = ETS(Focal(gamma=2.0))
    by_object, by_key = LogitCalibrator(given).fit(z, y), LogitCalibrator("ets:focal gamma=2").fit(z, y)
    assert given.n_classes is None and isinstance(by_key.calibrator_, ETS)
    np.testing.assert_array_equal(by_object.predict_proba(z), by_key.predict_proba(z))
    assert repr(clone(LogitCalibrator(given)).fit(z, y).calibrator_) == repr(by_key.calibrator_)


def test_float32_stays_what_it_is_and_tables_have_names():
    z, y = logits()
    table = pd.DataFrame(z := z.astype(np.float32), columns=list("abcd"))
    fitted = LogitCalibrator().fit(table, pd.Series(y))
    assert fitted.n_features_in_ == 4 and fitted.feature_names_in_.tolist() == list("abcd")
    np.testing.assert_array_equal(fitted.predict_proba(table), TemperatureScaling().fit(z, y)(z))


def test_in_a_pipeline_on_a_table_with_strings():
    digits = load_digits(as_frame=True)
    X, y = digits.data[:900], digits.target[:900].map(lambda k: f"digit {k}")
    X_fit, X_new, y_fit, y_new = train_test_split(X, y, random_state=0, stratify=y)
    base = make_pipeline(StandardScaler(), RidgeClassifier())
    fitted = CalibratedClassifier(base, "temperature_scaling", cv=3, ensemble=False).fit(X_fit, y_fit)
    assert fitted.feature_names_in_.tolist() == list(X.columns) and fitted.n_features_in_ == 64
    assert fitted.classes_.tolist() == sorted(y.unique())
    assert fitted.predict(X_new).tolist() == base.fit(X_fit, y_fit).predict(X_new).tolist()  # T keeps the argmax
    outside = make_pipeline(StandardScaler(), CalibratedClassifier(RidgeClassifier(), cv=3))
    grid = {"calibratedclassifier__estimator__alpha": [1, 100], "calibratedclassifier__method": ["identity", "ets"]}
    search = GridSearchCV(outside, grid, scoring="neg_log_loss", cv=3).fit(X_fit, y_fit)
    assert search.best_params_["calibratedclassifier__method"] == "ets"
    probs = cross_val_predict(search.best_estimator_, X_new, y_new, cv=3, method="predict_proba")
    np.testing.assert_allclose(probs.sum(1), 1)
    assert np.mean(fitted.classes_[probs.argmax(1)] == y_new) > 0.85


def test_a_frozen_classifier_is_as_good_as_prefit():
    X, y = classes_apart(3)
    model = LogisticRegression().fit(X[:200], y[:200])
    given = FrozenEstimator(model)
    one, other = CalibratedClassifier(model, cv="prefit"), CalibratedClassifier(given)
    one, other = one.fit(X[200:], y[200:]), clone(other).fit(X[200:], y[200:])
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))
    two = y[200:] != 2  # held-out samples need not have all the classes that the classifier knows
    assert CalibratedClassifier(given).fit(X[200:][two], y[200:][two]).predict_proba(X).shape == (400, 3)
    search = GridSearchCV(other, {"method": ["identity", "ets"]}, scoring="neg_log_loss", cv=2).fit(X[200:], y[200:])
    assert search.best_estimator_.estimators_[0].estimator is model


def test_weights_are_refused_and_bagging_resamples_instead():
    X, y = classes_apart(2)
    want = 'Expected `sample_weight` to be None, .* but got weights; fit the classifier with weights, .* cv="prefit"'
    with pytest.raises(ValueError, match=want):
        CalibratedClassifier(LogisticRegression()).fit(X, y, sample_weight=np.ones(len(y)))
    bag = BaggingClassifier(CalibratedClassifier(LogisticRegression(), cv=2), 2, random_state=0).fit(X, y)
    assert bag.score(X, y) > 0.7


def test_bad_input():
    X, y = logits()
    whole, pairs = CalibratedClassifier(LogisticRegression()), SVC(decision_function_shape="ovo")
    for estimator, change, message in (
        (LogitCalibrator("neural_clamping"), {}, "`method` to be a calibrator of logits, .* fitted on images"),
        (LogitCalibrator(classes=["a", "b"]), {}, r"`classes` to be of shape \(4,\), one a column of X, but got .*2"),
        (LogitCalibrator(classes=list("abcd")), {}, "`y` to be of labels among the classes, but got .*"),
        (LogitCalibrator(classes=[0, 1, 2, 9]), {}, "`y` to be of labels among the classes, but got .*3"),
        (LogitCalibrator(), {"y": np.arange(300) % 5}, "`y` to be of 4 classes, one a column of X, but got 5$"),
        (LogitCalibrator(), {"y": np.arange(300) % 3 - 1}, "but got 3; name the class of each column in `classes`"),
        (LogitCalibrator(), {"y": ["a", "b"] * 150}, "but got 2; name the class of each column in `classes`"),
        (whole, {"y": np.ones(300)}, "`y` to be of at least 2 classes, but got 1"),
        (whole, {"y": np.r_[np.zeros(296), np.ones(4)]}, "`y` to be of 5 samples a"),
        (CalibratedClassifier(pairs), {}, "`estimator` to be one with 4 scores, one a class, but got 6 of them"),
        (
            CalibratedClassifier(make_pipeline(StandardScaler(), pairs)),
            {"y": np.arange(300) % 3},
            "`estimator` to be one with 3 scores, one a class, but got 3 of them of pairs of classes",
        ),
        (
            CalibratedClassifier(LogisticRegression(), cv=KFold(3)),
            {"y": np.repeat([0, 1, 2], 100)},
            "`cv` to be folds that leave samples of every class to fit on, but got one that leaves none of",
        ),
        (
            LogitCalibrator(classes=["a", "b", "c", "a"]),
            {"y": ["a", "b"] * 150},
            "`classes` to be different, and of one type, but got a, b",
        ),
        (LogitCalibrator(classes=np.array([*"abcd"], object)), {}, "`y` to be of labels among the classes, but got 0"),
        (LogitCalibrator(classes=[["a", "b"], ["c"]]), {}, "`classes` to be a list or an array, a class a column"),
        (CalibratedClassifier(LogisticRegression(), cv=[]), {}, "`cv` to be of one fold or more"),
        (CalibratedClassifier(StandardScaler()), {}, "a classifier with decision_function or predict_proba"),
    ):
        refused(".*" + message, estimator.fit, **{"X": X, "y": y, **change})


def test_unfitted_use():
    X, y = logits()
    for estimator in (LogitCalibrator(VectorScaling()), CalibratedClassifier(GaussianNB())):
        for use in (estimator.predict, estimator.predict_proba):
            with pytest.raises(NotFittedError):
                use(X)
    with pytest.raises(NotFittedError):
        CalibratedClassifier(GaussianNB(), cv="prefit").fit(X, y)
