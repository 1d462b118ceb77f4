"""States and files: what no fit gives is not taken, and a file is read by the class that wrote it."""

import json
import runpy

import numpy as np
import pandas as pd
import pytest
from refusals import refused

from calibkit import ETS, NeuralClamping, TemperatureScaling, VectorScaling, load_calibrator
from calibkit._files import write_npz
from calibkit.calibrators import CALIBRATORS, Calibrator
from calibkit.objectives import Focal

NAMES = [name for name, cls in CALIBRATORS.items() if issubclass(cls, Calibrator)]

#: Those that say which shapes a state has.
SHAPED = [name for name in NAMES if CALIBRATORS[name]()._shapes(3)]
assert len(SHAPED) >= 13


@pytest.fixture(scope="module")
def sample():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 90)
    return rng.normal(size=(90, 3)) + 2 * np.eye(3)[labels], labels


@pytest.mark.parametrize("name", NAMES)
def test_what_no_fit_gives_is_refused_in_a_state_and_in_a_file(name, sample, tmp_path):
    """Values; an axis more, an axis less, a row more, no row; two that belong together; one class more in all."""
    calibrator = CALIBRATORS[name]().fit(*sample)
    state, shaped = calibrator.state_dict(), calibrator._shapes(3)
    bad = [("n_classes", np.asarray(value), "an integer >= 2, but got") for value in (1, 3.5, [3, 3])]
    for entry, value in state.items():
        reported = entry == "n_classes" or entry in calibrator.reported
        if entry.startswith("temperature"):
            bad += [(entry, np.full_like(value, x), "positive, but got") for x in (0.0, -1.0)]
            bad += [(entry, np.full_like(value, 1e-320), "at least 2.2e-308, but got")]
        if not reported and value.size:
            bad += [(entry, np.full_like(value, x, float), "finite, but got") for x in (np.nan, np.inf)]
        if value.ndim and value.size:
            spoilt = value.astype(float).copy()
            spoilt.flat[-1] = np.nan
            bad += [(entry, spoilt, "finite, but got"), (entry, value.astype(str), "numbers, but got")]
        if shaped and not reported:
            assert entry in shaped
            odd = [value[None]] + ([value[0], value[:0]] if value.ndim else [])
            odd += [np.concatenate([value, value[-1:]])] if value.ndim and entry != "scores" else []
            bad += [(entry, of_shape, "of shape .*, but got shape") for of_shape in odd]
    header = np.load(calibrator.save(tmp_path / "good.npz"))["header"]
    for entry, value, want in bad:
        refused(f"`{entry}` to be {want}", calibrator.load_state_dict, {**state, entry: value})
        np.testing.assert_equal(calibrator.state_dict(), state)
        write_npz(tmp_path / "bad.npz", {**state, entry: value, "header": header})
        refused(f".*but got '.*bad.npz': Expected `{entry}` to be {want}", load_calibrator, tmp_path / "bad.npz")
    if name != "ets" and any(3 in state[entry].shape for entry in shaped):  # whose three weights are of no class
        refused(".*to be of shape \\(4", calibrator.load_state_dict, {**state, "n_classes": np.asarray(4)})


@pytest.mark.parametrize(
    ("name", "entry", "value", "message"),
    [
        ("ets", "weights", [0.0, 0.0, 0.0], "of sum 1, but got 0"),
        ("ets", "weights", [1.5, -0.5, 0.0], r"in \[0, 1\], but got -0.5 to 1.5"),
        ("ets", "weights", [1e308, 1e308, 1e308], r"in \[0, 1\], but got 1e\+308 to 1e\+308"),
        ("histogram_binning", "frequencies", np.full((3, 15), -1.0), r"in \[0, 1\], but got -1 to -1"),
        ("isotonic", "values", None, r"in \[0, 1\], but got -?[0-9.]+ to [0-9.]+"),
        ("temperature_scaling", "temperature", np.longdouble("1e4000"), "finite, but got NaN or infinity"),
    ],
)
def test_numbers_that_no_fit_gives(name, entry, value, message, sample):
    fitted = CALIBRATORS[name]().fit(*sample)
    state, probs = fitted.state_dict(), fitted(sample[0])
    value = 1.5 - 3 * state[entry] if value is None else np.array(value)
    refused(f"`{entry}` to be {message}", fitted.load_state_dict, {**state, entry: value})
    np.testing.assert_array_equal(fitted(sample[0]), probs)


