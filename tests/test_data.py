"""Data: splits that never overlap, the long-tailed profile, the real files where present."""

import hashlib
import socket
from pathlib import Path

import numpy as np
import pytest
from data_parameters import with_data
from refusals import refused

from calibkit import data
from calibkit.data import DATASETS, _archive, load_split, prepare

ROOT = Path(__file__).parents[1]


def test_a_download_leaves_nothing_when_it_fails(data_cache):
    (data_cache / "source").write_bytes(b"abc")
    path, source = data_cache / "archives" / "x.tar.gz", (data_cache / "source").as_uri()
    digest = f"md5:{hashlib.md5(b'abc').hexdigest()}"
    for url, of in (((data_cache / "absent").as_uri(), digest), (source, f"md5:{'0' * 32}")):
        with pytest.raises((OSError, ValueError)):
            _archive.fetch(_archive.File(path.name, url, of), path)
        assert not path.exists() and not list(data_cache.glob("archives/*"))
    file = _archive.File(path.name, source, digest)
    assert _archive.official(file) == path and path.read_bytes() == b"abc"
    path.write_bytes(b"what something else left here")
    assert _archive.official(file) == path and path.read_bytes() == b"abc"
    (data_cache / "source").unlink()
    assert _archive.official(file) == path  # it is not asked for again
    path.write_bytes(b"x")
    with pytest.raises(OSError):
        _archive.official(file)
    assert path.read_bytes() == b"x"  # it may be its owner's


def test_a_connection_that_is_silent_leaves_nothing(data_cache, monkeypatch):
    monkeypatch.setattr(_archive, "TIMEOUT", 0.05)
    path = data_cache / "archives" / "x"
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/x"
        with pytest.raises(TimeoutError):
            _archive.fetch(_archive.File("x", url, None), path)
    assert not list(data_cache.glob("archives/*"))


def test_a_source_behind_a_registration_says_so(data_cache):
    with pytest.raises(FileNotFoundError, match="ILSVRC2012_devkit_t12.tar.gz needs a registration"):
        prepare.prepare("imagenet")
    (data_cache / "archives").mkdir()
    (data_cache / "archives" / "ILSVRC2012_devkit_t12.tar.gz").write_bytes(b"x")
    refused(".*a file with MD5 .*; delete it and try again", prepare.prepare, "imagenet")
    assert (data_cache / "archives" / "ILSVRC2012_devkit_t12.tar.gz").exists()


def test_one_archive_is_not_enough_where_there_are_two(data_cache):
    (data_cache / "train_32x32.mat").write_bytes(b"x")
    with pytest.raises(ValueError, match="Expected `archive` to be a folder that holds train_32x32.mat"):
        prepare.prepare("svhn", data_cache / "train_32x32.mat")
    with pytest.raises(ValueError, match="MD5 e26dedcc434d2e4c54c9b2d4a06d8373"):
        prepare.prepare("svhn", data_cache / "train_32x32.mat", ["train"])


def test_a_long_tailed_name_prepares_its_base(data_cache):
    """Its files are the base's, and complete ones are left alone."""
    for path in (path for paths in data.files("cifar10_lt").values() for path in paths):
        path.parent.mkdir(exist_ok=True)
        path.touch()
    assert prepare.prepare("cifar10_lt", data_cache / "nowhere") == data_cache / "cifar10"


def test_digits_are_real_and_split_without_overlap():
    from sklearn.datasets import load_digits

    splits = [load_split("digits", name) for name in ("train", "val", "test")]
    assert [len(split.labels) for split in splits] == [1000, 300, 497]
    together = np.concatenate([split.inputs[..., 0] for split in splits]).reshape(1797, -1)
    whole = np.round(load_digits().images * 255 / 16).astype(np.uint8).reshape(1797, -1)
    assert sorted(map(bytes, together)) == sorted(map(bytes, whole))
    train = splits[0].inputs / 255
    assert train.mean() == pytest.approx(DATASETS["digits"].mean[0], abs=5e-3)
    assert data.available("digits") and not data.files("digits")
    assert train.std() == pytest.approx(DATASETS["digits"].std[0], abs=5e-3)


def test_a_split_has_a_number():
    """None would draw another split at every call, and train and val would overlap."""
    for seed in [None, -1, 0.5, True, np.random.default_rng(0)]:
        for call, *asked in ((load_split, "digits", "val"), (data.vocabulary, "20newsgroups")):
            refused("`seed` to be an integer >= 0, but got", call, *asked, seed=seed)
    same = (load_split("digits", "val", seed=s).inputs for s in (3, np.int64(3)))
    np.testing.assert_array_equal(*same)


def test_missing_files_say_the_command(data_cache):
    with pytest.raises(FileNotFoundError, match="calibkit data prepare cifar10"):
        load_split("cifar10_lt", "train")
    assert not data.available("cifar10") and data.available("digits")


def test_bad_names():
    for name, split in [("mnist", "train"), ("digits", "training")]:
        refused("`(name|split)` to be one of", load_split, name, split)


def test_command_line(data_cache, shell):
    assert "digits              ready" in shell(["data", "list"]).out
    assert "absent" in shell(["data", "prepare", "cifar10", "--archive", str(data_cache / "absent")], 1).err


