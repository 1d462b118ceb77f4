"""Pickles of arrays, as papers' authors publish logits, read without running anything that they name.

A pickle is a program. Here it may build tuples, lists and arrays of numbers: the names that numpy writes stand for
classes of this module, which keep what they are given and check it, and every other name is refused. So is every
opcode that arrays do not need. Neither numpy's nor anybody else's code runs on what the file says.
"""

from __future__ import annotations

import io
import math
import pickle
import pickletools
import re
from pathlib import Path

import numpy as np

from calibkit._checks import expected

#: Bytes of a file: five times the logits of ImageNet's validation images.
LARGEST = 1 << 30

_OPCODES = frozenset(
    "PROTO FRAME STOP MARK GLOBAL STACK_GLOBAL REDUCE BUILD EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 EMPTY_LIST LIST "
    "APPEND APPENDS NONE NEWTRUE NEWFALSE INT BININT BININT1 BININT2 LONG LONG1 STRING BINSTRING SHORT_BINSTRING "
    "UNICODE BINUNICODE SHORT_BINUNICODE BINUNICODE8 BINBYTES SHORT_BINBYTES BINBYTES8 BYTEARRAY8 PUT BINPUT "
    "LONG_BINPUT MEMOIZE GET BINGET LONG_BINGET".split()
)
_NUMBERS = re.compile(r"b1|[iu][1248]|f[248]")


class _Dtype:
    """For ``numpy.dtype``: of numbers only."""

    def __init__(self, name, *_):
        if not (isinstance(name, str) and _NUMBERS.fullmatch(name)):
            raise pickle.UnpicklingError(f"an array of dtype {str(name)[:20]!r}")
        self.dtype = np.dtype(name)

    def __setstate__(self, state):
        _, order, base, names, fields, *_ = state
        if order not in ("<", ">", "|", "=") or (base, names, fields) != (None, None, None):
            raise pickle.UnpicklingError("a dtype with fields")
        self.dtype = self.dtype.newbyteorder(order)

    def array(self, raw, shape, order="C") -> np.ndarray:
        """Bytes, in Python 2 a string, as an array in the byte order of this machine."""
        raw = raw.encode("latin-1") if isinstance(raw, str) else raw
        if not isinstance(raw, bytes | bytearray):  # a number would become so many zeros
            raise pickle.UnpicklingError(f"{type(raw).__name__} for the bytes of an array")
        if math.prod(shape) * self.dtype.itemsize != len(raw) or any(n < 0 for n in shape):
            raise pickle.UnpicklingError(f"{len(raw):,} bytes for an array of shape {shape}")
        found = np.frombuffer(raw, self.dtype).reshape(shape, order=order)
        return np.array(found, self.dtype.newbyteorder("="), order="C")


class _Array:
    """For ``ndarray`` and ``_reconstruct``: empty, until its state says what it holds."""

    value = None

    def __init__(self, *_):
        pass

    def __setstate__(self, state):
        _, shape, dtype, by_columns, raw = state
        self.value = dtype.array(raw, shape, "F" if by_columns else "C")


class _Scalar(_Array):
    """For ``scalar(dtype, bytes)``."""

    def __init__(self, dtype, raw):
        self.value = dtype.array(raw, ())


class _Buffer(_Array):
    """For ``_frombuffer(bytes, dtype, shape, order)``, which protocol 5 calls."""

    def __init__(self, raw, dtype, shape, order):
        self.value = dtype.array(raw, shape, order)


class _Bytes(bytes):
    """For ``_codecs.encode``, by which Python 3 writes bytes at the protocols of Python 2."""

    def __new__(cls, text, encoding):
        """The bytes of ``text``."""
        if encoding != "latin1":
            raise pickle.UnpicklingError(f"the encoding {encoding!r}")
        return super().__new__(cls, text.encode("latin-1"))

    def __setstate__(self, state):
        raise pickle.UnpicklingError("bytes with a state")


_NAMES = {
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
    ("_codecs", "encode"): _Bytes,
    **{(f"numpy.{core}.multiarray", "_reconstruct"): _Array for core in ("core", "_core")},
    **{(f"numpy.{core}.multiarray", "scalar"): _Scalar for core in ("core", "_core")},
    **{(f"numpy.{core}.numeric", "_frombuffer"): _Buffer for core in ("core", "_core")},
}


class _Reader(pickle.Unpickler):
    """An unpickler that knows the names of ``_NAMES`` and no other."""

    def find_class(self, module, name):
        """The stand-in of a name."""
        if (module, name) not in _NAMES:
            raise pickle.UnpicklingError(f"{module}.{name}, which no array needs")
        return _NAMES[module, name]


def _scan(raw: bytes) -> None:
    """Look at each opcode before any is run: is it one that arrays need, does it ask for no more than there is?"""
    stream = io.BytesIO(raw)
    while (code := stream.read(1)) != pickle.STOP:
        opcode = pickletools.code2op.get(code.decode("latin-1"))
        if opcode is None or opcode.name not in _OPCODES:
            raise pickle.UnpicklingError(f"the opcode {opcode.name if opcode else code!r}, which no array needs")
        if opcode.name == "STRING":  # pickletools wants ASCII
            stream.readline()
            continue
        argument = opcode.arg.reader(stream) if opcode.arg else None
        if opcode.name in ("PUT", "LONG_BINPUT") and argument > len(raw):  # the unpickler would make room for so many
            raise pickle.UnpicklingError(f"number {argument:,} of the things to be remembered")


def read_pairs(path: Path) -> list[tuple[np.ndarray, np.ndarray]]:
    """Two pairs of arrays, ``[(logits_val, y_val), (logits_test, y_test)]``, from a pickle of any protocol.

    Raises:
        ValueError: a damaged file, a larger one than ``LARGEST``, or a pickle of anything else.
        FileNotFoundError: no such file.
    """
    with open(path, "rb") as stream:
        raw = stream.read(LARGEST + 1)
    try:
        if len(raw) > LARGEST:
            raise pickle.UnpicklingError(f"more than {LARGEST:,} bytes")
        _scan(raw)
        pairs = _Reader(io.BytesIO(raw), encoding="latin1").load()
        if not (isinstance(pairs, list | tuple) and len(pairs) == 2 and all(map(_is_pair, pairs))):
            raise pickle.UnpicklingError("something else")
        return [(first.value, second.value) for first, second in pairs]
    except Exception as error:  # a damaged pickle makes the unpickler raise whatever it likes
        got = f"{error or type(error).__name__} in {str(path)!r}"
        raise expected("path", "a pickle of two pairs of arrays of numbers", got) from error


def _is_pair(pair: object) -> bool:
    """Whether it is a pair of arrays that were given values."""
    if not (isinstance(pair, list | tuple) and len(pair) == 2):
        return False
    return all(isinstance(half, _Array) and half.value is not None for half in pair)
