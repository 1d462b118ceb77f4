"""The temperature of lowest ECE on a grid, against a look at all of it."""

import numpy as np
import pytest
import torch

from calibkit import ClassTemperatureScaling, TemperatureScaling
from calibkit.fitting.grid import TEMPERATURES, check_grid, grid_temperatures, lowest_ece
from calibkit.metrics import ece


@pytest.mark.parametrize(("scale", "n"), [(0.05, 300), (1.0, 7), (3.0, 300), (60.0, 7)])
def test_no_temperature_of_the_grid_is_better(n, scale):
    g = torch.Generator().manual_seed(n)
    z = torch.randn(n, 4, generator=g, dtype=torch.float64)
    y = torch.multinomial((2 * z).softmax(1), 1, generator=g)[:, 0]
    known = np.array([ece((scale * z / t).softmax(1), y) for t in TEMPERATURES])
    found = lowest_ece(scale * z, y, TEMPERATURES, 15)
    assert known[TEMPERATURES.index(found)] == pytest.approx(known.min(), abs=1e-14)


def test_the_smallest_of_a_tie_and_a_grid_of_one():
    z, y = torch.tensor([[900.0, 0.0], [0.0, 900.0]]), torch.tensor([0, 1])  # confidence 1 at every temperature
    assert lowest_ece(z, y, TEMPERATURES, 15) == 0.1
    assert lowest_ece(z, y, (2.0,), 15) == 2.0


def test_the_end_of_the_grid_is_told():
    """Logits 50 times too large; a longer grid, and one of a single temperature, leave nothing to tell."""
    rng = np.random.default_rng(0)
    z = 2 * rng.normal(size=(60, 3))
    y = (z + rng.gumbel(size=z.shape)).argmax(1)
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
