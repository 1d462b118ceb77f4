"""The table of what others published, the files that it names by their checksums, and pickles of arrays: what numpy
wrote is read; what anybody else wrote is refused, and not run.
"""

import hashlib
import os
import pickle
import pickletools
import re

import numpy as np
import pytest
import torch
from data_parameters import with_data, with_logits
from published_copies import halves, npy, run, same, saved, tabulate
from refusals import refused

from calibkit import networks
from calibkit._files import read_npz
from calibkit.data import published
from calibkit.data.published import read_pairs
from calibkit.logits import ARRAYS
from calibkit.models import build, fill


def test_the_table_is_complete():
    """Each target has all its parts, each file an address that cannot change, a checksum and a reader."""
    known = published.targets()
    assert len({target.name for target in known}) == len(known)
    for target in known:
        assert re.fullmatch(r"(logits|weights)/[\w-]+", target.name)
        assert bool(target.parts) != bool(target.skipped)
        parts = sorted(part for part, _ in target.parts)
        assert parts in ([], sorted(ARRAYS), ["test", "val"], ["val test"], ["state"])
        for _, file in target.parts:
            assert re.match(r"https://(raw|media)\.githubusercontent\.com/.*/[0-9a-f]{40}/", file.url)
            assert re.fullmatch(r"sha256:[0-9a-f]{64}|git:[0-9a-f]{40}", file.digest)
            assert (file.size or 0) > 0 or file.digest.startswith("git:")
            assert os.path.splitext(file.name)[1] in published.READ
    assert {f"logits/{name}" for name in networks.PUBLISHED} <= {target.name for target in known if target.parts}


def as_published(part, name, arrays):
    """A file of logits, byte by byte as its authors wrote it, with numpy 1 and Python 3."""
    if name.endswith(".npy"):
        return npy(arrays[part])
    if "_LT_" in name:
        raw = pickle.dumps(tuple(halves(arrays)), 5)
        new, old = (bytes([size]) + b"\x00" * 7 + b"\x8c" + bytes([size - 20]) for size in (39, 38))
        return raw.replace(new + b"numpy._core.numeric", old + b"numpy.core.numeric")
    small = np.uint8 if "resnet110" in name else np.int64
    pairs = [(z, y[:, None].astype(kind)) for (z, y), kind in zip(halves(arrays), (small, np.int64), strict=True)]
    raw = pickle.dumps(pairs, 3).replace(b"numpy._core", b"numpy.core")
    return raw.replace(b"\x89\x88\x87", b"K\x00K\x01\x87")  # numpy's flags were integers


@pytest.mark.parametrize("name", with_logits(networks.PUBLISHED))
def test_the_published_files_become_the_logits_that_are_used(name, tmp_path, monkeypatch, capsys):
    """The arrays of the cache, written as their authors did, have the published checksums, and become the same arrays.

    Of two files that torch wrote the checksum depends on its version: they get one of their own.
    """
    arrays = read_npz(networks.published()[name])
    target = next(target for target in published.targets() if target.name == f"logits/{name}")
    if target.parts[0][0] == "val":
        pairs = halves(arrays, torch.from_numpy)
        files = {(target.name, part): (f"{part}.pt", saved(pairs[part == "test"])) for part, _ in target.parts}
        monkeypatch.setattr(published, "TABLE", tmp_path / "published.csv")
        tabulate("https://example.org/", files)
        contents = {f"example.org/{file}": content for file, content in files.values()}
    else:
        contents = {file.name: as_published(part, file.name, arrays) for part, file in target.parts}
        for _, file in target.parts:
            assert (len(contents[file.name]), hashlib.sha256(contents[file.name]).hexdigest()) == (
                file.size,
                file.digest.removeprefix("sha256:"),
            )
    for file, content in contents.items():
        (tmp_path / "mirror" / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "mirror" / file).write_bytes(content)
    monkeypatch.setenv("CALIBKIT_DATA", str(tmp_path / "cache"))
    _, found, _ = run(capsys, "--archive", tmp_path / "mirror")
    assert found[target.name] == "written"
    same(tmp_path / "cache" / "logits" / f"{name}.npz", arrays)


@pytest.mark.parametrize("name", with_data(["cifar100_resnet20", "cifar100_resnet56"], "weights/{}.npz"))
def test_published_weights_become_those_that_are_used(name, tmp_path):
    """Half precision and back: the arrays of the cache."""
    arrays = read_npz(published.cache() / "weights" / f"{name}.npz")
    kinds = {np.dtype(np.float16): np.float32}
    state = {
        name: torch.from_numpy(array.astype(kinds.get(array.dtype, array.dtype))) for name, array in arrays.items()
    }
    (tmp_path / "x.pth").write_bytes(saved(state))
    found = published.READ[".pth"](tmp_path / "x.pth", "state")
    assert list(found) == list(arrays)
    for key, array in arrays.items():
        assert (found[key].dtype, found[key].shape, found[key].tobytes()) == (array.dtype, array.shape, array.tobytes())