@pytest.mark.parametrize("name", ["class_temperature_scaling", "ets", "vector_scaling", "spline"])
def test_floats_of_other_types_are_taken(name, sample):
    fitted = CALIBRATORS[name]().fit(*sample)
    for dtype in (np.longdouble, ">f8"):
        state = {k: v.astype(dtype) if v.dtype.kind == "f" else v for k, v in fitted.state_dict().items()}
        again = CALIBRATORS[name]().load_state_dict(state)
        np.testing.assert_array_equal(again(sample[0]), fitted(sample[0]))
        for entry, value in again.state_dict().items():
            assert value.dtype == fitted.state_dict()[entry].dtype and value.dtype.isnative


def test_what_a_replay_came_to_has_any_sign(sample, tmp_path):
    """Temperatures and weights of public code are loaded as they were."""
    scaling = CALIBRATORS["class_temperature_scaling"](solver="sctl", objective="nll").fit(*sample)
    scaling.temperatures = np.array([102.5, -6111.0, 3.0])
    np.testing.assert_array_equal(load_calibrator(scaling.save(tmp_path / "t.npz")).temperatures, scaling.temperatures)
    ets = ETS(solver="sctl").fit(*sample)
    state = ets.state_dict() | {"weights": np.array([1.5, -0.75, 3.0])}
    np.testing.assert_allclose(ets.load_state_dict(state)(sample[0]).sum(1), 1.0)


def test_names_of_classes_do_not_outlive_their_fit(sample, tmp_path):
    z, y = sample
    named = TemperatureScaling().fit(z, y)
    named.classes = ("a", "b", "c")
    assert load_calibrator(named.save(tmp_path / "ts.npz")).classes == ("a", "b", "c")
    assert named.load_state_dict(TemperatureScaling().fit(z[:, :2], y % 2).state_dict()).classes == ()


@pytest.mark.parametrize("prefix", ["", "logit_"])
def test_a_fit_on_a_table_keeps_the_names_of_its_columns(sample, tmp_path, prefix):
    z, y = sample
    names = ["cat", "dog", "cat_dog"]
    table = pd.DataFrame(z, columns=[prefix + name for name in names])
    fitted = VectorScaling().fit(table, y)
    again = load_calibrator(fitted.save(tmp_path / "vs.npz"))
    assert fitted.classes == again.classes == tuple(names) and repr(fitted) == repr(VectorScaling().fit(z, y))
    for calibrator in (fitted, again):
        np.testing.assert_array_equal(calibrator(table), calibrator(z))
        for turned in (table[table.columns[::-1]], table.set_axis(names, axis=1)[names[::-1]]):
            refused("`logits` to be with the columns .*, in this order", calibrator, turned)
    for other in (pd.DataFrame(z), pd.DataFrame(z, columns=list("abc"))):  # whose names say nothing
        np.testing.assert_array_equal(again(other), again(z))
    for nameless in (z, pd.DataFrame(z), table.set_axis(["a"] * len(names), axis=1)):
        assert fitted.fit(nameless, y).classes == ()


# ------------------------------------------------------------------------------------------------------------ files
class Sharpened(TemperatureScaling):
    """A class of one's own: temperature scaling, and then a power of the probabilities."""

    def __init__(self, objective="nll", *, power=2.0):
        super().__init__(objective)
        self.power = power

    def _probs(self, logits):
        return (self.power * logits / self.temperature).softmax(1)


