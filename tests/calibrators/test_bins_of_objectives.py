"""The bins of the ECE: an option where the objective is a name, the objective's own where it is an object."""

import numpy as np
import pytest

from calibkit.calibrators import ClassTemperatureScaling, TemperatureScaling, calibrator
from calibkit.objectives import ECE, Focal

WITH_BINS = [TemperatureScaling, ClassTemperatureScaling]


@pytest.mark.parametrize("cls", WITH_BINS)
def test_bins_beside_an_objective_object_are_refused(cls):
    for objective in (ECE(10), ECE(25), Focal(gamma=1.0)):
        with pytest.raises(ValueError, match="Expected `n_bins` to be left out beside an objective object, .* got 25"):
            cls(objective, n_bins=25)
        with pytest.raises(ValueError, match="Expected `n_bins` to be an integer >= 1, but got 0"):
            cls(objective, n_bins=0)


@pytest.mark.parametrize("cls", WITH_BINS)
def test_an_object_of_other_bins_is_the_name_with_these_bins(cls):
    rng = np.random.default_rng(0)
    z = 3 * rng.normal(size=(300, 3))
    y = (z / 2 + rng.gumbel(size=z.shape)).argmax(1)
    one, other = cls(ECE(7)).fit(z, y), cls("ece", n_bins=7).fit(z, y)
    np.testing.assert_array_equal(one(z), other(z))
    assert "n_bins=15" not in repr(one) and "ECE(n_bins=7)" in repr(one)


def test_a_key_gives_bins_once():
    assert calibrator("temperature_scaling:ece n_bins=7").objective == ECE(7)
    assert calibrator("temperature_scaling n_bins=7:ece").n_bins == 7
    with pytest.raises(ValueError, match="Expected `n_bins` to be left out"):
        calibrator("temperature_scaling n_bins=25:ece n_bins=10")
