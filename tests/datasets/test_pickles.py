"""Pickles of arrays: what numpy wrote is read, at every protocol; what anybody else wrote is refused, and not run."""

import functools
import os
import pickle
import pickletools
import struct

import numpy as np
import pytest

from calibkit.data import _pickles
from calibkit.data._pickles import read_pairs

RNG = np.random.default_rng(0)
Z = RNG.normal(size=(7, 3)).astype(np.float32)
PAIRS = [(Z, RNG.integers(0, 3, (7, 1)).astype(np.uint8)), (2.0 * Z[:4], RNG.integers(0, 3, 4))]


@pytest.fixture
def read(tmp_path):
    """``read_pairs`` of a file with these bytes."""

    def of(raw):
        (tmp_path / "x.p").write_bytes(raw)
        return read_pairs(tmp_path / "x.p")

    return of


def same(found, pairs):
    for ours, theirs in zip(found, pairs, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            assert type(a) is np.ndarray and (a.dtype, a.shape) == (b.dtype.newbyteorder("="), b.shape)
            np.testing.assert_array_equal(a, b)
            assert a.flags.writeable and a.flags.c_contiguous


def numpy_1(raw):
    """A pickle as numpy 1 spelled the names of its modules."""
    for opcode, _, at in reversed(list(pickletools.genops(raw))):
        if opcode.name == "FRAME":  # whose length would change
            raw = raw[:at] + raw[at + 9 :]
    for new in (b"numpy._core.multiarray", b"numpy._core.numeric"):
        old = new.replace(b"_core", b"core")
        raw = raw.replace(b"\x8c" + bytes([len(new)]) + new, b"\x8c" + bytes([len(old)]) + old)
    return raw.replace(b"cnumpy._core.", b"cnumpy.core.")


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("kind", [list, tuple])
def test_what_numpy_writes(read, protocol, kind):
    raw = pickle.dumps(kind(PAIRS), protocol)
    same(read(raw), PAIRS)
    old = numpy_1(raw)
    assert b"_core" not in old
    same(read(old), PAIRS)


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?", ">f4", ">i8"])
def test_numbers_of_every_kind_and_order(read, protocol, dtype):
    array = RNG.integers(0, 2, (5, 4)).astype(dtype)
    pairs = [(array, np.asfortranarray(array)), (array[::2], array[0, 0].astype(array.dtype.newbyteorder("=")))]
    found = read(pickle.dumps(pairs, protocol))
    same(found[:1], pairs[:1])
    np.testing.assert_array_equal(found[1][0], array[::2])
    assert found[1][1].shape == () and found[1][1] == array[0, 0]


def python_2(array, protocol):
    """An array as Python 2 and numpy 1 wrote it, whose bytes are a string."""
    raw, (n, k), order = array.tobytes(), array.shape, b"<" if array.itemsize > 1 else b"|"
    name = array.dtype.str[1:].encode()
    if protocol == 0:
        head = b"cnumpy.core.multiarray\n_reconstruct\np0\n(cnumpy\nndarray\np1\n(I0\ntp2\nS'b'\np3\ntRp4\n"
        shape = b"(I1\n(I%d\nI%d\ntp5\n" % (n, k)
        dtype = b"cnumpy\ndtype\np6\n(S'%s'\nI0\nI1\ntRp7\n(I3\nS'%s'\nNNNI-1\nI-1\nI0\ntb" % (name, order)
        return head + shape + dtype + b"I00\nS" + repr(raw)[1:].encode() + b"\ntb"
    head = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
    shape = b"(K\x01K" + bytes([n]) + b"K" + bytes([k]) + b"\x86"
    minus = b"J\xff\xff\xff\xff" * 2
    dtype = b"cnumpy\ndtype\nU\x02" + name + b"K\x00K\x01\x87R(K\x03U\x01" + order + b"NNN" + minus + b"K\x00tb"
    return head + shape + dtype + b"\x89T" + struct.pack("<i", len(raw)) + raw + b"tb"


@pytest.mark.parametrize("protocol", [0, 2])
def test_what_python_2_wrote(read, protocol):
    pairs = [tuple(x.reshape(len(x), -1) for x in pair) for pair in PAIRS]
    halves = [b"(" + b"".join(python_2(array, protocol) for array in pair) + b"t" for pair in pairs]
    raw = (b"\x80\x02" if protocol else b"") + b"(" + b"".join(halves) + b"t."
    same(pickle.loads(raw, encoding="latin1"), pairs)  # what is read here was written here
    same(read(raw), pairs)


class Call:
    """A pickle that calls a function with arguments."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize(
    ("function", "named"),
    [
        (os.system, r"(posix|nt)\.system"),
        (eval, r"(__builtin__|builtins)\.eval"),
        (functools.partial, r"functools\.partial"),
        (np.fromfile, r"fromfile"),
        (np.load, r"numpy\.load"),
        (np.lib.format.open_memmap, r"open_memmap"),
        (getattr, r"(__builtin__|builtins)\.getattr"),
        (np.zeros, r"zeros"),
    ],
)
def test_a_call_of_anything_else_is_refused(read, tmp_path, protocol, function, named):
    marker = tmp_path / "ran"
    words = f"touch {marker}" if function is os.system else f"open({str(marker)!r}, 'w')"
    for content in (Call(function, words), [(Z, Call(function, words)), PAIRS[1]]):
        with pytest.raises(ValueError, match=f"Expected `path` to be a pickle of two pairs.*got .*{named}.*x.p"):
            read(pickle.dumps(content, protocol))
    assert not marker.exists()


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize(
    "array",
    [np.array([1, "x", None], object), np.array(["a"]), np.array([b"a"]), np.array([1j]), np.zeros(2, "f4,i4"),
     np.zeros(1, "M8[s]")],
)  # fmt: skip
def test_arrays_of_other_things_are_refused(read, protocol, array):
    with pytest.raises(ValueError, match="an array of dtype|which no array needs"):
        read(pickle.dumps([(array, array), PAIRS[1]], protocol))


class Persistent(pickle.Pickler):
    def persistent_id(self, x):
        return "elsewhere" if x is Z else None


@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_what_lies_elsewhere_is_refused(read, tmp_path, protocol):
    with open(tmp_path / "pid", "wb") as stream:
        Persistent(stream, protocol).dump(PAIRS)
    with pytest.raises(ValueError, match="PERSID', which no array needs"):
        read((tmp_path / "pid").read_bytes())


ARRAY = b"cnumpy\nndarray\n"
DTYPE = b"cnumpy\ndtype\nX\x02\x00\x00\x00f4\x85R"


def halves(array):
    """Two pairs of the same array."""
    return b"((" + array * 2 + b"t(" + array * 2 + b"tt."


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b".",
        b"N.",
        b"garbage",
        b"\x80\xff.",
        pickle.dumps(PAIRS)[:-1],
        pickle.dumps(PAIRS)[:200],
        pickle.dumps(PAIRS[0]),
        pickle.dumps([*PAIRS, PAIRS[0]]),
        pickle.dumps({"val": PAIRS[0], "test": PAIRS[1]}),
        pickle.dumps([(Z, Z.tolist()), PAIRS[1]]),
        halves(ARRAY),  # the class, not an array
        halves(ARRAY + b")R"),  # arrays that were given nothing
        ARRAY + b"}X\x05\x00\x00\x00valueNsb.",
        ARRAY + b"K\x01b.",
        ARRAY + b")RN}b.",
        b"c_codecs\nencode\nX\x01\x00\x00\x00aX\x06\x00\x00\x00latin1\x86RNb.",
        b"c_codecs\nencode\nX\x01\x00\x00\x00aX\x05\x00\x00\x00idna1\x86R.",
        b"(iposix\nsystem\n.",
        b"(cposix\nsystem\nX\x02\x00\x00\x00lso.",
        b"\x82\x01.",
        b"Nr\xff\xff\xff\x7f.",  # room for 2 ** 31 things to be remembered
        b"Np99999999999\n.",
        b"\x8e" + b"\xff" * 7 + b"\x7f.",  # 2 ** 63 bytes
        b"\x96" + b"\x00" * 5 + b"\x40\x00\x00.",
        b"I" + b"9" * 10000 + b"\n.",
        b"]" * 100_000 + b"a" * 99_999 + b".",
        ARRAY + b")R(K\x01(J\xff\xff\xff\xffJ\xff\xff\xff\xfft" + DTYPE + b"\x89C\x04abcdtb.",
        ARRAY + b")R(K\x01(\x8a\x08" + b"\xff" * 7 + b"\x7ft" + DTYPE + b"\x89C\x04abcdtb.",
        ARRAY + b")R(K\x01(K\x02t" + DTYPE + b"\x89C\x04abcdtb.",
        halves(ARRAY + b")R(K\x01(K\x02t" + DTYPE + b"\x89K\x08tb"),  # as many zeros
        ARRAY + b")R(K\x01(" + b"K\x01" * 100 + b"t" + DTYPE + b"\x89C\x04abcdtb.",
    ],
    ids=lambda raw: repr(raw[:30]),
)  # fmt: skip
def test_damaged_and_foreign_pickles_are_refused(read, raw):
    before = {name: dict(vars(x)) for name, x in vars(_pickles).items() if isinstance(x, type)}
    with pytest.raises(ValueError, match="Expected `path` to be a pickle of two pairs of arrays of numbers, but got "):
        read(raw)
    assert before == {name: dict(vars(x)) for name, x in vars(_pickles).items() if isinstance(x, type)}


def test_what_is_written_by_hand_is_read_where_it_is_whole(read):
    """The frame of the refused ones above is good."""
    found = read(halves(ARRAY + b")R(K\x01(K\x02t" + DTYPE + b"\x89C\x08" + Z[0, :2].tobytes() + b"tb"))
    same(found, [(Z[0, :2], Z[0, :2])] * 2)


def test_a_file_that_is_too_large(read, monkeypatch):
    raw = pickle.dumps(PAIRS)
    monkeypatch.setattr(_pickles, "LARGEST", len(raw))
    same(read(raw), PAIRS)
    monkeypatch.setattr(_pickles, "LARGEST", len(raw) - 1)
    with pytest.raises(ValueError, match=f"more than {len(raw) - 1:,} bytes"):
        read(raw)


def mutant(raw, rng):
    """Some bytes changed, left out, put in or repeated elsewhere."""
    data = bytearray(raw)
    for _ in range(rng.integers(1, 4)):
        at, n = int(rng.integers(len(data))), int(rng.integers(1, 5))
        new = rng.integers(0, 256, n, dtype=np.uint8).tobytes()
        old = bytes(data[(start := int(rng.integers(len(data)))) : start + n])
        data[at : at + (0 if rng.random() < 0.3 else n)] = [new, b"", old][rng.integers(3)]
    return bytes(data)


@pytest.mark.parametrize("protocol", range(6))
def test_mutants_are_arrays_or_refused(read, protocol):
    """Whatever becomes of a good pickle: numbers, or the one error."""
    rng, refused = np.random.default_rng(protocol), 0
    raw = pickle.dumps(PAIRS, protocol)
    for _ in range(300):
        try:
            found = read(mutant(raw, rng))
        except ValueError as error:
            assert str(error).startswith("Expected `path` to be a pickle of two pairs of arrays of numbers, but got ")
            refused += 1
        else:
            assert all(type(array) is np.ndarray and array.dtype.kind in "biuf" for pair in found for array in pair)
    assert refused > 100
