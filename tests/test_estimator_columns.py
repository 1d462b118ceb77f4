"""LogitCalibrator on tables: which class each column is."""

import numpy as np
import pandas as pd
import pytest

from calibkit.estimators import LogitCalibrator


def logits(n: int = 300, n_classes: int = 4) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    true = rng.normal(scale=1.5, size=(n, n_classes))
    return 2.5 * true, (true + rng.gumbel(size=true.shape)).argmax(1)


@pytest.mark.parametrize("prefix", ["logit_", "logits_", "p_"])
def test_columns_called_as_the_package_calls_them(prefix):
    z, y = logits()
    names = np.array(["dog", "cat", "fox", "ape"])
    X = pd.DataFrame(z, columns=[prefix + name for name in names])
    assert LogitCalibrator().fit(X, names[y]).classes_.tolist() == names.tolist()


def test_text_that_is_no_name_of_a_column_needs_classes():
    z, y = logits()
    names, columns = np.array(["dog", "cat", "fox", "ape"]), ["a", "b", "c", "d"]
    X = pd.DataFrame(z, columns=columns)
    with pytest.raises(ValueError, match="Expected `y` to be among the columns a, b, c, d, but got ape, .*`classes`"):
        LogitCalibrator().fit(X, names[y])
    assert LogitCalibrator(classes=names).fit(X, names[y]).classes_.tolist() == names.tolist()
    for numbered in (X.set_axis(range(4), axis=1), X.set_axis(list("0123"), axis=1)):  # these name none
        assert LogitCalibrator().fit(numbered, names[y]).classes_.tolist() == sorted(names)
    one = pd.DataFrame({"score": z[:, 1] - z[:, 0]})
    assert LogitCalibrator().fit(one, np.where(y == 1, "yes", "no")).classes_.tolist() == ["no", "yes"]
