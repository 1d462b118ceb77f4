"""scikit-learn estimators: every calibrator on logits inside ``clone``, ``Pipeline`` and ``GridSearchCV``.

``LogitCalibrator`` takes logits as its features; ``CalibratedClassifier`` takes what a classifier takes, and wraps one.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from copy import deepcopy
from typing import Any, Self

import numpy as np

from calibkit._checks import check_flag, expected, to_array
from calibkit._extras import needs
from calibkit._floor import log_probs
from calibkit.calibrators import calibrator
from calibkit.fitting.base import Calibrator
from calibkit.fitting.sigmoid import Sigmoid

with needs("sklearn"):
    from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
    from sklearn.frozen import FrozenEstimator
    from sklearn.model_selection import check_cv, cross_validate
    from sklearn.utils import _safe_indexing, assert_all_finite, indexable
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data


class _Classifier(ClassifierMixin, BaseEstimator):
    """``predict`` from ``predict_proba``."""

    def predict(self, X: Any) -> np.ndarray:
        """The class of the largest probability: (N,)."""
        check_is_fitted(self)
        return self.classes_[self.predict_proba(X).argmax(1)]


class LogitCalibrator(_Classifier):
    """A calibrator as a scikit-learn classifier whose features are the logits.

    ``fit(X, y)`` on held-out logits (N, K), or (N, 1) of the second of two classes, and their labels, numbers or
    strings; then ``predict_proba``, ``predict`` and ``score``.

    Args:
        method: a key such as ``"ets"`` or ``"ets:focal gamma=2"``, or a calibrator, which is copied and not changed.
            Options stand in the key, so that a grid search over them is one over keys. ``"sigmoid"`` is that of
            scikit-learn: Platt scaling of each class against the others.
        classes: (K,) the class of each column. None (default): the names of the columns, where ``X`` has some and the
            labels, as text, are among them; else the sorted labels where all K occur; else, as some do not, the labels
            are taken to be column numbers in [0, K), with a warning where none is 0.

    Attributes:
        calibrator_: the fitted calibrator.
        classes_: (K,) the class of each column.
        n_features_in_: the number of classes.
        feature_names_in_: (K,) names of the columns, where ``X`` has some.

    Raises:
        ValueError: no such method, or one that is not fitted on logits; bad ``X``, probabilities among them; labels
            that are no classes.
        NotFittedError: use before ``fit``.

    Example:
        >>> z, y = np.array([[2.0, 0.0]] * 4), ["cat", "cat", "cat", "dog"]
        >>> fitted = LogitCalibrator("temperature_scaling").fit(z, y)
        >>> fitted.calibrator_, fitted.predict_proba(z)[0].round(6).tolist(), str(fitted.predict(z)[0])
        (TemperatureScaling(temperature=1.82), [0.75, 0.25], 'cat')
    """

    def __init__(self, method: str | Calibrator = "temperature_scaling", *, classes: Iterable | None = None) -> None:
        self.method, self.classes = method, classes

    def fit(self, X: Any, y: Any) -> Self:
        """Fit on held-out logits (N, K) and labels (N,); returns self."""
        own = Sigmoid() if isinstance(self.method, str) and self.method == "sigmoid" else self.method
        made = deepcopy(own) if isinstance(own, Calibrator) else calibrator(own)
        if not isinstance(made, Calibrator):
            raise expected("method", "a calibrator of logits", f"{self.method!r}, which is fitted on images")
        columns = [str(name) for name in getattr(X, "columns", ())]
        X, y = validate_data(self, X, y, dtype=(np.float64, np.float32))
        check_classification_targets(y)
        if self.classes is not None:
            classes = to_array("classes", self.classes, "a list or an array, a class a column")
        elif set(np.unique(y).astype(str)) <= set(columns):
            classes = _names_as(y, columns)  # a table whose columns are called as the classes
        else:
            classes = _classes_of(y, max(X.shape[1], 2))
        if classes.shape != (max(X.shape[1], 2),):
            raise expected("classes", f"of shape ({X.shape[1]},), one a column of X", f"shape {classes.shape}")
        kinds = {type(each) for each in classes.tolist()}
        if len(kinds) > 1 or len(np.unique(classes)) < len(classes):
            raise expected("classes", "different, and of one type", ", ".join(map(str, classes)))
        self.calibrator_, self.classes_ = made.fit(X, _numbers(y, classes)), classes
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Calibrated probabilities (N, K) in float64, in the order of ``classes_``."""
        check_is_fitted(self)
        probs = self.calibrator_(validate_data(self, X, dtype=(np.float64, np.float32), reset=False))
        return np.hstack([1 - probs, probs]) if probs.shape[1] == 1 else probs