@pytest.mark.parametrize("name", with_data(["cifar10", "cifar100"]))
def test_real_cifar(name):
    train, val, test = (load_split(name, split) for split in ("train", "val", "test"))
    assert [len(split.labels) for split in (train, val, test)] == [45000, 5000, 10000]
    spec = DATASETS[name]
    np.testing.assert_array_equal(np.bincount(test.labels), 10000 // spec.n_classes)
    both = np.bincount(np.concatenate([train.labels, val.labels]))
    np.testing.assert_array_equal(both, 50000 // spec.n_classes)
    pixels = train.inputs[::10].reshape(-1, 3) / 255
    assert pixels.mean(0) == pytest.approx(spec.mean, abs=4e-3)
    assert pixels.std(0) == pytest.approx(spec.std, abs=4e-3)
    assert isinstance(test.inputs, np.memmap)


#: CIFAR-10-LT of Cui et al. 2019 at an imbalance of 10.
PROFILE = [5000, 3871, 2997, 2320, 1796, 1391, 1077, 834, 645, 500]


def test_long_tailed_sizes_of_the_paper():
    """SCTL Appendix C prints 20,431 and 19,573 images, halved into train and val; the tail has a tenth of the head."""
    for name, total in [("cifar10_lt", 20431), ("cifar100_lt", 19573)]:
        spec = DATASETS[name]
        labels = np.random.default_rng(1).permutation(np.arange(50_000) % spec.n_classes)
        train, val = (data._carve(spec, labels, split, 0) for split in ("train", "val"))
        chosen = np.concatenate([train, val])
        assert len(set(chosen)) == len(chosen) == total and len(val) - len(train) in (0, 1)
        counts, half = np.bincount(labels[chosen]), np.bincount(labels[val])
        assert (counts[0], counts[-1]) == (50_000 / spec.n_classes, 5_000 / spec.n_classes)
        assert name == "cifar100_lt" or counts.tolist() == PROFILE
        assert (np.abs(half - counts / 2) < 4 * np.sqrt(counts) / 2).all(), "both halves have the profile"


def rows(inputs):
    return [bytes(row) for row in inputs]


def assert_moments(images, spec):
    """The mean and standard deviation of the spec are those of all training images, by channel."""
    levels = np.arange(256) / 255
    for c in range(3):
        share = np.bincount(images[..., c].ravel(), minlength=256) / images[..., c].size
        assert spec.mean[c] == pytest.approx(share @ levels, abs=6e-5)
        assert spec.std[c] == pytest.approx((share @ (levels - share @ levels) ** 2) ** 0.5, abs=6e-5)


@pytest.mark.data("tiny_imagenet_20")
def test_real_tiny_imagenet_20():
    """MbLS App. B: 50 images a class from the training images for val; the official validation images are the test."""
    train, val, test = (load_split("tiny_imagenet_20", split) for split in ("train", "val", "test"))
    for split, n in ((train, 450), (val, 50), (test, 50)):
        np.testing.assert_array_equal(np.bincount(split.labels), [n] * 20)
        assert split.inputs.shape == (20 * n, 64, 64, 3) and split.inputs.dtype == np.uint8
    whole = np.load(data.files("tiny_imagenet_20")["train"][0], mmap_mode="r")
    assert sorted(rows(train.inputs) + rows(val.inputs)) == sorted(rows(whole))
    again = load_split("tiny_imagenet_20", "val")
    np.testing.assert_array_equal(again.inputs, val.inputs)
    assert rows(load_split("tiny_imagenet_20", "val", seed=1).inputs) != rows(val.inputs)
    assert_moments(whole, DATASETS["tiny_imagenet_20"])
    assert isinstance(test.inputs, np.memmap)


def test_each_can_be_prepared_and_has_a_row_on_the_page():
    page = (ROOT / "book" / "running.md").read_text()
    for name, spec in DATASETS.items():
        assert (spec.base or name) in (*prepare.SOURCES, "digits")
        assert f"| `{name}`" in page or f", `{name}`" in page, name


def test_camvid_has_its_named_classes():
    spec = DATASETS["camvid"]
    assert spec.n_classes == spec.void == len(prepare.images.CAMVID_CLASSES)


@pytest.mark.data("camvid")
def test_real_camvid():
    """-100 is what the losses leave out. Road and buildings are most of a street."""
    spec = DATASETS["camvid"]
    splits = {split: load_split("camvid", split) for split in ("train", "val", "test")}
    assert [len(split.inputs) for split in splits.values()] == [367, 101, 233]
    for inputs, labels in splits.values():
        assert isinstance(inputs, np.memmap) and inputs.shape[1:] == spec.shape
        assert labels.shape == inputs.shape[:3] and labels.dtype == np.int16
        np.testing.assert_array_equal(np.unique(labels), [data.IGNORE, *range(11)])
    known = splits["train"].labels[splits["train"].labels != data.IGNORE]
    assert set(np.bincount(known).argsort()[-2:]) == {1, 3}
    assert_moments(splits["train"].inputs, spec)
    images, together = set(), 0
    for inputs, _ in splits.values():
        images |= set(rows(inputs))
        together += len(inputs)
    assert len(images) == together
