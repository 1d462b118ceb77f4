"""Which class a column is, by its name."""

import numpy as np
import pandas as pd
import pytest

from calibkit.estimators import LogitCalibrator


@pytest.mark.parametrize("columns", ["numbers", "text"])
def test_columns_called_as_numbers_are_those_classes(columns):
    """In a table that a file was read into, names are text and labels are numbers."""
    rng = np.random.default_rng(0)
    names, z = np.array([30, 10, 20]), 3 * rng.normal(size=(300, 3))
    y = names[(z + rng.gumbel(size=z.shape)).argmax(1)]
    X = pd.DataFrame(z, columns=names if columns == "numbers" else names.astype(str))
    found = LogitCalibrator().fit(X, y)
    np.testing.assert_array_equal(found.classes_, names)
    np.testing.assert_array_equal(found.predict(X), names[z.argmax(1)])


def test_numbers_among_columns_of_names_are_refused():
    X = pd.DataFrame(np.eye(3), columns=["1", "2", "background"])
    with pytest.raises(ValueError, match="Expected `X` to be of columns with numbers, as the labels are"):
        LogitCalibrator().fit(X, [1, 2, 1])