class Other(TemperatureScaling):
    """Another class, whose state has the same entries."""


def test_a_file_is_read_by_its_class_and_by_no_other(sample, tmp_path):
    fitted = Sharpened(Focal(gamma=1.0), power=1.5).fit(*sample)
    fitted.classes, fitted.floor = ("a", "b", "c"), 1e-9
    path = fitted.save(tmp_path / "own.npz")
    again = Sharpened.load(path)
    assert type(again) is Sharpened and again.options() == fitted.options()
    assert (again.classes, again.floor, again.n_classes) == (("a", "b", "c"), 1e-9, 3)
    np.testing.assert_array_equal(again(sample[0]), fitted(sample[0]))
    for cls in (Other, TemperatureScaling, ETS, NeuralClamping, Calibrator):
        want = f"Expected `path` to be a file that {cls.__name__}.save wrote, but got '.*own.npz': that of Sharpened"
        with pytest.raises(ValueError, match=want):
            cls.load(path)
    want = "Expected `path` to be a file that Calibrator.save wrote, but got .*: that of Sharpened.*; Sharpened.load"
    with pytest.raises(ValueError, match=want):
        load_calibrator(path)
    with pytest.raises(ValueError, match="Expected `path` to be a file that Other.save wrote.*: that of .*"):
        Other.load(TemperatureScaling().fit(*sample).save(path))


def test_a_class_of_a_script_and_one_in_a_file_named_as_a_method(sample, tmp_path):
    """What names the file is neither ``__main__`` nor the module alone."""
    text = "from calibkit import TemperatureScaling\nclass Mine(TemperatureScaling):\n    pass\n"
    for name, run_name in (("script.py", "__main__"), ("ets.py", "mine.ets")):
        (tmp_path / name).write_text(text)
        cls = runpy.run_path(str(tmp_path / name), run_name=run_name)["Mine"]
        fitted = cls().fit(*sample)
        path = fitted.save(tmp_path / "mine.npz")
        assert cls.load(path).temperature == fitted.temperature
        refused(".*that of Mine.*; Mine.load", load_calibrator, path)


def test_what_is_no_file_of_a_calibrator_or_damaged_is_named(sample, tmp_path):
    whole = TemperatureScaling().fit(*sample).save(tmp_path / "ts.npz").read_bytes()
    for n, damaged in enumerate((whole[:40], whole[:-40], b"", whole[:60] + b"x" + whole[61:], b"no archive")):
        (tmp_path / f"damaged{n}.npz").write_bytes(damaged)
    np.savez(tmp_path / "damaged_other.npz", values=np.zeros(3))
    for path in tmp_path.glob("damaged*"):
        refused("`path` to be a file that Calibrator.save wrote.*damaged.*npz", load_calibrator, path)
        refused("`path` to be a file that Sharpened.save wrote, but got", Sharpened.load, path)
    for read in (load_calibrator, Sharpened.load):
        with pytest.raises(FileNotFoundError):
            read(tmp_path / "absent.npz")


def test_labels_in_a_series_are_those_of_its_rows_in_their_order(sample):
    z, y = sample
    ts = TemperatureScaling().fit(pd.DataFrame(z), pd.Series(y, index=np.arange(90)[::-1]))
    assert ts.temperature == TemperatureScaling().fit(z, y).temperature


@pytest.mark.parametrize("wrong", [{"classes": [1, 2, 3]}, {"classes": ["a", "b"]}, {"floor": "x"}, {"floor": 2.0}])
def test_what_a_header_says_of_the_data_is_checked(wrong, sample, tmp_path):
    path = TemperatureScaling().fit(*sample).save(tmp_path / "ts.npz")
    arrays = dict(np.load(path))
    header = json.loads(str(arrays.pop("header"))) | wrong
    write_npz(path, {"header": np.asarray(json.dumps(header)), **arrays})
    refused(r"`path` to be .*ts\.npz': Expected `(classes|floor)` to be ", load_calibrator, path)
