"""What a fit is compared with before it is taken, by hand on one temperature."""

import pytest
import torch
import torch.nn.functional as F

from calibkit.fitting.smooth import is_no_worse
from calibkit.fitting.temperature import fit_temperature
from calibkit.objectives import NLL, ClassLossScaling, Focal, LabelSmoothing


@pytest.fixture
def sample(overconfident):
    return tuple(x[:300] for x in overconfident)


def kept(objective, sample, x, start):
    """Which of the two temperatures is kept, "x" or "start"."""
    x, start = (torch.tensor(t, dtype=torch.float64) for t in (x, start))
    return "x" if is_no_worse(objective, *sample, x, start, lambda t, z: z / t) else "start"


@pytest.mark.parametrize("objective", [NLL(), Focal(1.0), LabelSmoothing(0.1)], ids=str)
def test_the_one_of_lower_value_is_kept(objective, sample):
    z, y = sample
    best = fit_temperature(objective, z, y)
    assert kept(objective, sample, best, 1.5 * best) == "x"
    assert kept(objective, sample, 1.5 * best, best) == "start"
    assert kept(objective, sample, best, best) == "x"


def test_an_adaptive_objective_is_compared_under_the_weights_of_the_fit(sample):
    z, y = sample
    z = z * torch.tensor([1.0, 0.3, 2.0, 1.0, 0.5])
    objective = ClassLossScaling(alpha=0.1, beta=2.0)

    def total(t, weights_of):
        ce, own = (F.cross_entropy(z / u, y, reduction="none") for u in (t, weights_of))
        return float(objective.weights(own, y, 5) @ ce)

    for x in (0.6, 0.9, 1.2, 2.0, 4.0, 20.0):
        for start in (0.7, 1.5, 3.0, 10.0):
            better = total(x, x) <= min(total(start, x), total(1.0, x))
            assert kept(objective, (z, y), x, start) == ("x" if better else "start")


def test_an_adaptive_objective_is_compared_with_the_network_as_it_is_too(sample):
    """Both temperatures are too high, the second the more so: the fit beats the start, but not T = 1."""
    z, y = sample[0] / 3, sample[1]
    assert kept(ClassLossScaling(), (z, y), 3.0, 9.0) == "start"
    assert kept(NLL(), (z, y), 3.0, 9.0) == "x"
