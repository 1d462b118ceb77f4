import numpy as np
import pytest
import torch

from calibkit import TemperatureScaling, calibrator, load_calibrator
from calibkit.objectives import NLL, Focal, losses

Z = torch.tensor([[8.0, 1, -3, 0], [2, 5, 4.5, -6], [0, 0.5, 0.2, 12]], dtype=torch.float64)
Y = torch.tensor([0, 2, 3])


@pytest.mark.parametrize("detach", [False, True])
def test_value_as_printed_by_the_authors_code(detach):
    assert Focal(3.0, detach=detach).value(Z, Y) == pytest.approx(0.085262, abs=5e-7)  # focal_calibration, 475422a


def test_gamma_zero_is_the_nll():
    assert Focal(0.0).value(Z, Y) == pytest.approx(NLL().value(Z, Y), rel=1e-14)


def test_detached_the_factor_is_a_weight():
    ce = losses(Z, Y)
    phi, slope, curvature = Focal(3.0, detach=True).transform(ce)
    torch.testing.assert_close(phi, ce)
    assert (slope == 1).all() and (curvature == 0).all()
    torch.testing.assert_close(Focal(3.0, detach=True).weights(ce, Y, 4), (1 - torch.exp(-ce)) ** 3 / 3)
    assert Focal(detach=True).adaptive and not Focal().adaptive


@pytest.mark.parametrize("gamma", [-1.0, float("nan"), "3"])
def test_bad_gamma(gamma):
    with pytest.raises(ValueError, match="Expected `gamma` to be a number in"):
        Focal(gamma)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # there is no minimum
@pytest.mark.parametrize("key", ["matrix_scaling", "vector_scaling", "ets"])
def test_detached_where_no_sample_has_a_loss(key):
    """All weights become 0, and what has no loss may stay as it is."""
    z = np.random.default_rng(0).normal(size=(40, 3))
    probs = calibrator(f"{key}:focal detach=True").fit(z, np.zeros(40, int))(z)
    assert np.isfinite(probs).all()


def test_a_flag_of_numpy_is_saved(tmp_path):
    z, y = np.array([[2.0, 0.0]] * 4), np.array([0, 0, 0, 1])
    path = TemperatureScaling(Focal(detach=np.True_)).fit(z, y).save(tmp_path / "ts.npz")
    assert load_calibrator(path).objective == Focal(detach=True)
