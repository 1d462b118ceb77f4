"""Conformal sets against a slow reading of their definition, MAPIE, their promise in simulation, and from a file."""

import json
import math

import numpy as np
import pytest
import torch
from mapie.classification import SplitConformalClassifier
from refusals import refused
from sklearn.base import BaseEstimator, ClassifierMixin

from calibkit._files import write_npz
from calibkit.conformal import SCORES, ConformalSets, conformal_quantile, coverage, set_size


def sample(n: int, n_classes: int = 6, seed: int = 0, scale: float = 2.0) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities that are too sure by a factor of two, and labels of the true ones."""
    rng = np.random.default_rng(seed)
    z = scale * rng.normal(size=(n, n_classes))
    labels = (z / 2 + rng.gumbel(size=z.shape)).argmax(1)
    return torch.from_numpy(z).softmax(1).numpy(), labels


def slow_score(p: list[float], k: int, score: str) -> float:
    """What the docstring says, one class of one sample."""
    if score == "lac":
        return 1 - p[k]
    return sum(p[j] for j in range(len(p)) if p[j] > p[k] or (p[j] == p[k] and j < k))


def slow_sets(held_out, labels, probs, alpha: str, score: str) -> list[list[bool]]:
    numerator, denominator = int(alpha.split(".")[1]), 10 ** len(alpha.split(".")[1])
    rank = -((len(labels) + 1) * (numerator - denominator) // denominator)  # rounded up, in integers
    scores = sorted(slow_score(list(p), y, score) for p, y in zip(held_out, labels, strict=True))
    threshold = scores[rank - 1] if rank <= len(scores) else math.inf
    return [[slow_score(list(p), k, score) <= threshold + 1e-12 for k in range(len(p))] for p in probs]


@pytest.mark.parametrize("score", ["lac", "aps"])
def test_sets_are_those_of_the_definition(score):
    probs, _ = sample(40, seed=1)
    for n, alpha in ((60, "0.1"), (99, "0.45"), (99, "0.41"), (9, "0.1"), (8, "0.1"), (1, "0.6")):
        held_out, labels = sample(n)
        found = ConformalSets(float(alpha), score=score).fit(held_out, labels)(probs)
        assert found.tolist() == slow_sets(held_out, labels, probs, alpha, score)


def test_too_few_samples_give_everything():
    probs, labels = sample(8)
    for score in SCORES:
        few = ConformalSets(0.1, score=score).fit(probs, labels)
        assert few.threshold == math.inf and few(probs).all()
        assert ConformalSets(0.1, score=score).fit(*sample(9)).threshold < math.inf
    assert not ConformalSets(1.0).fit(probs, labels)(probs).any()


class Given(ClassifierMixin, BaseEstimator):
    """The features are the probabilities."""

    classes_ = np.arange(6)

    def fit(self, X, y):
        return self

    def predict_proba(self, X):
        return X

    def predict(self, X):
        return X.argmax(1)


HELD_OUT, (NEW, _) = sample(500), sample(300, seed=1)


@pytest.mark.filterwarnings("ignore:Estimator does not appear fitted")
@pytest.mark.parametrize("alpha", [0.05, 0.3])
def test_randomized_aps_is_that_of_mapie(alpha, monkeypatch):
    """Classes without ties, levels at which its floats and our fractions have one rank, and the same uniform draws: it
    starts its generator again for the new samples.
    """
    options = {"conformity_score": "aps", "prefit": True, "random_state": 5}
    theirs = SplitConformalClassifier(Given(), confidence_level=1 - alpha, **options).conformalize(*HELD_OUT)
    _, sets = theirs.predict_set(NEW, conformity_score_params={"include_last_label": "randomized"})
    (threshold,) = theirs._mapie_classifier.conformity_score_function_.quantiles_
    monkeypatch.setattr(np.random, "default_rng", np.random.RandomState)
    ours = ConformalSets(alpha, score="randomized_aps", seed=5).fit(*HELD_OUT)
    assert ours.threshold == pytest.approx(threshold, abs=1e-12)
    ours._rng = np.random.RandomState(5)
    np.testing.assert_array_equal(ours(NEW), sets[:, :, 0])


@pytest.mark.parametrize("score", SCORES)
def test_the_promise_is_kept_by_a_network_that_is_too_sure(score):
    """Over 2,000 held-out sets of 99: the mean coverage is 1 - alpha where scores do not tie, and never less."""
    alpha, n = 0.1, 99
    probs, labels = sample(2000 * (n + 1), 4)
    u = np.random.default_rng(1).random((len(probs), 1))
    scores = SCORES[score](torch.from_numpy(probs), torch.from_numpy(u))
    scores = scores.gather(1, torch.from_numpy(labels)[:, None]).view(2000, n + 1)
    covered = [s[-1].item() <= conformal_quantile(s[:-1], alpha) for s in scores]
    error = 3 * math.sqrt(alpha * (1 - alpha) / len(covered))
    assert abs(np.mean(covered) - (1 - alpha)) < error


@pytest.mark.parametrize("score", SCORES)
def test_batches_blocks_containers_and_precisions_agree(score, monkeypatch):
    (held_out, labels), (probs, _) = sample(300), sample(200, seed=1)
    held_out, probs = held_out.astype(np.float32), probs.astype(np.float32)
    want = ConformalSets(score=score).fit(held_out, labels)(probs)
    assert want.dtype == bool
    double = ConformalSets(score=score).fit(held_out.astype(float), labels)(probs.astype(float))
    np.testing.assert_array_equal(double, want)
    tensors = ConformalSets(score=score).fit(torch.from_numpy(held_out), torch.from_numpy(labels))
    batches = [tensors(batch) for batch in torch.from_numpy(probs).split(33)]
    assert all(isinstance(batch, torch.Tensor) for batch in batches)
    np.testing.assert_array_equal(torch.cat(batches), want)
    monkeypatch.setattr("calibkit._arrays.BLOCK_BYTES", 7 * 6 * 8)
    np.testing.assert_array_equal(ConformalSets(score=score).fit(held_out, labels)(probs), want)


def test_ties_rank_by_the_number_of_the_class():
    flat, u = torch.full((1, 4), 0.25, dtype=torch.float64), torch.full((1, 1), 0.5, dtype=torch.float64)
    assert SCORES["aps"](flat, u).tolist() == [[0.0, 0.25, 0.5, 0.75]]
    assert SCORES["randomized_aps"](flat, u).tolist() == [[0.125, 0.375, 0.625, 0.875]]
    many = SCORES["aps"](torch.full((3, 1024), 2.0**-10, dtype=torch.float64), torch.ones(3, 1))
    assert many.tolist() == 3 * [[k / 1024 for k in range(1024)]]


def test_coverage_and_size_by_hand():
    sets = np.array([[True, False, True], [False, False, False]])
    assert coverage(sets, np.array([2, 1])) == 0.5 and set_size(sets) == 1.0
    assert coverage(torch.from_numpy(sets), torch.tensor([1, 1])) == 0.0


GOOD = sample(20)


def test_bad_input():
    for name, call in (
        ("alpha", lambda: ConformalSets(0.0)),
        ("alpha", lambda: ConformalSets(10)),
        ("score", lambda: ConformalSets(score="raps")),
        ("seed", lambda: ConformalSets(seed=-1)),
        ("probs", lambda: ConformalSets().fit(10 * GOOD[0], GOOD[1])),
        ("labels", lambda: ConformalSets().fit(GOOD[0], GOOD[1] + 6)),
        ("probs", lambda: ConformalSets().fit(*GOOD)(sample(5, 3)[0])),
        ("sets", lambda: set_size(GOOD[0])),
        ("labels", lambda: coverage(GOOD[0] > 0.1, GOOD[1][:3])),
    ):
        refused(f"`{name}` to be ", call)
    with pytest.raises(RuntimeError, match=r"Expected `ConformalSets` to be fitted, but got no call of fit\(\) before"):
        ConformalSets()(GOOD[0])


@pytest.fixture
def saved(tmp_path):
    sets = ConformalSets(0.2, score="randomized_aps", seed=7).fit(*HELD_OUT)
    return sets, sets.save(tmp_path / "sets.npz")


@pytest.mark.parametrize("score", SCORES)
def test_what_is_loaded_goes_on_where_it_was_saved(score, tmp_path):
    """Its draws too: two calls on halves, with a file between, are one call on both."""
    whole = ConformalSets(0.2, score=score, seed=7).fit(*HELD_OUT)(NEW)
    sets = ConformalSets(0.2, score=score, seed=7).fit(*HELD_OUT)
    first = sets(NEW[:40])
    path = sets.save(tmp_path / "sets.npz")
    assert path == tmp_path / "sets.npz"
    again = ConformalSets.load(path)
    np.testing.assert_array_equal(np.concatenate([first, again(NEW[40:])]), whole)
    assert (again.alpha, again.score, again.seed, again.n_classes) == (0.2, score, 7, 6)
    assert again.threshold == sets.threshold and repr(again) == repr(sets)
    assert again.fit(*HELD_OUT)(NEW).tolist() == whole.tolist()


def test_a_threshold_without_bounds(tmp_path):
    for alpha, threshold in ((1.0, -np.inf), (0.001, np.inf)):
        again = ConformalSets.load(ConformalSets(alpha).fit(*HELD_OUT).save(tmp_path / "sets.npz"))
        assert again.threshold == threshold


def test_other_settings_and_thresholds_are_refused(saved, tmp_path):
    with np.load(saved[1], allow_pickle=False) as archive:
        found = dict(archive)
    assert all(array.dtype.kind in "fU" for array in found.values())  # no pickle
    settings = json.loads(str(found["settings"]))
    of_rng = settings["generator"]
    odd = [of_rng | {"state": of_rng["state"] | {"state": number}} for number in (-1, 2**200)]
    odd += [of_rng | {"state": state} for state in (None, 7, "7", [])]
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
