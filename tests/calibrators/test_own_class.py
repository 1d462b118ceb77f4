"""A calibrator of one's own: its file is read by its class, and by no other."""

import json
import runpy

import numpy as np
import pytest

from calibkit._files import write_npz
from calibkit.calibrators import CALIBRATORS, ETS, Calibrator, NeuralClamping, TemperatureScaling, load_calibrator
from calibkit.objectives import Focal


class Sharpened(TemperatureScaling):
    """Temperature scaling, and then a power of the probabilities."""

    def __init__(self, objective="nll", *, power=2.0):
        super().__init__(objective)
        self.power = power

    def _probs(self, logits):
        return (self.power * logits / self.temperature).softmax(1)


class Other(TemperatureScaling):
    """Another class, whose state has the same entries."""


@pytest.fixture(scope="module")
def sample():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(200, 3))
    return 2 * z, (z + rng.gumbel(size=z.shape)).argmax(1)


@pytest.fixture
def saved(sample, tmp_path):
    fitted = Sharpened(Focal(gamma=1.0), power=1.5).fit(*sample)
    fitted.classes, fitted.floor = ("a", "b", "c"), 1e-9
    return fitted, fitted.save(tmp_path / "own.npz")


def test_its_file_is_read_by_its_class(saved, sample):
    fitted, path = saved
    again = Sharpened.load(path)
    assert type(again) is Sharpened and again.options() == fitted.options()
    assert (again.classes, again.floor, again.n_classes) == (("a", "b", "c"), 1e-9, 3)
    np.testing.assert_array_equal(again(sample[0]), fitted(sample[0]))
    with np.load(path, allow_pickle=False) as archive:
        assert all(archive[name].dtype.kind in "biufU" for name in archive.files)


@pytest.mark.parametrize("cls", [Other, TemperatureScaling, ETS, NeuralClamping])
def test_its_file_is_refused_by_other_classes(cls, saved):
    want = f"Expected `path` to be a file that {cls.__name__}.save wrote, but got '.*own.npz': that of Sharpened"
    with pytest.raises(ValueError, match=want):
        cls.load(saved[1])


def test_who_asks_for_any_calibrator_is_told_which_class_reads_it(saved, sample):
    want = "Expected `path` to be a file that Calibrator.save wrote, but got .*: that of Sharpened.*; Sharpened.load"
    with pytest.raises(ValueError, match=want):
        load_calibrator(saved[1])
    with pytest.raises(ValueError, match="Expected `path` to be a file that Calibrator.save wrote"):
        Calibrator.load(saved[1])


def test_a_class_of_a_script_and_one_in_a_file_named_as_a_method(sample, tmp_path):
    """What names the file is neither ``__main__`` nor the module alone."""
    text = "from calibkit import TemperatureScaling\nclass Mine(TemperatureScaling):\n    pass\n"
    for name, run_name in (("script.py", "__main__"), ("ets.py", "mine.ets")):
        (tmp_path / name).write_text(text)
        cls = runpy.run_path(str(tmp_path / name), run_name=run_name)["Mine"]
        fitted = cls().fit(*sample)
        path = fitted.save(tmp_path / "mine.npz")
        assert cls.load(path).temperature == fitted.temperature
        with pytest.raises(ValueError, match=r"that of Mine.*; Mine.load"):
            load_calibrator(path)


@pytest.mark.parametrize("name", [name for name, cls in CALIBRATORS.items() if issubclass(cls, Calibrator)])
def test_classes_of_the_registry_read_their_files_too(name, sample, tmp_path):
    fitted = CALIBRATORS[name]().fit(*sample)
    path = fitted.save(tmp_path / "calibrator.npz")
    again = CALIBRATORS[name].load(path)
    np.testing.assert_array_equal(again(sample[0]), fitted(sample[0]))
    with pytest.raises(ValueError, match="Expected `path` to be a file that Other.save wrote.*: that of .*"):
        Other.load(path)


def test_files_without_the_name_of_a_class_are_read_by_their_key(sample, tmp_path):
    fitted = CALIBRATORS["class_temperature_scaling"]("nll").fit(*sample)
    header = {"calibrator": "class_temperature_scaling", "options": fitted.options()}
    path = write_npz(tmp_path / "old.npz", {"header": np.asarray(json.dumps(header)), **fitted.state_dict()})
    for again in (load_calibrator(path), CALIBRATORS["class_temperature_scaling"].load(path)):
        np.testing.assert_array_equal(again(sample[0]), fitted(sample[0]))
    with pytest.raises(ValueError, match="ETS.save wrote, but got .*: that of class_temperature_scaling"):
        ETS.load(path)


def test_what_is_no_file_of_a_calibrator(tmp_path):
    np.savez(tmp_path / "other.npz", values=np.zeros(3))
    (tmp_path / "text.npz").write_text("no archive")
    for path in tmp_path.iterdir():
        with pytest.raises(ValueError, match="Expected `path` to be a file that Sharpened.save wrote, but got"):
            Sharpened.load(path)
    with pytest.raises(FileNotFoundError):
        Sharpened.load(tmp_path / "absent.npz")
