"""Preparing data sets from generated copies of their official archives: whole, broken, interrupted, done already."""

import json
import re
import tracemalloc

import numpy as np
import pytest
from refusals import refused

from calibkit.__main__ import main
from calibkit.data import DATASETS, IGNORE, available, files, load_split, prepare


def stored(name):
    """What lies in the folder of a data set, hidden files too."""
    folder = files(name)["train"][0].parent
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def whole(name):
    return sorted(path.name for paths in files(name).values() for path in paths)


def an_image(archives):
    """An archive and the member that holds a sample of the data set."""
    file = [name for name in archives if not name.startswith("ILSVRC2012_devkit")][-1]
    return file, [name for name in archives[file] if not name.endswith((".txt", ".md"))][0]


def some(*names):
    """A few data sets: what is common to all is tested on one of each kind of archive."""
    return pytest.mark.parametrize("made", names, indirect=True)


def test_the_official_layout_becomes_arrays_and_splits(made, tmp_path):
    """Shapes and types of the contract; train and val are the training files; -100 where there is no class."""
    name, _, truth, official = made
    folder, spec = official(), DATASETS[name]
    assert not available(name)
    assert main(["data", "prepare", name, "--archive", str(folder)]) == 0
    assert available(name) and stored(name) == whole(name)
    for split, paths in files(name).items():
        if spec.kind == "text":
            assert [json.loads(line) for line in paths[0].read_text().splitlines()] == truth[split]
            continue
        found = [np.load(path) for path in paths]
        for array, column in zip(found, truth[split], strict=True):
            np.testing.assert_array_equal(array, np.stack(column))
        assert found[0].dtype == np.uint8
        assert found[1].dtype == (np.uint8 if spec.kind == "dense" else np.int64)
    before = {path: path.stat().st_mtime_ns for paths in files(name).values() for path in paths}
    assert prepare.prepare(name, tmp_path / "nowhere") == next(iter(before)).parent
    assert {path: path.stat().st_mtime_ns for path in before} == before
    if name in ("cifar10", "cifar100"):
        return  # more images are carved than the generated copy has
    splits = {split: load_split(name, split) for split in ("train", "val", "test")}
    for inputs, labels in splits.values():
        assert inputs.shape == (len(inputs), *spec.shape)
        assert inputs.dtype == (np.int32 if spec.kind == "text" else np.uint8)
        assert labels.shape == inputs.shape[: 3 if spec.kind == "dense" else 1]
        assert set(np.unique(labels)) <= {*range(spec.n_classes), *([IGNORE] if spec.kind == "dense" else [])}
    if spec.n_val is None:
        assert all(isinstance(split.inputs, np.memmap) for split in splits.values())
        return
    assert len(splits["val"].inputs) == spec.n_val
    rows = [bytes(row) for split in ("train", "val") for row in splits[split].inputs]
    assert len(rows) == len(truth["train"] if spec.kind == "text" else truth["train"][0])
    if spec.kind != "text":
        assert sorted(rows) == sorted(bytes(image) for image in truth["train"][0])
    if spec.stratified:
        assert set(np.bincount(splits["val"].labels)) == {spec.n_val // spec.n_classes}


@some("svhn", "imagenet", "camvid")
def test_one_split_needs_its_own_archives_only(made):
    name, archives, _, official = made
    folder = official()
    split = list(files(name))[-1]
    needed = [file.name for file in prepare.SOURCES[name].files if file.splits is None or split in file.splits]
    for file in archives.keys() - set(needed):
        (folder / file).unlink()
    assert main(["data", "prepare", name, "--archive", str(folder), "--splits", split]) == 0
    assert stored(name) == sorted(path.name for path in files(name)[split]) and not available(name)


@some("tiny_imagenet", "20newsgroups")
def test_a_split_that_has_no_files_of_its_own_is_refused(made, capsys):
    """What is carved when it is read cannot be prepared alone; all three names are all there is."""
    name, _, _, official = made
    folder = official()
    for split in {"train", "val", "test"} - set(files(name)):
        assert main(["data", "prepare", name, "--archive", str(folder), "--splits", "train", split]) == 1
        text = f"Expected `splits` to be among {', '.join(files(name))}, from whose files .*, but got '{split}'"
        assert re.search(text, capsys.readouterr().err) and stored(name) == []
    assert main(["data", "prepare", name, "--archive", str(folder), "--splits", "test", "val", "train"]) == 0
    assert stored(name) == whole(name)
    with pytest.raises(ValueError, match="among train, test, from whose files the splits of cifar10_lt are read, but"):
        prepare.prepare("cifar10_lt", splits=["val"])


def test_checksums_are_those_that_others_publish():
    """torchvision and scikit-learn hold them in their sources."""
    from sklearn.datasets import _twenty_newsgroups
    from torchvision.datasets import CIFAR10, SVHN, imagenet, voc

    ours = {file.name: file for source in prepare.SOURCES.values() for file in source.files}
    for split in ("train", "test"):
        url, name, md5 = SVHN.split_list[split]
        assert (ours[name].url, ours[name].digest) == (url, f"md5:{md5}")
    pascal = voc.DATASET_YEAR_DICT["2012"]
    assert (ours[pascal["filename"]].url, ours[pascal["filename"]].digest) == (pascal["url"], f"md5:{pascal['md5']}")
    for name, md5 in imagenet.ARCHIVE_META.values():
        assert ours[name].digest == f"md5:{md5}"
    news = _twenty_newsgroups.ARCHIVE
    assert ours[news.filename].url == news.url and ours[news.filename].digest == f"sha256:{news.checksum}"
    assert ours["cifar-10-binary.tar.gz"].url.rpartition("/")[0] == CIFAR10.url.rpartition("/")[0]


def test_memory_holds_one_image_at_a_time(tmp_path):
    """100 images of 1 MB: the peak is a few of them."""
    image = np.random.default_rng(0).integers(0, 256, (512, 683, 3), dtype=np.uint8)
    tracemalloc.start()
    prepare._write_pairs(tmp_path / "i.npy", tmp_path / "l.npy", ((image + np.uint8(i), i) for i in range(100)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5 * image.nbytes
    written = np.load(tmp_path / "i.npy", mmap_mode="r")
    assert written.shape == (100, 512, 683, 3)
    np.testing.assert_array_equal(written[99], image + np.uint8(99))
    np.testing.assert_array_equal(np.load(tmp_path / "l.npy"), np.arange(100))


def test_images_of_two_sizes_are_refused(tmp_path):
    pairs = [(np.zeros((4, 4, 3), np.uint8), 0), (np.zeros((4, 5, 3), np.uint8), 1)]
    with pytest.raises(ValueError, match=r"images of shape \(4, 4, 3\), but got one of shape \(4, 5, 3\)"):
        prepare._write_pairs(tmp_path / "i.npy", tmp_path / "l.npy", pairs)
    refused(".*images of every split, but got none", prepare._write_pairs, tmp_path / "i.npy", tmp_path / "l.npy", [])
    assert not list(tmp_path.iterdir())


@some("svhn", "tiny_imagenet", "imagenet")
def test_another_checksum(made):
    name, archives, _, official = made
    folder = official()
    for file in archives:
        path = folder / file
        path.write_bytes(path.read_bytes() + b"x")
    refused("`archive` to be a file with SHA256 .*; delete it and try again", prepare.prepare, name, folder)
    assert stored(name) == []


@some("cifar100", "svhn", "tiny_imagenet_20", "imagenet")
def test_a_truncated_archive(made, shell):
    """Cut, but with a checksum that fits: no split appears that was not whole in it."""
    name, archives, _, official = made
    folder = official(cut=list(archives)[-1])
    assert "Expected `archive` to be" in shell(["data", "prepare", name, "--archive", str(folder)], 1).err
    assert set(stored(name)) < set(whole(name))


@some("cifar10", "tiny_imagenet", "imagenet", "voc2012", "camvid")
def test_a_missing_member(made):
    name, archives, _, official = made
    file, member = an_image(archives)
    content = archives[file].pop(member)
    refused("`archive` to be one that holds", prepare.prepare, name, official())
    assert set(stored(name)) < set(whole(name))
    archives[file][member] = content
    prepare.prepare(name, official())
    assert stored(name) == whole(name)


@some("cub200", "camvid")
def test_members_that_point_outside(made, tmp_path):
    name, archives, _, official = made
    for members in archives.values():
        if not isinstance(members, bytes):
            members["../../evil"] = members[str(tmp_path / "evil")] = b"evil"
    prepare.prepare(name, official())
    assert stored(name) == whole(name)
    assert not list(tmp_path.parent.rglob("evil"))


@some("cifar10", "imagenet", "20newsgroups")
def test_it_goes_on_after_an_interruption(made, monkeypatch):
    """Stopped before the last sample of the last split: that split is absent, the others stay as they are."""
    name, _, _, official = made
    folder = official()
    source = prepare.SOURCES[name]

    def stopped(name, paths, split):
        *samples, last = source.samples(name, paths, split)
        yield from samples
        if split == list(files(name))[-1]:
            raise KeyboardInterrupt
        yield last

    monkeypatch.setitem(prepare.SOURCES, name, prepare.Source(source.files, stopped))
    with pytest.raises(KeyboardInterrupt):
        prepare.prepare(name, folder)
    first = [path for paths in list(files(name).values())[:-1] for path in paths]
    assert stored(name) == sorted(path.name for path in first)
    before = [path.stat().st_mtime_ns for path in first]
    stray = first[0].with_name(".x.npy.0123456789abcdef.tmp")  # what a kill leaves
    stray.write_bytes(b"half")
    monkeypatch.setitem(prepare.SOURCES, name, source)
    prepare.prepare(name, folder)
    assert stored(name) == whole(name)
    assert [path.stat().st_mtime_ns for path in first] == before