def test_the_resnet_110_of_neural_clamping_fills_ours(tmp_path):
    """A .pt file with the names of its authors' code; a file of logits and labels, as others write, is refused."""
    norms = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
    blocks = [f"layer{stage}.{block}." for stage in (1, 2, 3) for block in range(18)]
    names = {f"{at}{i}" for at in ("", *blocks) for i in ["conv1.weight", *(f"bn1.{of}" for of in norms)]}
    names |= {f"{at}{i}" for at in blocks for i in ["conv2.weight", *(f"bn2.{of}" for of in norms)]}
    model = build("resnet110", 100)
    assert {*model.state_dict()} == names | {"linear.weight", "linear.bias"}
    (tmp_path / "x.pt").write_bytes(saved(model.state_dict()))
    filled = fill(build("resnet110", 100), published.READ[".pt"](tmp_path / "x.pt", "state"))
    assert all(torch.equal(q, p.half().float()) for q, p in zip(filled.parameters(), model.parameters(), strict=True))
    (tmp_path / "x.pt").write_bytes(saved(halves(dict.fromkeys(ARRAYS, np.zeros(2)), torch.from_numpy)[0]))
    refused(".*tensors by name", published.READ[".pt"], tmp_path / "x.pt", "state")


RNG = np.random.default_rng(0)


Z = RNG.normal(size=(7, 3)).astype(np.float32)


PAIRS = [(Z, RNG.integers(0, 3, (7, 1)).astype(np.uint8)), (np.asfortranarray(2.0 * Z[:4]), RNG.integers(0, 3, 4))]


@pytest.fixture
def read(tmp_path):
    """``read_pairs`` of a file with these bytes."""

    def of(raw):
        (tmp_path / "x.p").write_bytes(raw)
        return read_pairs(tmp_path / "x.p")

    return of


def numpy_1(raw):
    """A pickle as numpy 1 spelled the names of its modules."""
    for opcode, _, at in reversed(list(pickletools.genops(raw))):
        if opcode.name == "FRAME":  # whose length would change
            raw = raw[:at] + raw[at + 9 :]
    for new in (b"numpy._core.multiarray", b"numpy._core.numeric"):
        old = new.replace(b"_core", b"core")
        raw = raw.replace(b"\x8c" + bytes([len(new)]) + new, b"\x8c" + bytes([len(old)]) + old)
    return raw.replace(b"cnumpy._core.", b"cnumpy.core.")


@pytest.mark.parametrize("protocol", [3, 4, 5])
def test_what_numpy_writes(read, protocol):
    for kind, pairs in ((list, PAIRS), (tuple, [tuple(x.astype(">f8") for x in pair) for pair in PAIRS])):
        raw = pickle.dumps(kind(pairs), protocol)
        old = numpy_1(raw)
        assert b"_core" not in old
        for found in (read(raw), read(old)):
            for ours, theirs in zip(found, pairs, strict=True):
                for a, b in zip(ours, theirs, strict=True):
                    assert type(a) is np.ndarray and a.shape == b.shape and a.dtype.kind == b.dtype.kind
                    np.testing.assert_array_equal(a, b)


class Call:
    """A pickle that calls a function with arguments."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_a_call_of_anything_else_is_refused(read, tmp_path, protocol):
    marker = tmp_path / "ran"
    for function in (os.system, eval, np.fromfile, np.load, np.lib.format.open_memmap, getattr, np.zeros):
        words = f"touch {marker}" if function is os.system else f"open({str(marker)!r}, 'w')"
        for content in (Call(function, words), [(Call(function, words), Z), PAIRS[1]]):
            refused(f"`path` to be a pickle of two pairs.*{function.__name__}", read, pickle.dumps(content, protocol))
    assert not marker.exists()


def test_what_is_no_two_pairs_of_arrays_of_numbers(read):
    others = [np.array([1, "x", None], object), np.array(["a"]), np.zeros(2, "f4,i4"), np.zeros(1, "M8[s]"), [1.0]]
    array = b"cnumpy\nndarray\n"  # the class
    for raw in (
        *(pickle.dumps([(other, other), PAIRS[1]], 4) for other in others),
        *(pickle.dumps(x, 4) for x in (PAIRS[0], [*PAIRS, PAIRS[0]], {"val": PAIRS[0], "test": PAIRS[1]}, [Z, Z])),
        *(b"", b".", b"N.", b"garbage", b"\x80\xff.", b"(iposix\nsystem\n.", pickle.dumps(PAIRS)[:200]),
        *(b"((" + array * 2 + b"t(" + array * 2 + b"tt.", b"I" + b"9" * 10000 + b"\n.", pickle.dumps(PAIRS)[:-1]),
    ):
        refused("`path` to be a pickle of two pairs of arrays of numbers, but", read, raw)
