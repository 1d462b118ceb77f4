"""Copies whose images lie in another order give the same splits; some samples have the shares of the classes."""

from dataclasses import replace

import numpy as np
import pytest
from refusals import refused

from calibkit import data
from calibkit._files import write_npz
from calibkit.data import DATASETS, halves, load_split, order, subset

SPLITS = ("train", "val", "test")


class Copy:
    """A cache of one data set, written anew in whatever order."""

    def __init__(self, name, official):
        self.name, self.official = name, official

    def write(self, seed=None, **changed):
        """The official samples, or others, shuffled unless the seed is None."""
        for split, (images, labels) in (self.official | changed).items():
            rows = np.arange(len(labels)) if seed is None else np.random.default_rng(seed).permutation(len(labels))
            for path, array in zip(data.files(self.name)[split], (images, labels), strict=True):
                path.parent.mkdir(exist_ok=True)
                np.save(path, array[rows])

    def splits(self, **how):
        return {split: [np.array(of) for of in load_split(self.name, split, **how)] for split in SPLITS}


@pytest.fixture
def copy(tmp_path, monkeypatch):
    """A CIFAR-10 of 200 and 50 images, with what CIFAR-100 has: one image twice in a class, in two, in two splits."""
    monkeypatch.setenv("CALIBKIT_DATA", str(tmp_path))
    monkeypatch.setattr(order, "FOLDER", tmp_path / "orders")
    monkeypatch.setitem(DATASETS, "cifar10", replace(DATASETS["cifar10"], n_val=40))
    monkeypatch.setitem(DATASETS, "cifar10_lt", replace(DATASETS["cifar10_lt"], n_val=30))
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (250, 32, 32, 3), dtype=np.uint8)
    labels = np.arange(250) % 10
    images[10] = images[1] = images[0]  # of the classes 0, 0 and 1
    images[220] = images[5]
    official = {"train": (images[:200], labels[:200]), "test": (images[200:], labels[200:])}
    (tmp_path / "orders").mkdir()
    write_npz(tmp_path / "orders" / "cifar10.npz", {split: order.hashes(*of) for split, of in official.items()})
    return Copy("cifar10", official)


def assert_equal(found, wanted):
    for split in SPLITS:
        for a, b in zip(found[split], wanted[split], strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", ["cifar10", "cifar10_lt"])
def test_a_shuffled_copy_gives_the_same_splits_in_the_same_order(copy, name):
    """Bit by bit, for every seed of the carving; a copy in the order itself stays on disk."""
    copy.write()
    copy.name = name
    wanted = {seed: copy.splits(seed=seed) for seed in (0, 1)}
    assert isinstance(load_split(name, "test").inputs, np.memmap)
    for shuffle in (0, 1):
        copy.write(seed=shuffle)
        assert not np.array_equal(np.load(data.files(name)["train"][0]), copy.official["train"][0])
        for seed, of_seed in wanted.items():
            assert_equal(copy.splits(seed=seed), of_seed)


def changed(images, labels, row, image=None, label=None):
    images, labels = images.copy(), labels.copy()
    images[row] = images[row] if image is None else image
    labels[row] = labels[row] if label is None else label
    return images, labels


def test_other_images_are_refused(copy):
    images, labels = copy.official["train"]
    faults = {
        "an image that is none of them": changed(images, labels, 7, image=images[7] ^ 1),
        "or not with its label": changed(images, labels, 7, label=8),
        "one that lacks 1 and has 1 twice": changed(images, labels, 7, image=images[17]),
        "one that lacks 2 and has 0 twice": (images[:198], labels[:198]),
        "one that lacks 0 and has 200 twice": (np.tile(images, (2, 1, 1, 1)), np.tile(labels, 2)),
    }
    for (got, train), seed in zip(faults.items(), (None, 0, None, 0, None), strict=True):
        copy.write(seed, train=train)
        for split in ("train", "val"):
            refused(f"`cifar10` to be .*, but got .*{got}", load_split, "cifar10", split)
        load_split("cifar10", "test")


def test_images_without_labels_are_refused(copy):
    copy.write()
    np.save(data.files("cifar10")["test"][1], copy.official["test"][1][:49])
    refused("`cifar10` to be .*, but got 50 images and 49 labels in test", load_split, "cifar10", "test")


def test_a_data_set_without_an_order_keeps_that_of_its_files(copy):
    copy.write(seed=0)
    (order.FOLDER / "cifar10.npz").unlink()
    np.testing.assert_array_equal(load_split("cifar10", "test").inputs, np.load(data.files("cifar10")["test"][0]))


def test_the_orders_of_the_package():
    """Of as many images as the data sets have; of those that CIFAR-100 has twice, five pairs are of one class."""
    cifar = {"train": 50000, "test": 10000}
    for name, sizes in (("cifar10", cifar), ("cifar100", cifar), ("tiny_imagenet_20", {"train": 10000, "val": 1000})):
        wanted = np.load(order.FOLDER / f"{name}.npz")
        assert {split: len(wanted[split]) for split in wanted} == sizes and list(sizes) == list(data.files(name))
        twice = {split: sizes[split] - len(np.unique(wanted[split])) for split in wanted}
        assert twice == {split: 5 * (name == "cifar100" and split == "train") for split in sizes}


@pytest.mark.data("cifar100")
def test_a_shuffled_copy_of_the_real_images(tmp_path, monkeypatch):
    wanted = {split: load_split("cifar100", split) for split in SPLITS}
    official = {split: [np.load(path, mmap_mode="r") for path in of] for split, of in data.files("cifar100").items()}
    assert isinstance(wanted["test"].inputs, np.memmap), "the copy here is in the order itself"
    monkeypatch.setenv("CALIBKIT_DATA", str(tmp_path))
    copy = Copy("cifar100", official)
    copy.write(seed=0)
    assert_equal(copy.splits(), wanted)


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
        refused(f"`{name}` to be an integer", subset, np.arange(10) % 2, n, seed=seed)
    one_hot = np.eye(3, dtype=int)
    for call in (lambda: subset(one_hot, 2), lambda: subset(None, 1), lambda: halves(one_hot), lambda: halves([0])):
        refused(r"`labels` to be (of shape \(N,\)|two or more), .*, but got ", call)
    assert subset(["b", "a", "b"], 3).tolist() == [0, 1, 2]
