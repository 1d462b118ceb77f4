"""The temperature of lowest ECE on a grid, against a look at all of it; and the bins of that ECE, an option where the
objective is a name, the objective's own where it is an object."""

import numpy as np
import pytest
import torch
from drawn_logits import true_logits
from refusals import refused

from calibkit import ClassTemperatureScaling, TemperatureScaling, calibrator
from calibkit.fitting.grid import TEMPERATURES, check_grid, grid_temperatures, lowest_ece
from calibkit.metrics import ece
from calibkit.objectives import ECE, Focal


@pytest.mark.filterwarnings("ignore:the ECE is lowest at T = 10, the end of the grid")
@pytest.mark.parametrize(("scale", "n", "n_bins"), [(0.05, 300, 15), (1.0, 7, 10), (3.0, 300, 10), (60.0, 7, 15)])
def test_no_temperature_of_the_grid_is_better(n, scale, n_bins):
    g = torch.Generator().manual_seed(n)
    z = torch.randn(n, 4, generator=g, dtype=torch.float64)
    y = torch.multinomial((2 * z).softmax(1), 1, generator=g)[:, 0]
    known = np.array([ece((scale * z / t).softmax(1), y, n_bins=n_bins) for t in TEMPERATURES])
    found = TemperatureScaling("ece", n_bins=n_bins).fit(scale * z, y).temperature
    assert known[TEMPERATURES.index(found)] == pytest.approx(known.min(), abs=1e-14)


def test_the_smallest_of_a_tie_and_a_grid_of_one():
    z, y = torch.tensor([[900.0, 0.0], [0.0, 900.0]]), torch.tensor([0, 1])  # confidence 1 at every temperature
    assert lowest_ece(z, y, TEMPERATURES, 15) == 0.1
    assert lowest_ece(z, y, (2.0,), 15) == 2.0


def test_the_end_of_the_grid_is_told():
    """Logits 50 times too large; a longer grid, and one of a single temperature, leave nothing to tell."""
    z, y = true_logits(60, 3)
    for fitted in (TemperatureScaling("ece"), ClassTemperatureScaling()):
        with pytest.warns(RuntimeWarning, match="^the ECE is lowest at T = 10, the end of the grid"):
            fitted.fit(50 * z, y)
    assert 10 < TemperatureScaling("ece", grid=np.arange(1, 200)).fit(50 * z, y).temperature < 199
    assert TemperatureScaling("ece", grid=[10.0]).fit(50 * z, y).temperature == 10


def test_a_step_is_its_multiples():
    assert grid_temperatures(None) == grid_temperatures(0.1) == TEMPERATURES == tuple(k / 10 for k in range(1, 101))
    assert grid_temperatures(check_grid(4)) == (4.0, 8.0)
    fine = grid_temperatures(0.001)
    assert len(fine) == 10_000 and fine[0] == 0.001 and fine[999] == 1.0 and fine[-1] == 10.0


def test_a_step_is_shown_as_it_was_given():
    assert repr(TemperatureScaling("ece", grid=0.01)) == "TemperatureScaling(objective='ece', grid=0.01)"


# --------------------------------------------------------------------------------------------- the bins of the ECE
WITH_BINS = [TemperatureScaling, ClassTemperatureScaling]


@pytest.mark.parametrize("cls", WITH_BINS)
def test_bins_beside_an_objective_object_are_refused(cls):
    for objective in (ECE(10), ECE(25), Focal(gamma=1.0)):
        refused("`n_bins` to be left out beside an objective object, .* got 25", cls, objective, n_bins=25)
        refused("`n_bins` to be an integer >= 1, but got 0", cls, objective, n_bins=0)


@pytest.mark.parametrize("cls", WITH_BINS)
def test_an_object_of_other_bins_is_the_name_with_these_bins(cls):
    z, y = true_logits(300, 3, 1.5)
    z = 2 * z
    one, other = cls(ECE(7)).fit(z, y), cls("ece", n_bins=7).fit(z, y)
    np.testing.assert_array_equal(one(z), other(z))
    assert "n_bins=15" not in repr(one) and "ECE(n_bins=7)" in repr(one)


def test_a_key_gives_bins_once():
    assert calibrator("temperature_scaling:ece n_bins=7").objective == ECE(7)
    assert calibrator("temperature_scaling n_bins=7:ece").n_bins == 7
    refused("`n_bins` to be left out", calibrator, "temperature_scaling n_bins=25:ece n_bins=10")
