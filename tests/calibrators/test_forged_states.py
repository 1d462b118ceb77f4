"""States of the right shape whose numbers no fit gives, and numbers of other types."""

import numpy as np
import pytest

from calibkit.calibrators import CALIBRATORS, ETS, Calibrator

NAMES = [name for name, cls in CALIBRATORS.items() if issubclass(cls, Calibrator)]


@pytest.fixture(scope="module")
def sample():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 90)
    return rng.normal(size=(90, 3)) + 2 * np.eye(3)[labels], labels


@pytest.mark.parametrize(
    ("name", "entry", "value", "message"),
    [
        ("ets", "weights", [0.0, 0.0, 0.0], "of sum 1, but got 0"),
        ("ets", "weights", [0.5, 0.5, 1.0], "of sum 1, but got 2"),
        ("ets", "weights", [1.5, -0.5, 0.0], r"in \[0, 1\], but got -0.5 to 1.5"),
        ("ets", "weights", [1e308, 1e308, 1e308], r"in \[0, 1\], but got 1e\+308 to 1e\+308"),
        ("ets", "temperature", 1e-320, "at least 2.2e-308, but got 1e-320"),
        ("temperature_scaling", "temperature", 1e-320, "at least 2.2e-308, but got 1e-320"),
        ("class_temperature_scaling", "temperatures", [1.0, 1e-320, 1.0], "at least 2.2e-308, but got 1e-320"),
        ("histogram_binning", "frequencies", np.full((3, 15), -1.0), r"in \[0, 1\], but got -1 to -1"),
        ("isotonic", "values", None, r"in \[0, 1\], but got -?[0-9.]+ to [0-9.]+"),
        ("temperature_scaling", "temperature", np.longdouble("1e4000"), "finite, but got NaN or infinity"),
    ],
)
def test_numbers_that_no_fit_gives(name, entry, value, message, sample):
    fitted = CALIBRATORS[name]().fit(*sample)
    state, probs = fitted.state_dict(), fitted(sample[0])
    value = 1.5 - 3 * state[entry] if value is None else np.array(value)
    with pytest.raises(ValueError, match=f"^Expected `{entry}` to be {message}"):
        fitted.load_state_dict({**state, entry: value})
    np.testing.assert_array_equal(fitted(sample[0]), probs)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [np.longdouble, ">f8"])
def test_floats_of_other_types_are_taken(name, dtype, sample):
    fitted = CALIBRATORS[name]().fit(*sample)
    state = {k: v.astype(dtype) if v.dtype.kind == "f" else v for k, v in fitted.state_dict().items()}
    again = CALIBRATORS[name]().load_state_dict(state)
    np.testing.assert_array_equal(again(sample[0]), fitted(sample[0]))
    for entry, value in again.state_dict().items():
        assert value.dtype == fitted.state_dict()[entry].dtype and value.dtype.isnative


def test_weights_of_a_replay_are_of_any_sign(sample):
    fitted = ETS(solver="sctl").fit(*sample)
    state = fitted.state_dict() | {"weights": np.array([1.5, -0.75, 3.0])}
    np.testing.assert_allclose(fitted.load_state_dict(state)(sample[0]).sum(1), 1.0)
