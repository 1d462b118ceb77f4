"""What comes in at the estimators: tensors of every kind, folds, groups, and which class each column is."""

import numpy as np
import pandas as pd
import pytest
import torch
from drawn_logits import logits
from refusals import refused
from scipy.special import softmax
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, KFold, LeaveOneGroupOut, RepeatedStratifiedKFold, cross_val_predict

from calibkit.calibrators import TemperatureScaling
from calibkit.estimators import CalibratedClassifier, LogitCalibrator
from calibkit.metrics import accuracy


@pytest.fixture(scope="module")
def data():
    return make_classification(120, 6, n_informative=4, n_classes=3, flip_y=0.3, random_state=0)


def negated(x):
    """A tensor with its sign in a bit, as that of a conjugate's imaginary part."""
    return torch.complex(torch.zeros(x.shape, dtype=torch.float64), -torch.tensor(x)).conj().imag


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
        refused(f"`{name}` to be .* but got one .*{got}", call)


def test_a_list_of_tensors_that_numpy_refuses(data):
    X, y = data
    labels = [torch.tensor(label, device="meta") for label in y]
    for estimator, x in ((CalibratedClassifier(LogisticRegression()), X), (LogitCalibrator(), X[:, :3])):
        refused("`y` to be a numpy array, a torch tensor or nested numbers", estimator.fit, x, labels)


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


@pytest.mark.parametrize("prefix", ["", "logit_", "logits_", "p_"])
def test_columns_called_as_the_classes_are_those_classes(prefix):
    z, y = logits()
    names, some = np.array(["dog", "cat", "fox", "ape"]), y != 3  # not by the alphabet, and not all of them
    fitted = LogitCalibrator().fit(pd.DataFrame(z[some], columns=[prefix + name for name in names]), names[y[some]])
    assert fitted.classes_.tolist() == names.tolist()
    assert fitted.calibrator_.temperature == TemperatureScaling().fit(z[some], y[some]).temperature


def test_text_that_is_no_name_of_a_column_needs_classes():
    z, y = logits()
    names, columns = np.array(["dog", "cat", "fox", "ape"]), ["a", "b", "c", "d"]
    X = pd.DataFrame(z, columns=columns)
    refused("`y` to be among the columns a, b, c, d, but got ape, .*`classes`", LogitCalibrator().fit, X, names[y])
    assert LogitCalibrator(classes=names).fit(X, names[y]).classes_.tolist() == names.tolist()
    for numbered in (X.set_axis(range(4), axis=1), X.set_axis(list("0123"), axis=1)):  # these name none
        assert LogitCalibrator().fit(numbered, names[y]).classes_.tolist() == sorted(names)
    one = pd.DataFrame({"score": z[:, 1] - z[:, 0]})
    assert LogitCalibrator().fit(one, np.where(y == 1, "yes", "no")).classes_.tolist() == ["no", "yes"]


@pytest.fixture(scope="module")
def grouped():
    X, y = make_classification(300, 6, n_informative=4, n_classes=3, random_state=0)
    return X, y, np.random.default_rng(0).integers(0, 9, 300)


@pytest.mark.parametrize("cv", [GroupKFold(3), LeaveOneGroupOut()])
def test_groups_are_kept_together(grouped, cv):
    """The temperature is that of out-of-fold scores by hand."""
    X, y, groups = grouped
    model = LogisticRegression(C=1e4)
    found = CalibratedClassifier(model, "temperature_scaling", cv=cv).fit(X, y, groups=groups)
    scores = cross_val_predict(model, X, y, groups=groups, cv=cv, method="decision_function")
    assert found.calibrator_.calibrator_.temperature == TemperatureScaling().fit(scores, y).temperature
    split = list(cv.split(X, y, groups))
    np.testing.assert_array_equal(
        found.predict_proba(X), CalibratedClassifier(model, "temperature_scaling", cv=split).fit(X, y).predict_proba(X)
    )
    assert all(not set(groups[rest]) & set(groups[out]) for rest, out in split)


