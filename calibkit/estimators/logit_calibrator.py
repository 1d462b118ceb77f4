"""A calibrator as a scikit-learn classifier of logits; and what it shares with the other estimator."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from copy import deepcopy
from typing import Any, Self

import numpy as np
from torch import Tensor

from calibkit._checks import expected, to_array, to_numpy
from calibkit._extras import needs
from calibkit.calibrators import calibrator
from calibkit.fitting.base import Calibrator
from calibkit.fitting.file_header import names_of
from calibkit.fitting.sigmoid import Sigmoid
from calibkit.reading.columns import in_order, without_prefix

with needs("sklearn"):
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data


class Classifier(ClassifierMixin, BaseEstimator):
    """``predict`` from ``predict_proba``."""

    def predict(self, X: Any) -> np.ndarray:
        """The class of the largest probability: (N,)."""
        top = self.predict_proba(X).argmax(1)
        return self.classes_[top]


def as_numpy(name: str, x: Any) -> Any:
    """A tensor, or a list that may hold some, as numpy; scikit-learn checks the rest."""
    if isinstance(x, Tensor):
        return to_numpy(name, x)
    return to_array(name, x) if isinstance(x, list | tuple) else x


class LogitCalibrator(Classifier):
    """A calibrator as a scikit-learn classifier whose features are the logits.

    ``fit(X, y)`` on held-out logits (N, K), or (N, 1) of the second of two classes, and their labels, numbers or
    strings; then ``predict_proba``, ``predict`` and ``score``.

    Args:
        method: a key such as ``"ets"`` or ``"ets:focal gamma=2"``, or a calibrator, which is copied and not changed.
            Options stand in the key, so that a grid search over them is one over keys. ``"sigmoid"`` is that of
            scikit-learn: Platt scaling of each class against the others.
        classes: (K,) the class of each column. None (default): the names of the columns, without a common prefix such
            as ``logit_``, where the labels, as text, are among them; else the sorted labels where all K occur, but that
            text is refused where columns have other names; else the labels are taken to be column numbers in [0, K),
            with a warning where none is 0. Numbers in the names of columns count them.

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
        try:
            made = deepcopy(own) if isinstance(own, Calibrator) else calibrator(own)
        except ValueError as error:
            want = 'a key of CALIBRATORS with its options, "sigmoid" or a calibrator'
            raise expected("method", want, f"{self.method!r}: {error}") from error
        if not isinstance(made, Calibrator):
            raise expected("method", "a calibrator of logits", f"{self.method!r}, which is fitted on images")
        columns = [str(name) for name in getattr(X, "columns", ())]
        X, y = validate_data(self, as_numpy("X", X), as_numpy("y", y), dtype=(np.float64, np.float32))
        check_classification_targets(y)
        if self.classes is not None:
            classes = to_array("classes", self.classes, "a list or an array, a class a column")
        elif (named := _named(y, columns)) is not None:
            classes = named
        else:
            classes = _classes_of(y, max(X.shape[1], 2))
            if len(set(columns)) == len(classes):
                place = {name: k for k, name in enumerate(in_order(columns))}
                classes = classes[[place[name] for name in columns]]
        if classes.shape != (max(X.shape[1], 2),):
            raise expected("classes", f"of shape ({X.shape[1]},), one a column of X", f"shape {classes.shape}")
        kinds, texts = ({of(each) for each in classes.tolist()} for of in (type, repr))
        if len(kinds) > 1 or len(texts) < len(classes):
            raise expected("classes", "different, and of one type", ", ".join(map(str, classes)))
        self.calibrator_, self.classes_ = made.fit(X, _numbers(y, classes)), classes
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Calibrated probabilities (N, K) in float64, in the order of ``classes_``."""
        check_is_fitted(self)
        z = validate_data(self, as_numpy("X", X), dtype=(np.float64, np.float32), reset=False)
        probs = self.calibrator_(z)
        return np.hstack([1 - probs, probs]) if probs.shape[1] == 1 else probs


def _named(y: np.ndarray, columns: list[str]) -> np.ndarray | None:
    """The classes by the names of the columns, without a prefix such as ``logit_``, where these are those of labels."""
    if y.dtype.kind == "b":
        return None
    seen = np.unique(y)
    names, _ = without_prefix(columns, said := set(seen.astype(str)))
    if len(names) == 1 and len(seen) == 2 and names[0] in said:  # the column is of the second class
        return seen[::-1] if names[0] == str(seen[0]) else seen
    if names and said <= set(names):
        try:
            return np.array([int(name) for name in names], y.dtype) if y.dtype.kind in "iu" else np.array(names, object)
        except ValueError:
            cure = "names, some of which are no numbers; give the labels as text, or `classes`"
            raise expected("X", "of columns with numbers, as the labels are", cure) from None
    texts = [name for name in names_of(columns, len(columns)) if not name.isdecimal()]
    if len(columns) > 1 and texts and all(isinstance(label, str) for label in seen.tolist()):
        odd = ", ".join(sorted(set(seen) - set(columns))[:6])
        cure = "name the class of each column in `classes`"
        raise expected("y", f"among the columns {', '.join(columns[:6])}", f"{odd}; {cure}")
    return None


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
