"""The Logits file: round trip, meta, bad files."""

import numpy as np
import pytest

from calibkit import logits as module
from calibkit.logits import Logits

Z = np.array([[2.0, 0.0, 1.0], [0.0, 1.0, 3.0]])
Y = np.array([0, 2])


def test_round_trip(tmp_path):
    first = Logits(Z.astype(np.float32), Y, Z, Y[::-1].copy(), {"dataset": "toy", "seed": 3})
    second = Logits.load(first.save(tmp_path / "a" / "toy.npz"))
    for name in module.ARRAYS:
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
        assert getattr(first, name).dtype == getattr(second, name).dtype
    assert second.meta == {"dataset": "toy", "seed": 3}
    assert first.val[1] is first.val_labels and first.test[0] is first.test_logits
    assert second.test_groups is None


def test_groups_are_kept_and_checked(tmp_path):
    path = Logits(Z, Y, Z, Y, test_groups=np.array([3, 3])).save(tmp_path / "toy.npz")
    np.testing.assert_array_equal(Logits.load(path).test_groups, [3, 3])
    with pytest.raises(ValueError, match=r"Expected `test_groups` to be of shape \(2,\), one a row"):
        Logits(Z, Y, Z, Y, test_groups=np.array([3]))
    with pytest.raises(ValueError, match="Expected `test_groups` to be integers"):
        Logits(Z, Y, Z, Y, test_groups=np.array([0.5, 1.0]))


def test_files_without_meta_and_bad_files(tmp_path):
    arrays = dict(zip(module.ARRAYS, (Z, Y, Z, Y), strict=True))
    np.savez(tmp_path / "bare.npz", **arrays)
    assert Logits.load(tmp_path / "bare.npz").meta == {}
    np.savez(tmp_path / "half.npz", val_logits=Z, val_labels=Y)
    with pytest.raises(ValueError, match="without test_logits, test_labels"):
        Logits.load(tmp_path / "half.npz")
    np.savez(tmp_path / "pickle.npz", **{**arrays, "meta": np.array({"a": 1}, dtype=object)})
    with pytest.raises(ValueError, match="allow_pickle=False"):
        Logits.load(tmp_path / "pickle.npz")
    with pytest.raises(FileNotFoundError):
        Logits.load(tmp_path / "absent.npz")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ((Z, Y, Z[:, :2], Y), r"Expected `labels` to be in \[0, 2\), but got 2"),
        ((Z, Y, Z[:, :2], np.array([0, 1])), r"Expected `test_logits` to be of shape \(M, 3\)"),
        ((np.where(Z > 2, np.nan, Z), Y, Z, Y), "Expected `logits` to be finite"),
        ((Z[0], Y, Z, Y), r"Expected `logits` to be of shape \(N, K\)"),
        ((Z, Y[:1], Z, Y), r"Expected `labels` to be of shape \(2,\)"),
    ],
)
def test_bad_arrays(arrays, message):
    with pytest.raises(ValueError, match=message):
        Logits(*arrays)


def test_find_lists_what_it_knows(tmp_path):
    with pytest.raises(ValueError, match="Expected `logits` to be one of"):
        module.find("cifar10/absent")
    path = Logits(Z, Y, Z, Y).save(tmp_path / "mine.npz")
    assert module.find(str(path)).n_classes == 3
    assert list(module.zoo(tmp_path)) == []
    Logits(Z, Y, Z, Y).save(tmp_path / "toy" / "net-s0.npz")
    assert list(module.zoo(tmp_path)) == ["toy/net-s0"]
