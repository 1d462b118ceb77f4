"""What comes in at the estimators: tensors of every kind, and folds that are none."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold

from calibkit.estimators import CalibratedClassifier, LogitCalibrator


@pytest.fixture(scope="module")
def data():
    return make_classification(120, 6, n_informative=4, n_classes=3, flip_y=0.3, random_state=0)


def negated(x):
    """A tensor with its sign in a bit, as that of a conjugate's imaginary part."""
    return torch.complex(torch.zeros(x.shape, dtype=torch.float64), -torch.tensor(x)).conj().imag


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
def test_a_tensor_is_what_it_holds(data):
    X, y = data
    want = CalibratedClassifier(LogisticRegression(), "ets").fit(X, y).predict_proba(X)
    weight = torch.tensor(X, requires_grad=True)
    for x, labels in ((weight, torch.tensor(y)), (negated(X), torch.tensor(y * 1.0, requires_grad=True))):
        found = CalibratedClassifier(LogisticRegression(), "ets").fit(x, labels)
        np.testing.assert_array_equal(found.predict_proba(x), want)
    z = X[:, :3] + np.eye(3)[y]
    want = LogitCalibrator().fit(z, y).predict_proba(z)
    for x in (torch.tensor(z, requires_grad=True), negated(z)):
        np.testing.assert_array_equal(LogitCalibrator().fit(x, torch.tensor(y)).predict_proba(x), want)
    half = torch.tensor(z).bfloat16()
    found = LogitCalibrator().fit(half, torch.tensor(y).bfloat16())
    whole = LogitCalibrator().fit(half.float(), y).predict_proba(half.float())
    np.testing.assert_array_equal(found.predict_proba(half), whole)
    few = torch.quantize_per_tensor(torch.tensor(z).float(), 0.1, 0, torch.qint8)
    whole = LogitCalibrator().fit(few.dequantize(), y).predict_proba(few.dequantize())
    np.testing.assert_array_equal(LogitCalibrator().fit(few, y).predict_proba(few), whole)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize(
    ("bad", "got"),
    [
        (lambda of: torch.tensor(of).to_sparse(), "of layout torch.sparse_coo"),
        (lambda of: torch.nested.nested_tensor([torch.tensor(of)]), "that is nested"),
        (lambda of: torch.tensor(of, device="meta"), "on the device meta"),
    ],
    ids=["sparse", "nested", "meta"],
)
def test_a_tensor_that_is_not_dense(data, bad, got):
    X, y = data
    z = X[:, :3] + np.eye(3)[y]
    whole, of_logits = CalibratedClassifier(LogisticRegression(), "ets").fit(X, y), LogitCalibrator().fit(z, y)
    for name, call in (
        ("X", lambda: whole.fit(bad(X), y)),
        ("y", lambda: whole.fit(X, bad(y))),
        ("groups", lambda: whole.fit(X, y, groups=bad(y))),
        ("X", lambda: whole.predict_proba(bad(X))),
        ("X", lambda: of_logits.fit(bad(z), y)),
        ("y", lambda: of_logits.fit(z, bad(y))),
        ("X", lambda: of_logits.predict_proba(bad(z))),
    ):
        with pytest.raises(ValueError, match=f"^Expected `{name}` to be .* but got one .*{got}"):
            call()


def test_a_list_of_tensors_that_numpy_refuses(data):
    X, y = data
    labels = [torch.tensor(label, device="meta") for label in y]
    for estimator, x in ((CalibratedClassifier(LogisticRegression()), X), (LogitCalibrator(), X[:, :3])):
        with pytest.raises(ValueError, match="^Expected `y` to be a numpy array, a torch tensor or nested numbers"):
            estimator.fit(x, labels)


def test_masks_are_rows(data):
    X, y = data
    pairs = list(KFold(3, shuffle=True, random_state=0).split(X))
    masks = [tuple(np.isin(np.arange(len(y)), part) for part in pair) for pair in pairs]
    want, found = (CalibratedClassifier(LogisticRegression(), "ets", cv=cv).fit(X, y) for cv in (pairs, masks))
    np.testing.assert_array_equal(found.predict_proba(X), want.predict_proba(X))


@pytest.mark.parametrize(
    "cv",
    [
        *("text", b"text", bytearray(b"text"), torch.tensor(3), torch.ones(2), [3], [None], [(1, 2, 3)]),
        *([(range(60), odd)] for odd in ("text", 3, [], [0.5], [10**6])),
        [(range(100), range(100, 121))],
    ],
    ids=lambda cv: f"{cv}"[:30],
)
def test_what_is_no_fold(data, cv):
    with pytest.raises(ValueError, match="^Expected `cv` to be a number of folds, a splitter of scikit-learn or pairs"):
        CalibratedClassifier(LogisticRegression(), cv=cv).fit(*data)


@pytest.mark.parametrize("one", [None, {}, object(), pd.NA, 1.0, "a"], ids=lambda one: type(one).__name__)
def test_what_are_no_classes(data, one):
    with pytest.raises(ValueError, match="^Expected `classes` to be different, and of one type, but got "):
        LogitCalibrator(classes=[one] * 3).fit(data[0][:, :3], data[1])
