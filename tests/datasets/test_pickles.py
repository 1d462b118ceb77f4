"""Pickles of arrays: what numpy wrote is read; what anybody else wrote is refused, and not run."""

import os
import pickle
import pickletools

import numpy as np
import pytest

from calibkit.data.published import read_pairs

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
            with pytest.raises(ValueError, match=f"Expected `path` to be a pickle of two pairs.*{function.__name__}"):
                read(pickle.dumps(content, protocol))
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
        with pytest.raises(ValueError, match="Expected `path` to be a pickle of two pairs of arrays of numbers, but"):
            read(raw)