class CalibratedClassifier(MetaEstimatorMixin, _Classifier):
    r"""A classifier with calibrated probabilities, by any method of ``CALIBRATORS``.

    The logits are ``decision_function(X)``, else the logarithm of ``predict_proba(X)``. There a probability of 0, of
    which forests have many, counts as half the smallest above 0, as in ``calibkit.report``.

    A binary score s becomes :math:`(-s/2, s/2)`, whose softmax is :math:`\sigma(s)`: at T = 1 a classifier whose score
    is a log-odds, as that of logistic regression or boosting, says what it said. A temperature makes the sigmoid
    steeper or flatter and leaves its threshold at s = 0; ``vector_scaling`` moves the threshold too, as Platt scaling
    does.

    The calibrator is fitted on scores of samples that the classifier which gave them had not seen: of each fold by a
    copy fitted on the others. Of new samples the calibrated probabilities of these copies are averaged.

    Args:
        estimator: a classifier with ``decision_function`` or ``predict_proba``.
        method: of ``LogitCalibrator``. Structured matrix scaling (default) may change the predicted class.
        cv: number of folds, a splitter of scikit-learn or pairs of indices; None (default): 5 stratified folds.
            ``"prefit"``: ``estimator`` is fitted already and stays as it is, and ``fit`` gets held-out samples. A
            ``FrozenEstimator`` says the same of itself, and does so after ``clone`` too: inside ``GridSearchCV`` it is
            the one to take.
        ensemble: whether the copies of the folds predict, and their mean is given. False: one classifier does that is
            fitted on everything, which takes less memory and time, and is mostly worse. Of no account where nothing is
            split.

    Attributes:
        estimators_: the classifiers: a copy a fold, or the only one.
        calibrator_: the fitted ``LogitCalibrator``.
        classes_: (K,) class labels.
        floor_: what a probability of 0 counts as; None of scores.
        n_features_in_: number of features of the classifier, where it tells.
        feature_names_in_: (D,) their names, where ``X`` has some.

    Raises:
        ValueError: fewer than two classes; a class with fewer samples than folds; scores that are not one per class, as
            of an SVC that compares pairs; ``sample_weight``; ``groups`` where nothing is split.
        NotFittedError: use before ``fit``; ``"prefit"`` with an estimator that is not fitted.

    Differs from ``CalibratedClassifierCV``: its ensemble has a calibrator for each fold, where this fits one on the
    out-of-fold scores of all. Of its ``"temperature"`` T here is the exact optimum, and theirs is as near to it as a
    scalar search comes (relative to T they agree to about 1e-7). They write a binary score as (-s, s), so that for the
    same probabilities T is ``1 / (2 beta_)`` here, and a probability below 1e-12 counts as that much. ``"sigmoid"`` is
    theirs on scores; where there are none, they take probabilities, and this their logarithms. Their calibrator takes
    sample weights, and none of ours does: weights are refused.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.svm import LinearSVC
        >>> X, y = load_iris(return_X_y=True)
        >>> calibrated = CalibratedClassifier(LinearSVC(random_state=0), "vector_scaling").fit(X, y)
        >>> calibrated.predict_proba(X[:1]).round(2).tolist()
        [[1.0, 0.0, 0.0]]
    """

    def __init__(
        self,
        estimator: Any,
        method: str | Calibrator = "structured_matrix_scaling",
        *,
        cv: int | str | object | None = None,
        ensemble: bool = True,
    ) -> None:
        self.estimator, self.method, self.cv, self.ensemble = estimator, method, cv, ensemble

    def fit(self, X: Any, y: Any, *, groups: Any = None, **fit_params: Any) -> Self:
        """Fit the classifiers and their calibrator; returns self.

        Args:
            X: (N, ...) whatever the classifier takes.
            y: (N,) labels.
            groups: (N,) for a splitter that keeps groups together, as ``cv=GroupKFold(5)``.
            fit_params: for the ``fit`` of the classifier, cut to the samples of a fold where they are one per sample.
        """
        if fit_params.pop("sample_weight", None) is not None:
            cure = 'fit the classifier with weights, then this with cv="prefit" on samples that count alike'
            raise expected("sample_weight", "None, as calibrators weigh all samples alike", f"weights; {cure}")
        X, y, groups = indexable(X, column_or_1d(y, warn=True), groups)
        assert_all_finite(y, input_name="y")
        check_classification_targets(y)
        ensemble = check_flag("ensemble", self.ensemble)
        prefit = isinstance(self.estimator, FrozenEstimator) or (isinstance(self.cv, str) and self.cv == "prefit")
        if prefit:
            check_is_fitted(self.estimator)
            if groups is not None:
                raise expected("groups", "None where nothing is split", "groups beside a fitted classifier")
            fitted, held_out = [self.estimator], [np.arange(len(y))]
        else:
            classes, counts = np.unique(y, return_counts=True)
            if len(classes) < 2:
                raise expected("y", "of at least 2 classes", "1 class" if len(classes) else "none")
            folds = check_cv(self.cv, y, classifier=True)
            n_folds = folds.get_n_splits(X, y, groups)
            if counts.min() < n_folds:
                got = f"{counts.min()} of {classes[counts.argmin()]!r}"
                raise expected("y", f"of {n_folds} samples a class or more, one a fold", got)
            folds = list(folds.split(X, y, groups))
            if not folds:
                raise expected("cv", "of one fold or more", repr(self.cv))
            for rest, _ in folds:
                if len(absent := np.setdiff1d(classes, y[rest])):  # their scores would be made up
                    want = "folds that leave samples of every class to fit on"
                    raise expected("cv", want, f"one that leaves none of {absent[0]!r}")
            _response(self.estimator)  # refuses what has none before anything is fitted
            options = {"cv": folds, "params": fit_params, "error_score": "raise", "return_estimator": True}
            fitted = cross_validate(self.estimator, X, y, scoring=lambda *_: 0.0, **options)["estimator"]
            held_out = [held for _, held in folds]
        rows = np.concatenate(held_out)
        order = np.argsort(rows, kind="stable")
        parts = [_scores(model, _safe_indexing(X, held)) for model, held in zip(fitted, held_out, strict=True)]
        scores, floor = np.concatenate(parts)[order], None
        if not (prefit or ensemble):
            fitted = [clone(self.estimator).fit(X, y, **fit_params)]
        if _response(fitted[0]) == "predict_proba":
            scores, floor = log_probs(scores)
        classes = np.asarray(fitted[0].classes_)
        self.calibrator_ = LogitCalibrator(self.method, classes=classes).fit(scores, y[rows[order]])
        self.estimators_, self.floor_, self.classes_ = fitted, floor, classes
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(fitted[0], name):
                setattr(self, name, getattr(fitted[0], name))
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Calibrated probabilities (N, K) in float64, in the order of ``classes_``."""
        check_is_fitted(self)
        scores = (_scores(fitted, X) for fitted in self.estimators_)
        logits = scores if self.floor_ is None else (log_probs(probs, self.floor_)[0] for probs in scores)
        return np.mean([self.calibrator_.predict_proba(z) for z in logits], axis=0)

    def __sklearn_tags__(self) -> Any:
        """Input of the kinds that the classifier takes."""
        tags = super().__sklearn_tags__()
        tags.input_tags = self.estimator.__sklearn_tags__().input_tags
        return tags


def _response(estimator: Any) -> str:
    """The method that gives scores."""
    for name in ("decision_function", "predict_proba"):
        if hasattr(estimator, name):
            return name
    raise expected("estimator", "a classifier with decision_function or predict_proba", repr(estimator))


def _scores(estimator: Any, X: Any) -> np.ndarray:
    """(N, K) logits or probabilities: what the ``_response`` of a fitted classifier gives, float64."""
    scores = np.asarray(getattr(estimator, _response(estimator))(X), dtype=np.float64)
    n_classes = len(estimator.classes_)
    if scores.ndim == 1:
        scores = np.stack([-scores, scores], axis=1) / 2
    if scores.shape[1] != n_classes or (n_classes > 2 and _compares_pairs(estimator)):
        got = f"{scores.shape[1]} of them" + " of pairs of classes" * (scores.shape[1] == n_classes)
        raise expected("estimator", f"one with {n_classes} scores, one a class", got)
    return scores


def _compares_pairs(estimator: Any) -> bool:
    """Whether it ends in an SVC whose scores are of pairs of classes, of which three classes have three."""
    names = ("estimator",) if isinstance(estimator, FrozenEstimator) else ("_final_estimator", "best_estimator_")
    for name in names:
        if (inner := getattr(estimator, name, None)) is not None:
            return _compares_pairs(inner)
    return getattr(estimator, "decision_function_shape", None) == "ovo"


def _names_as(y: np.ndarray, columns: list[str]) -> np.ndarray:
    """The names of the columns as labels: numbers where the labels are."""
    if y.dtype.kind not in "iu":
        return np.array(columns, dtype=object)
    try:
        return np.array([int(name) for name in columns], dtype=y.dtype)
    except ValueError:
        cure = "names, some of which are no numbers; give the labels as text, or `classes`"
        raise expected("X", "of columns with numbers, as the labels are", cure) from None


def _classes_of(y: np.ndarray, n_columns: int) -> np.ndarray:
    """The classes of the columns, from labels that need not name all of them."""
    seen = np.unique(y)
    if len(seen) == n_columns:
        return seen
    if len(seen) < n_columns and seen.dtype.kind in "iu" and 0 <= seen[0] and seen[-1] < n_columns:
        if seen[0] > 0:
            text = "no label is 0: they are taken for numbers of columns from 0; if from 1, say so in `classes`"
            warnings.warn(text, UserWarning, stacklevel=3)
        return np.arange(n_columns)
    cure = "; name the class of each column in `classes`" if len(seen) < n_columns else ""
    raise expected("y", f"of {n_columns} classes, one a column of X", f"{len(seen)}{cure}")


def _numbers(y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """The column (N,) of each label."""
    if unknown := set(np.unique(y).tolist()) - set(classes.tolist()):
        raise expected("y", "of labels among the classes", repr(min(unknown)))
    order = np.argsort(classes)
    return order[np.searchsorted(classes, y, sorter=order)]
