"""Some of the samples: drawn with the shares of the classes, never the first ones."""

import numpy as np
import pytest

from calibkit.data import halves, subset


@pytest.mark.parametrize("kind", ["sorted", "shuffled", "long-tailed"])
def test_every_class_has_its_share(kind):
    """To within one sample, in whatever order they lie."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(10), 100) if kind != "long-tailed" else np.sort(rng.geometric(0.4, 1000) - 1)
    labels = rng.permutation(labels) if kind == "shuffled" else labels
    for n in (1, 7, 50, 333, 1000):
        rows = subset(labels, n, seed=3)
        assert len(np.unique(rows)) == n and (np.diff(rows) > 0).all()
        shares = n * np.bincount(labels) / len(labels)
        assert np.abs(np.bincount(labels[rows], minlength=len(shares)) - shares).max() <= 1


def test_within_a_class_every_sample_is_as_likely():
    """500 draws of 20 from 100: each sample in about 100 of them."""
    labels = np.repeat([0, 1], 50)
    times = np.bincount(np.concatenate([subset(labels, 20, seed=seed) for seed in range(500)]), minlength=100)
    assert np.abs(times - 100).max() < 5 * np.sqrt(100 * 0.8)
    assert (subset(labels, 20, seed=1) == subset(labels, 20, seed=1)).all()
    assert (subset(labels, 20) == subset(labels, 20, seed=0)).all()


def test_halves_are_all_samples():
    for n in (10, 11):
        first, second = halves(np.arange(n) % 2, seed=1)
        assert len(first) == n // 2 and sorted([*first, *second]) == list(range(n))
    assert np.array_equal(halves(np.arange(40) % 2)[0], halves(np.arange(40) % 2, seed=0)[0])


def test_bad_input():
    for n, seed, name in ((0, 0, "n"), (11, 0, "n"), (2, None, "seed"), (2, -1, "seed")):
        with pytest.raises(ValueError, match=f"Expected `{name}` to be an integer"):
            subset(np.arange(10) % 2, n, seed=seed)
    one_hot = np.eye(3, dtype=int)
    for call in (lambda: subset(one_hot, 2), lambda: subset(None, 1), lambda: halves(one_hot), lambda: halves([0])):
        with pytest.raises(ValueError, match=r"Expected `labels` to be (of shape \(N,\)|two or more), .*, but got "):
            call()
    assert subset(["b", "a", "b"], 3).tolist() == [0, 1, 2]
