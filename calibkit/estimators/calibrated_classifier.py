"""A scikit-learn classifier with calibrated probabilities."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from torch import Tensor

from calibkit._checks import check_flag, expected, to_array, to_tensor
from calibkit._extras import needs
from calibkit.estimators.logit_calibrator import Classifier, LogitCalibrator, as_numpy
from calibkit.fitting.base import Calibrator
from calibkit.logits import log_probs

with needs("sklearn"):
    from sklearn.base import MetaEstimatorMixin, clone
    from sklearn.frozen import FrozenEstimator
    from sklearn.model_selection import check_cv, cross_validate
    from sklearn.utils import _safe_indexing, assert_all_finite, indexable
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, column_or_1d

FOLDS = "a number of folds, a splitter of scikit-learn or pairs of row numbers"


class CalibratedClassifier(MetaEstimatorMixin, Classifier):
    r"""A classifier with calibrated probabilities, by any method of ``CALIBRATORS``.

    The logits are ``decision_function(X)``, else the logarithm of ``predict_proba(X)``. There a probability of 0, of
    which forests have many, counts as half the smallest above 0, as in ``calibkit.report``.

    A binary score s becomes :math:`(-s/2, s/2)`, whose softmax is :math:`\sigma(s)`: at T = 1 a score that is a
    log-odds, as of logistic regression or boosting, says what it said. A temperature leaves the threshold at s = 0;
    ``vector_scaling`` moves it, as Platt scaling does.

    The calibrator is fitted on scores of samples that the classifier which gave them had not seen: of each fold by a
    copy fitted on the others. Of new samples the calibrated probabilities of these copies are averaged.

    Args:
        estimator: a classifier with ``decision_function`` or ``predict_proba``.
        method: as ``LogitCalibrator`` takes it. Structured matrix scaling, the default, may change the predicted
            class; on the forests and the boosting of the tests no method of scikit-learn has a lower NLL beyond chance.
        cv: number of folds, a splitter of scikit-learn or pairs of indices; None (default): 5 stratified folds.
            ``"prefit"``: ``estimator`` is fitted already and stays as it is, and ``fit`` gets held-out samples. A
            ``FrozenEstimator`` says the same, also after ``clone``, so that it is the one for ``GridSearchCV``.
        ensemble: True (default): the copies of all folds predict, and their mean is given. False: one classifier that
            is fitted on everything predicts, which takes less memory and time, and is mostly worse.

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
        y, groups = column_or_1d(as_numpy("y", y), warn=True), as_numpy("groups", groups)
        X, y, groups = indexable(_features(X), y, groups)
        assert_all_finite(y, input_name="y")
        check_classification_targets(y)
        ensemble = check_flag("ensemble", self.ensemble)
        prefit = isinstance(self.estimator, FrozenEstimator) or (isinstance(self.cv, str) and self.cv == "prefit")
        if prefit:
            check_is_fitted(self.estimator)
            if unused := [*fit_params] if groups is None else ["groups"]:
                want = "None where nothing is split or fitted"
                raise expected(unused[0], want, f"{unused[0]} beside a fitted classifier")
            fitted, held_out = [self.estimator], [np.arange(len(y))]
        else:
            folds = _folds(self.cv, X, y, groups)
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
        X = _features(X)
        scores = (_scores(fitted, X) for fitted in self.estimators_)
        logits = scores if self.floor_ is None else (log_probs(probs, self.floor_)[0] for probs in scores)
        return np.mean([self.calibrator_.predict_proba(z) for z in logits], axis=0)

    def __sklearn_tags__(self) -> Any:
        """Input of the kinds that the classifier takes."""
        tags = super().__sklearn_tags__()
        tags.input_tags = self.estimator.__sklearn_tags__().input_tags
        return tags


def _features(X: Any) -> Any:
    """A tensor without what no classifier can use; all else is for the classifier to check."""
    return to_tensor("X", X) if isinstance(X, Tensor) else X


def _folds(cv: Any, X: Any, y: np.ndarray, groups: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    """Of each fold the rows to fit on, which hold every class, and the rows held out."""
    classes, counts = np.unique(y, return_counts=True)
    if len(classes) < 2:
        raise expected("y", "of at least 2 classes", "1 class" if len(classes) else "none")
    if hasattr(cv, "split") and not hasattr(cv, "get_n_splits"):  # text, a tensor
        raise expected("cv", FOLDS, repr(cv))
    if np.iterable(cv) and not hasattr(cv, "split"):
        cv = [_rows(fold, len(y)) for fold in cv]
    splitter = check_cv(cv, y, classifier=True)
    one_each = not (np.iterable(cv) or hasattr(cv, "split"))
    if one_each and counts.min() < (n_folds := splitter.get_n_splits(X, y, groups)):
        got = f"{counts.min()} of {str(classes[counts.argmin()])!r}"
        raise expected("y", f"of {n_folds} samples a class or more, one a fold", got)
    found = [_rows(fold, len(y)) for fold in splitter.split(X, y, groups)]
    if not found:
        raise expected("cv", "of one fold or more", repr(cv))
    for rest, _ in found:
        if len(absent := np.setdiff1d(classes, y[rest])):  # their scores would be made up
            want = "folds that leave samples of every class to fit on"
            raise expected("cv", want, f"one that leaves none of {absent[0]!r}")
    return found


def _rows(fold: Any, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """A pair of indices or masks as row numbers."""
    try:
        rest, held = (np.arange(n_rows)[to_array("cv", part)] for part in fold)
    except (TypeError, ValueError, IndexError) as error:
        raise expected("cv", FOLDS, f"a fold of {fold!r:.60}") from error
    if not rest.ndim == held.ndim == 1 or not len(held):
        raise expected("cv", FOLDS, f"a fold of {fold!r:.60}")
    return rest, held


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
