"""Conformal sets in a file: what was saved goes on as it would have."""

import json

import numpy as np
import pytest

from calibkit._files import write_npz
from calibkit.conformal import SCORES, ConformalSets


@pytest.fixture
def sample():
    rng = np.random.default_rng(0)
    return rng.dirichlet(np.ones(5), 300), rng.integers(0, 5, 300)


@pytest.fixture
def saved(sample, tmp_path):
    sets = ConformalSets(0.2, score="randomized_aps", seed=7).fit(*sample)
    return sets, sets.save(tmp_path / "sets.npz")


def entries(path):
    with np.load(path, allow_pickle=False) as archive:
        return dict(archive)


@pytest.mark.parametrize("score", SCORES)
def test_what_is_loaded_goes_on_where_it_was_saved(score, sample, tmp_path):
    """Its draws too: two calls on halves, with a file between, are one call on both."""
    probs = np.random.default_rng(1).dirichlet(np.ones(5), 100)
    whole = ConformalSets(0.2, score=score, seed=7).fit(*sample)(probs)
    sets = ConformalSets(0.2, score=score, seed=7).fit(*sample)
    first = sets(probs[:40])
    path = sets.save(tmp_path / "sets.npz")
    assert path == tmp_path / "sets.npz"
    again = ConformalSets.load(path)
    np.testing.assert_array_equal(np.concatenate([first, again(probs[40:])]), whole)
    assert (again.alpha, again.score, again.seed, again.n_classes) == (0.2, score, 7, 5)
    assert again.threshold == sets.threshold and repr(again) == repr(sets)
    assert again.fit(*sample)(probs).tolist() == whole.tolist()


@pytest.mark.parametrize(("alpha", "threshold"), [(1.0, -np.inf), (0.001, np.inf)])
def test_a_threshold_without_bounds(alpha, threshold, sample, tmp_path):
    again = ConformalSets.load(ConformalSets(alpha).fit(*sample).save(tmp_path / "sets.npz"))
    assert again.threshold == threshold


def test_the_file_has_no_pickle(saved):
    assert all(array.dtype.kind in "fU" for array in entries(saved[1]).values())


def test_nothing_is_saved_before_the_fit(tmp_path):
    with pytest.raises(RuntimeError, match=r"Expected `ConformalSets` to be fitted, but got no call of fit\(\) before"):
        ConformalSets().save(tmp_path / "sets.npz")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "change",
    [{"alpha": 0.0}, {"score": "raps"}, {"seed": -1}, {"n_classes": 1}, {"n_classes": None}, {"more": 1},
     {"generator": {}}, {"generator": {"bit_generator": "MT19937"}}, {"generator": 2.0}],
)  # fmt: skip
def test_other_settings_are_refused(saved, tmp_path, change):
    found = entries(saved[1])
    settings = json.loads(str(found["settings"])) | change
    write_npz(tmp_path / "bad.npz", found | {"settings": np.asarray(json.dumps(settings))})
    with pytest.raises(ValueError, match="Expected `path` to be a file that ConformalSets.save wrote, but got '.*bad"):
        ConformalSets.load(tmp_path / "bad.npz")


def test_numbers_that_no_generator_has_are_refused(saved, tmp_path):
    found = entries(saved[1])
    for number in (-1, 2**200):
        settings = json.loads(str(found["settings"]))
        settings["generator"]["state"]["state"] = number
        write_npz(tmp_path / "bad.npz", found | {"settings": np.asarray(json.dumps(settings))})
        with pytest.raises(ValueError, match="Expected `path` to be a file that ConformalSets.save wrote"):
            ConformalSets.load(tmp_path / "bad.npz")


@pytest.mark.parametrize("threshold", [np.array(np.nan), np.array([0.5]), np.array("0.5"), np.array(1, np.int64)])
def test_other_thresholds_are_refused(saved, tmp_path, threshold):
    write_npz(tmp_path / "bad.npz", entries(saved[1]) | {"threshold": threshold})
    with pytest.raises(ValueError, match="Expected `path` to be a file that ConformalSets.save wrote.*`threshold`"):
        ConformalSets.load(tmp_path / "bad.npz")


def test_other_files_are_refused(saved, tmp_path):
    np.savez(tmp_path / "other.npz", values=np.zeros(3))
    (tmp_path / "text.npz").write_text("no archive")
    (tmp_path / "cut.npz").write_bytes(saved[1].read_bytes()[:-40])
    for name in ("other", "text", "cut"):
        with pytest.raises(ValueError, match=f"Expected `path` to be a file that ConformalSets.save .*{name}.npz"):
            ConformalSets.load(tmp_path / f"{name}.npz")
    with pytest.raises(FileNotFoundError):
        ConformalSets.load(tmp_path / "absent.npz")
