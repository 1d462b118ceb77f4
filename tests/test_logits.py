"""The Logits file: round trip, meta, bad files."""

import numpy as np
import pytest
import torch
from refusals import refused

from calibkit import ece, report
from calibkit import logits as module
from calibkit.logits import ARRAYS, Logits

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


def test_meta_takes_numbers_of_numpy(tmp_path):
    meta = {"accuracy": np.float32(0.5), "seed": np.int64(3), "curve": np.array([1.0, 2.0])}
    assert Logits.load(Logits(Z, Y, Z, Y, meta).save(tmp_path / "z.npz")).meta == {
        "accuracy": 0.5,
        "seed": 3,
        "curve": [1.0, 2.0],
    }
    with pytest.raises(
        ValueError, match="Expected `meta` to be numbers, text, lists and dicts of them, but got object"
    ):
        Logits(Z, Y, Z, Y, {"seed": object()}).save(tmp_path / "z.npz")
    for odd in ({(1, 2): 3}, {3: 1, "a": 2}):
        with pytest.raises(ValueError, match="^Expected `meta` to be numbers, text, lists and dicts of them"):
            Logits(Z, Y, Z, Y, {"deep": odd}).save(tmp_path / "z.npz")
        refused("`meta` to be a dict with text for keys, but got ", Logits, Z, Y, Z, Y, odd)


def test_groups_are_kept_and_checked(tmp_path):
    path = Logits(Z, Y, Z, Y, test_groups=np.array([3, 3])).save(tmp_path / "toy.npz")
    np.testing.assert_array_equal(Logits.load(path).test_groups, [3, 3])
    refused(r"`test_groups` to be of shape \(2,\), one a row", Logits, Z, Y, Z, Y, test_groups=np.array([3]))
    refused("`test_groups` to be integers", Logits, Z, Y, Z, Y, test_groups=np.array([0.5, 1.0]))


def test_files_without_meta_and_bad_files(tmp_path):
    arrays = dict(zip(module.ARRAYS, (Z, Y, Z, Y), strict=True))
    np.savez(tmp_path / "bare.npz", **arrays)
    assert Logits.load(tmp_path / "bare.npz").meta == {}
    np.savez(tmp_path / "half.npz", val_logits=Z, val_labels=Y)
    refused(".*without test_logits, test_labels", Logits.load, tmp_path / "half.npz")
    for name, meta, message in (
        (
            "pickle",
            np.array({"a": 1}, dtype=object),
            "objects, which only pickle could read, as meta.npy in '.*pickle.npz'",
        ),
        ("text", np.array("{'a': 1}"), "a file with facts in JSON, but got .* in '.*text.npz'"),
        ("deep", np.array("[" * 10**5), "a file with facts in JSON, but got .*recursion.* in '.*deep.npz'"),
        ("list", np.array("[1]"), "a file with facts as a JSON object, but got list in '.*list.npz'"),
    ):
        np.savez(tmp_path / f"{name}.npz", **{**arrays, "meta": meta})
        refused(f"`path` to be .*{message}", Logits.load, tmp_path / f"{name}.npz")
    with pytest.raises(FileNotFoundError):
        Logits.load(tmp_path / "absent.npz")


P = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])


def test_bad_arrays():
    for arrays, message in [
        ((Z, Y, Z[:, :2], Y), r"Expected `test_labels` to be in \[0, 2\), but got 2"),
        ((Z, Y, Z[:, :2], np.array([0, 1])), r"Expected `test_logits` to be of shape \(M, 3\)"),
        ((np.where(Z > 2, np.nan, Z), Y, Z, Y), "Expected `val_logits` to be finite"),
        ((Z[:, 0], np.array([0, 1]), Z, Y), r"Expected `test_logits` to be of shape \(M, 2\)"),
        ((Z, Y + 1, Z, Y), r"Expected `val_labels` to be in .* but got 3; number the classes from 0: val_labels - 1"),
        ((Z, Y, P, Y), "Expected `test_logits` to be logits, from before the softmax, but got rows in"),
    ]:
        with pytest.raises(ValueError, match=message):
            Logits(*arrays)


def test_lists_and_tensors_become_arrays(tmp_path):
    z, y = [[2.0, 0.0], [0.0, 1.0]], [0, 1]
    for groups in ([5, 6], torch.tensor([5, 6])):
        logits = Logits(z, y, torch.tensor(z), torch.tensor(y), test_groups=groups)
        assert all(isinstance(getattr(logits, name), np.ndarray) for name in (*ARRAYS, "test_groups"))
        assert logits.n_classes == 2 and logits.test_groups.tolist() == [5, 6]
    assert Logits.load(logits.save(tmp_path / "x.npz")).test_logits.tolist() == z


def test_labels_become_int64_and_logits_stay_as_they_are():
    """In uint8, 0 - 1 would be 255."""
    for dtype in (np.uint8, ">i4", np.int64):
        logits = Logits(Z.astype(np.float16), Y.astype(dtype), Z, Y.astype(dtype))
        assert (logits.val.labels - 1).tolist() == [-1, 1] and logits.test.labels.dtype == np.int64
        assert logits.val.logits.dtype == np.float16


def test_a_file_and_a_split_are_equal_to_themselves_alone():
    """Whether two hold the same samples is asked by ``is_of``."""
    z, y = np.array([[2.0, 0.0], [0.0, 1.0]]), np.array([0, 1])
    one, other = Logits(z, y, z, y), Logits(z, y, z, y)
    assert one == one and one != other and len({one, other, one}) == 2
    split = one.test
    assert split == split and split != other.test and split in [other.val, split]
    assert split.is_of(other.test)


def test_logits_of_pixels_become_rows_as_the_message_says():
    maps, labels = torch.rand(2, 3, 4, 5), torch.zeros(2, 4, 5, dtype=torch.int64)
    p = maps.softmax(1)
    for refuse in (
        lambda: Logits(maps, labels, maps, labels),
        lambda: ece(p, labels),
        lambda: report({"logits": maps, "labels": labels}),
    ):
        refused(r".*movedim\(1, -1\), in numpy moveaxis, and .reshape\(-1, K\)$", refuse)
    rows = p.movedim(1, -1).reshape(-1, 3)
    assert ece(rows, labels.flatten()) == ece(np.moveaxis(p.numpy(), 1, -1).reshape(-1, 3), labels.flatten())
