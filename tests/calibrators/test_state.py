"""States that no fit gives are not taken."""

import numpy as np
import pytest

from calibkit import load_calibrator
from calibkit._files import write_npz
from calibkit.calibrators import CALIBRATORS, Calibrator

NAMES = [name for name, cls in CALIBRATORS.items() if issubclass(cls, Calibrator)]

#: Those that say which shapes a state has.
SHAPED = [name for name in NAMES if CALIBRATORS[name]._shapes is not Calibrator._shapes]


@pytest.fixture(scope="module")
def sample():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 90)
    return rng.normal(size=(90, 3)) + 2 * np.eye(3)[labels], labels


@pytest.mark.parametrize("name", NAMES)
def test_bad_values(name, sample, tmp_path):
    calibrator = CALIBRATORS[name]().fit(*sample)
    state = calibrator.state_dict()
    assert CALIBRATORS[name]().load_state_dict(state).n_classes == 3
    bad = [("n_classes", value, "an integer >= 2") for value in (np.asarray(1), np.asarray(3.5), np.asarray([3, 3]))]
    for entry, value in state.items():
        if entry.startswith("temperature"):
            bad += [(entry, np.full_like(value, x), "positive") for x in (0.0, -1.0)]
            bad += [(entry, np.full_like(value, x), "finite") for x in (np.nan, np.inf)]
        if value.ndim and value.size:
            spoilt = value.astype(float).copy()
            spoilt.flat[-1] = np.nan
            bad += [(entry, spoilt, "finite"), (entry, value.astype(str), "numbers")]
    header = np.load(calibrator.save(tmp_path / "good.npz"))["header"]
    for entry, value, want in bad:
        other = CALIBRATORS[name]()
        with pytest.raises(ValueError, match=f"Expected `{entry}` to be {want}, but got"):
            other.load_state_dict({**state, entry: value})
        assert other.n_classes is None and all(getattr(other, key) is None for key in other.state)
        write_npz(tmp_path / "bad.npz", {**state, entry: value, "header": header})
        with pytest.raises(ValueError, match=f"but got '.*bad.npz': Expected `{entry}` to be {want}"):
            load_calibrator(tmp_path / "bad.npz")


def test_every_fitted_array_of_ours_has_a_shape():
    assert len(SHAPED) >= 13 and "identity" not in SHAPED
    for name in SHAPED:
        cls = CALIBRATORS[name]
        assert set(cls.state) - set(cls.reported) <= set(cls()._shapes(3)), name


@pytest.mark.parametrize("name", SHAPED)
def test_shapes(name, sample, tmp_path):
    """An axis more, an axis less, a row more, no row; two that belong together; one class more in all."""
    z, y = sample
    calibrator = CALIBRATORS[name]().fit(z, y)
    state, want = calibrator.state_dict(), calibrator(z)
    entries = {entry: state[entry] for entry in calibrator.state if entry not in calibrator.reported}
    bad = [(entry, value[None]) for entry, value in entries.items()]
    for entry, value in entries.items():
        bad += [(entry, value[0]), (entry, value[:0])] if value.ndim else []
        bad += [(entry, np.concatenate([value, value[-1:]]))] if value.ndim and entry != "scores" else []
    header = np.load(calibrator.save(tmp_path / "good.npz"))["header"]
    for entry, value in bad:
        with pytest.raises(ValueError, match=f"Expected `{entry}` to be of shape .*, but got shape "):
            calibrator.load_state_dict({**state, entry: value})
        np.testing.assert_array_equal(calibrator(z), want)
        write_npz(tmp_path / "bad.npz", {**state, entry: value, "header": header})
        with pytest.raises(ValueError, match=f"but got '.*bad.npz': Expected `{entry}` to be of shape "):
            load_calibrator(tmp_path / "bad.npz")
    if any(3 in value.shape for value in entries.values()) and name != "ets":  # whose three weights are of no class
        with pytest.raises(ValueError, match="to be of shape \\(4"):
            calibrator.load_state_dict({**state, "n_classes": np.asarray(4)})


@pytest.mark.parametrize("name", NAMES)
def test_labels_are_wanted_and_logits_are_no_probabilities(name, sample):
    z, y = sample
    with pytest.raises(ValueError, match="Expected `labels` to be a numpy array, .*, but got NoneType"):
        CALIBRATORS[name]().fit(z, None)
    with pytest.raises(ValueError, match="Expected `logits` to be logits, from before the softmax"):
        CALIBRATORS[name]().fit(CALIBRATORS["identity"]().fit(z, y)(z), y)


def test_a_damaged_file_is_named(sample, tmp_path):
    path = CALIBRATORS["temperature_scaling"]().fit(*sample).save(tmp_path / "ts.npz")
    whole = path.read_bytes()
    for damaged in (whole[:40], whole[:-40], b"", whole[:60] + b"x" + whole[61:]):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="Expected `path` to be a file that Calibrator.save wrote.*ts.npz"):
            load_calibrator(path)


def test_frames_and_series(sample):
    """Columns of a table, with the labels as integers or not."""
    pd = pytest.importorskip("pandas")
    z, y = sample
    frame = pd.DataFrame(z, columns=list("abc"))
    ts = CALIBRATORS["temperature_scaling"]().fit(frame, pd.Series(y, index=frame.index[::-1]))
    assert ts.temperature == CALIBRATORS["temperature_scaling"]().fit(z, y).temperature
    for labels in (pd.Series(np.array(list("abc"))[y]), pd.Series(np.array(list("abc"))[y], dtype="category")):
        with pytest.raises(ValueError, match="Expected `labels` to be integers, but got strings"):
            ts.fit(frame, labels)
    with pytest.raises(ValueError, match=r"but got shape \(90, 1\); flatten the column"):
        ts.fit(frame, pd.DataFrame({"y": y}))
    with pytest.raises(ValueError, match="they are whole numbers: cast them to int"):
        ts.fit(frame, pd.Series(y, dtype=float))
    with pytest.raises(
        ValueError, match="Expected `logits` to be .*, but got an array of dtype object; cast it to numbers"
    ):
        ts.fit(frame.astype(object), y)


def test_temperatures_of_a_replay_have_any_sign(sample, tmp_path):
    """What public code came to is loaded as it was."""
    scaling = CALIBRATORS["class_temperature_scaling"](solver="sctl", objective="nll").fit(*sample)
    scaling.temperatures = np.array([102.5, -6111.0, 3.0])
    np.testing.assert_array_equal(load_calibrator(scaling.save(tmp_path / "t.npz")).temperatures, scaling.temperatures)


def test_names_of_classes_do_not_outlive_their_fit(sample, tmp_path):
    z, y = sample
    named = CALIBRATORS["temperature_scaling"]().fit(z, y)
    named.classes = ("a", "b", "c")
    assert load_calibrator(named.save(tmp_path / "ts.npz")).classes == ("a", "b", "c")
    assert named.load_state_dict(CALIBRATORS["temperature_scaling"]().fit(z[:, :2], y % 2).state_dict()).classes == ()