def test_groups_are_no_parameter_of_the_classifier(grouped):
    """Weights of rows still reach it, cut to a fold, beside the groups; here by a name of their own."""

    class Seen(LogisticRegression):
        def fit(self, X, y, marks=None):
            assert marks is not None and np.array_equal(marks, X[:, 0])
            return super().fit(X, y)

    X, y, groups = grouped
    found = CalibratedClassifier(Seen(), cv=GroupKFold(3)).fit(X, y, groups=groups, marks=X[:, 0])
    plain = CalibratedClassifier(LogisticRegression(), cv=GroupKFold(3)).fit(X, y, groups=groups)
    np.testing.assert_array_equal(found.predict_proba(X), plain.predict_proba(X))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        CalibratedClassifier(LogisticRegression(), cv=GroupKFold(3)).fit(X, y, groups=groups[1:])
    with pytest.raises(ValueError, match="Expected `groups` to be None where nothing is split"):
        CalibratedClassifier(LogisticRegression().fit(X, y), cv="prefit").fit(X, y, groups=groups)


def test_nothing_is_given_to_a_classifier_that_is_not_fitted(grouped):
    X, y, _ = grouped
    with pytest.raises(ValueError, match="Expected `marks` to be None where nothing is split or fitted"):
        CalibratedClassifier(LogisticRegression().fit(X, y), cv="prefit").fit(X, y, marks=3)


def test_more_folds_than_samples_of_a_class_where_they_are_repeated():
    X, y = np.random.default_rng(0).normal(size=(60, 2)), np.repeat([0, 1], [42, 18])
    folds = RepeatedStratifiedKFold(n_splits=3, n_repeats=10, random_state=0)
    assert len(CalibratedClassifier(LogisticRegression(), cv=folds).fit(X, y).estimators_) == 30


def test_one_column_that_is_called_as_a_class_is_of_it():
    z = np.random.default_rng(0).normal(size=(200, 1)) * 3
    y = np.where(z[:, 0] > 0, "cat", "dog")
    for name, sign in (("logit_cat", 1), ("logit_dog", -1)):
        frame = pd.DataFrame({name: sign * z[:, 0]})
        with pytest.warns(RuntimeWarning):  # separable
            fitted = LogitCalibrator().fit(frame, y)
        assert fitted.classes_[1] == name[6:] and (fitted.predict(frame) == y).all()


@pytest.mark.parametrize(("columns", "sign"), [(["False", "True"], 1), (["True", "False"], -1), (["pos", "neg"], -1)])
def test_columns_called_false_and_true_beside_labels_that_are(columns, sign):
    z = np.random.default_rng(0).normal(size=(200, 2))
    y = z[:, 1] + np.random.default_rng(1).logistic(size=200) > z[:, 0]
    fitted = LogitCalibrator().fit(pd.DataFrame(z[:, ::sign], columns=columns), y)
    assert fitted.classes_.tolist() == [False, True][::sign]


def test_columns_are_counted_by_their_numbers():
    """Sorted as text, class_10 stands before class_2; arrays have no names, so functions of arrays refuse the table."""
    y = np.random.default_rng(0).integers(0, 11, 300)
    z = np.random.default_rng(1).normal(size=(300, 11)) + 3 * np.eye(11)[y]
    frame = pd.DataFrame(z, columns=[f"class_{k}" for k in range(11)])
    mixed = frame[sorted(frame.columns)]
    fitted = LogitCalibrator().fit(mixed, y)
    assert (fitted.classes_ == [0, 1, 10, *range(2, 10)]).all()
    assert fitted.score(mixed, y) == LogitCalibrator().fit(frame, y).score(frame, y) == accuracy(softmax(z, 1), y)
    for taking in (TemperatureScaling().fit, lambda z, y: accuracy(z.apply(softmax, 1, raw=True), y)):
        refused(".*columns class_0, class_1, class_2, .*, but got .* class_10, .*to_numpy", taking, mixed, y)
