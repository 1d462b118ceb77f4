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


def test_a_threshold_without_bounds(sample, tmp_path):
    for alpha, threshold in ((1.0, -np.inf), (0.001, np.inf)):
        again = ConformalSets.load(ConformalSets(alpha).fit(*sample).save(tmp_path / "sets.npz"))
        assert again.threshold == threshold


def test_other_settings_and_thresholds_are_refused(saved, tmp_path):
    found = entries(saved[1])
    assert all(array.dtype.kind in "fU" for array in found.values())  # no pickle
    settings = json.loads(str(found["settings"]))
    of_rng = settings["generator"]
    odd = [of_rng | {"state": of_rng["state"] | {"state": number}} for number in (-1, 2**200)]
    changes = [{"alpha": 0.0}, {"score": "raps"}, {"seed": -1}, {"n_classes": 1}, {"n_classes": None}, {"more": 1}]
    changes += [{"generator": each} for each in ({}, {"bit_generator": "MT19937"}, 2.0, *odd)]
    bad = [{"settings": np.asarray(json.dumps(settings | change))} for change in changes]
    bad += [{"threshold": x} for x in (np.array(np.nan), np.array([0.5]), np.array("0.5"), np.array(1, np.int64))]
    for change in bad:
        write_npz(tmp_path / "bad.npz", found | change)
        with pytest.raises(
            ValueError, match="Expected `path` to be a file that ConformalSets.save wrote, but got '.*bad"
        ):
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
    with pytest.raises(RuntimeError, match="Expected `ConformalSets` to be fitted"):
        ConformalSets().save(tmp_path / "new.npz")
    assert not (tmp_path / "new.npz").exists()
