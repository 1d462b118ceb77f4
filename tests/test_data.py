"""Data: splits that never overlap, the long-tailed profile, the official archives, the real files where present."""

import io
import tarfile

import numpy as np
import pytest

from calibkit import data
from calibkit.data import DATASETS, load, prepare
from calibkit.data.__main__ import main


def fake_archive(path, name, n=(20, 10)):
    """A generated archive in the official binary layout; returns its images and labels."""
    rng = np.random.default_rng(0)
    n_label_bytes, truth = (1 if name == "cifar10" else 2), {}
    with tarfile.open(path, "w:gz") as tar:
        for split, count in zip(("train", "test"), n, strict=True):
            images = rng.integers(0, 256, (count, 32, 32, 3), dtype=np.uint8)
            labels = rng.integers(0, DATASETS[name].n_classes, count)
            coarse = [] if n_label_bytes == 1 else [np.full((count, 1), 255, np.uint8)]
            pixels = images.transpose(0, 3, 1, 2).reshape(count, -1)
            records = np.hstack([*coarse, labels[:, None].astype(np.uint8), pixels])
            members = prepare.cifar.MEMBERS[name][split]
            for member, part in zip(members, np.array_split(records, len(members)), strict=True):
                info = tarfile.TarInfo(f"folder/{member}")
                info.size = part.nbytes
                tar.addfile(info, io.BytesIO(part.tobytes()))
            truth[split] = images, labels
    return truth


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CALIBKIT_DATA", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
def test_prepare_reads_the_official_layout(name, cache, monkeypatch):
    truth = fake_archive(cache / "archive.tar.gz", name)
    with pytest.raises(ValueError, match="Expected `archive` to be a file with MD5"):
        prepare.prepare(name, cache / "archive.tar.gz")
    assert not (cache / name).exists()
    import hashlib

    md5 = hashlib.md5((cache / "archive.tar.gz").read_bytes()).hexdigest()
    monkeypatch.setitem(prepare.SOURCES, name, (prepare.SOURCES[name][0], md5, prepare.SOURCES[name][2]))
    prepare.prepare(f"{name}_lt", cache / "archive.tar.gz")  # the long-tailed name prepares its base
    for split in ("train", "test"):
        np.testing.assert_array_equal(np.load(cache / name / f"{split}_images.npy"), truth[split][0])
        np.testing.assert_array_equal(np.load(cache / name / f"{split}_labels.npy"), truth[split][1])
    assert load(name, "test").inputs.shape == (10, 32, 32, 3)
    assert prepare.prepare(name, cache / "nowhere") == cache / name  # complete: left alone


def test_broken_archives(cache):
    fake_archive(cache / "archive.tar.gz", "cifar10")
    with pytest.raises(ValueError, match="without train.bin"):
        prepare.cifar.read("cifar100", cache / "archive.tar.gz")
    with tarfile.open(cache / "short.tar", "w") as tar:
        for member in ("train.bin", "test.bin"):
            info = tarfile.TarInfo(member)
            info.size = 100
            tar.addfile(info, io.BytesIO(bytes(100)))
    with pytest.raises(ValueError, match="records of 3074 bytes"):
        prepare.cifar.read("cifar100", cache / "short.tar")


def test_download_leaves_nothing_when_it_fails(cache):
    with pytest.raises(OSError):
        prepare.download((cache / "absent.tar.gz").as_uri(), cache / "archives" / "x.tar.gz")
    assert not (cache / "archives").exists()
    (cache / "source").write_bytes(b"abc")
    path = prepare.download((cache / "source").as_uri(), cache / "archives" / "x.tar.gz")
    assert path.read_bytes() == b"abc"


def test_digits_are_real_and_split_without_overlap():
    from sklearn.datasets import load_digits

    splits = [load("digits", name) for name in ("train", "val", "test")]
    assert [len(split.labels) for split in splits] == [1000, 300, 497]
    together = np.concatenate([split.inputs[..., 0] for split in splits]).reshape(1797, -1)
    whole = np.round(load_digits().images * 255 / 16).astype(np.uint8).reshape(1797, -1)
    assert sorted(map(bytes, together)) == sorted(map(bytes, whole))
    train = splits[0].inputs / 255
    assert train.mean() == pytest.approx(DATASETS["digits"].mean[0], abs=5e-3)
    assert train.std() == pytest.approx(DATASETS["digits"].std[0], abs=5e-3)


def test_missing_files_say_the_command(cache):
    with pytest.raises(FileNotFoundError, match="python -m calibkit.data prepare cifar10"):
        load("cifar10_lt", "train")
    assert not data.available("cifar10") and data.available("digits")


@pytest.mark.parametrize(("name", "split"), [("mnist", "train"), ("digits", "training")])
def test_bad_names(name, split):
    with pytest.raises(ValueError, match="Expected `(name|split)` to be one of"):
        load(name, split)


def test_command_line(cache, capsys):
    assert main(["list"]) == 0
    assert "digits           ready" in capsys.readouterr().out
    assert main(["prepare", "cifar10", "--archive", str(cache / "absent")]) == 1
    assert "absent" in capsys.readouterr().err


def needs(name):
    if not data.available(name):
        pytest.skip(f"needs {name} in $CALIBKIT_DATA")


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
def test_real_cifar(name):
    needs(name)
    train, val, test = (load(name, split) for split in ("train", "val", "test"))
    assert [len(split.labels) for split in (train, val, test)] == [45000, 5000, 10000]
    spec = DATASETS[name]
    np.testing.assert_array_equal(np.bincount(test.labels), 10000 // spec.n_classes)
    both = np.bincount(np.concatenate([train.labels, val.labels]))
    np.testing.assert_array_equal(both, 50000 // spec.n_classes)
    pixels = train.inputs[::10].reshape(-1, 3) / 255
    assert pixels.mean(0) == pytest.approx(spec.mean, abs=4e-3)
    assert pixels.std(0) == pytest.approx(spec.std, abs=4e-3)
    assert isinstance(test.inputs, np.memmap)


@pytest.mark.parametrize(("name", "total"), [("cifar10_lt", 20431), ("cifar100_lt", 19573)])
def test_long_tailed_sizes_of_the_paper(name, total):
    """SCTL Appendix C prints 20,431 and 19,573 images, halved into train and val; test stays balanced."""
    needs(name)
    train, val, test = (load(name, split) for split in ("train", "val", "test"))
    assert len(train.labels) + len(val.labels) == total
    assert len(val.labels) - len(train.labels) in (0, 1)
    counts = np.bincount(np.concatenate([train.labels, val.labels]))
    n_0, k = counts[0], DATASETS[name].n_classes
    np.testing.assert_array_equal(counts, [int(n_0 * 0.1 ** (i / (k - 1))) for i in range(k)])
    assert len(set(np.bincount(test.labels))) == 1
    half = np.bincount(val.labels, minlength=k)
    assert np.abs(half - counts / 2).max() < 4 * np.sqrt(n_0) / 2, "both halves have the profile"
    assert half.min() > 0.2 * 0.1 * n_0 / 2
