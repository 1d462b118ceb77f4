"""What both estimators share: a prediction from probabilities, and tensors at the border."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from calibkit._checks import like, to_array, to_tensor
from calibkit._extras import needs

with needs("sklearn"):
    from sklearn.base import BaseEstimator, ClassifierMixin


class Classifier(ClassifierMixin, BaseEstimator):
    """``predict`` from ``predict_proba``."""

    def predict(self, X: Any) -> np.ndarray:
        """The class of the largest probability: (N,)."""
        top = self.predict_proba(X).argmax(1)
        return self.classes_[top]


def as_numpy(name: str, x: Any) -> Any:
    """A tensor, or a list that may hold some, as numpy; scikit-learn checks the rest."""
    if isinstance(x, Tensor):
        z = to_tensor(name, x)
        return like(z.float() if z.is_floating_point() and z.itemsize < 4 else z, None)
    return to_array(name, x) if isinstance(x, list | tuple) else x
