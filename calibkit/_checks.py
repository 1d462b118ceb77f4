"""The one border: arrays come in as numpy or torch, and are checked here once.

Kernels behind this border are pure functions on tensors and check nothing. Every message has one wording:
``Expected `x` to be ..., but got ...``, then the cure where the mistake is a common one.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection
from numbers import Integral, Real
from typing import Any, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from calibkit._arrays import BLOCK_BYTES, blocks, detached, is_one_column, n_masked, numbered, of_own_types, two_columns

Array = np.ndarray | Tensor
T = TypeVar("T")
NUMBERS = "a numpy array, a torch tensor or nested numbers"
NUMBERED = "np.unique({}, return_inverse=True)[1] numbers them by {}: so must columns be; or call a table's columns so"

#: Rows of probabilities must sum to 1 within this plus the machine epsilon of their dtype, which is what rounding to
#: half precision costs (float32 softmax over 1,000 classes errs by about 1e-6).
SUM_TOLERANCE = 1e-4

#: Rows in [0, 1] whose sums are off by no more a class are probabilities in two digits, where logits are wanted.
TWO_DIGITS = 0.005 + 1e-9

#: More bins than any metric or map can use, and few enough to count with.
MOST_BINS = 1 << 20

#: Rows that are off by no more were likely rounded: to four digits over 1,000 classes.
ROUNDED = 0.05


def expected(name: str, want: str, got: object) -> ValueError:
    """The one error, to be raised: `expected("n_bins", "an integer larger than 0", n_bins)`."""
    return ValueError(f"Expected `{name}` to be {want}, but got {got}")


def to_tensor(name: str, x: object) -> Tensor:
    """numpy, torch or a nested list as a tensor, without a copy where memory can be shared."""
    if isinstance(x, Tensor):
        if x.layout != torch.strided or x.is_nested:
            raise expected(name, "a dense tensor", f"one of layout {x.layout}{' that is nested' * x.is_nested}")
        if x.device.type == "meta":
            raise expected(name, "a tensor that holds values", "one on the device meta")
        x = x.dequantize() if x.is_quantized else x
        x = x.float() if x.is_floating_point() and x.itemsize == 1 else x  # float8, which torch only stores
        return x.detach().resolve_conj().resolve_neg()
    if masked := n_masked(x):
        raise expected(name, "without masked entries", f"{masked} of them; leave them out")
    array = to_array(name, x)
    try:
        array = of_own_types(x, array) if array.dtype == object else array
        if not array.dtype.isnative or any(stride < 0 for stride in array.strides):
            array = array.astype(array.dtype.newbyteorder("="), order="C")
        if array.flags.writeable:
            return torch.from_numpy(array)
        with warnings.catch_warnings():  # of the whole process, so no more often than it must be
            warnings.filterwarnings("ignore", "The given NumPy array is not writable", UserWarning)  # memory maps
            return torch.from_numpy(array)
    except (TypeError, ValueError):  # objects, text
        got = f"an array of dtype {array.dtype}{'; cast it to numbers' * (array.dtype == object)}"
        raise expected(name, NUMBERS, got if hasattr(x, "__array__") else type(x).__name__) from None


def to_array(name: str, x: object, want: str = NUMBERS, dtype: type | None = None) -> np.ndarray:
    """Numpy of numbers, text or objects; an object may raise whatever it likes on the way."""
    try:
        try:
            return np.asarray(x, dtype)
        except RuntimeError:  # of tensors with gradients
            return np.asarray(detached(x), dtype)
    except MemoryError:
        raise
    except Exception as error:
        raise expected(name, want, type(x).__name__) from error


def like(x: Tensor, template: object) -> Any:
    """``x`` as numpy unless ``template`` is a tensor."""
    return x if isinstance(template, Tensor) else x.cpu().numpy()


def to_numpy(name: str, x: object) -> np.ndarray:
    """What ``to_tensor`` takes as numpy, floats of less than 32 bits, which it may not have, as float32."""
    z = to_tensor(name, x)
    return like(z.float() if z.is_floating_point() and z.itemsize < 4 else z, None)


def check_integers(name: str, x: object, n_rows: int | None = None) -> Tensor:
    """(N,) integers, one a row, of whatever integer type; of ``n_rows`` rows, where these are known."""
    try:
        y = to_tensor(name, x)
    except ValueError:
        if not any(isinstance(first, str | bytes) for first in to_array(name, x).reshape(-1)[:1].tolist()):
            raise
        raise expected(name, "integers", f"strings; {NUMBERED.format(name.split()[-1], 'the alphabet')}") from None
    if y.ndim != 1 or n_rows not in (None, len(y)):
        cure = "one-hot rows become integers by argmax(1)" if ((y == 0) | (y == 1)).all() else "rows hold 0 and 1"
        cure = "; flatten the column" if y.shape[1:] == (1,) else f"; {cure}"
        if are_many(y):
            cure = f"; of many labels a row each column is by itself: {name}[:, k] with column k of the scores"
            cure += ", or all at once by calibkit.evaluate and calibkit.report"
        raise expected(name, f"of shape ({n_rows or 'N'},), one a row", f"shape {tuple(y.shape)}{cure * (y.ndim == 2)}")
    if y.is_floating_point() or y.is_complex() or y.dtype == torch.bool:
        missing = int((y != y).sum())
        whole = y.dtype == torch.bool or (y.is_floating_point() and bool(((y == y.round()) | (y != y)).all()))
        cure = f"; leave out the {missing} that are NaN" if missing else ""
        cure += "; they are whole numbers: cast them to int" * whole
        raise expected(name, "integers", f"dtype {y.dtype}{cure}")
    return y


def are_many(y: Tensor, probs: Tensor | None = None) -> bool:
    """Whether labels are rows of 0 and 1, not each of one class; ``probs`` that do not sum to 1 tell it, too."""
    if y.ndim != 2 or y.shape[1] < 2 or not ((y == 0) | (y == 1)).all():
        return False
    both = [y] if probs is None or probs.shape != y.shape else [y, probs]
    return any(bool(((of.sum(1) - 1).abs() > ROUNDED).any()) for of in both)


def check_labels(labels: object, n_rows: int, n_classes: int, device: torch.device, name: str = "labels") -> Tensor:
    """(N,) int64 labels in [0, K) on ``device``."""
    y = check_integers(name, labels, n_rows).to(device, torch.int64)
    low, high = (int(v) for v in torch.aminmax(y))
    if low < 0 or high >= n_classes:
        odd = low if low < 0 else high
        cure = f"; {NUMBERED.format(name.split()[-1], 'size')}" if len(y.unique()) == n_classes else ""
        cure = f"; number the classes from 0: {name} - 1" if low >= 1 and high == n_classes else cure
        cure = "; leave out the rows that have no class" if odd in (-100, -1, 255) else cure
        cure = f"; -1 and 1 become 0 and 1: ({name} + 1) // 2" if n_classes == 2 and (y.abs() == 1).all() else cure
        raise expected(name, f"in [0, {n_classes})", f"{odd}{cure}")
    return y


def _check_matrix(name: str, z: Tensor, given: object) -> Tensor:
    columns = list(getattr(given, "columns", ()))
    if (wanted := numbered(columns)) and wanted != columns:
        cure = "if labels count these as they stand, pass .to_numpy()"
        raise expected(name, f"with the columns {', '.join(wanted[:6])} ...", f"{', '.join(columns[:6])} ...; {cure}")
    if not z.is_floating_point():
        raise expected(name, "floating point", f"dtype {z.dtype}")
    if z.ndim != 2:
        cure = "; pixels become rows by movedim(1, -1), in numpy moveaxis, and .reshape(-1, K)" * (z.ndim == 4)
        raise expected(name, "of shape (N, K), or (N,) of two classes", f"shape {tuple(z.shape)}{cure}")
    if z.shape[0] == 0 or z.shape[1] < 2:
        raise expected(name, "of shape (N, K) with N >= 1 and K >= 2", f"shape {tuple(z.shape)}")
    return z if z.dtype in (torch.float32, torch.float64) else z.float()


def check_logits(logits: object, name: str = "logits") -> Tensor:
    """(N, K) finite logits, float32 or float64 as given (half precision becomes float32), and not probabilities."""
    z = _check_matrix(name, two_columns(to_tensor(name, logits), probs=False), logits)
    total = float(z.sum())
    # A finite sum means every entry is finite; only a non-finite one (it may be an overflow) needs the second look.
    if not math.isfinite(total) and not all(bool(torch.isfinite(z[b]).all()) for b in blocks(len(z), z.shape[1], 8)):
        cure = "; a masked class: -1e4 in place of -inf" if not bool((z.isnan() | (z == torch.inf)).any()) else ""
        row, column = divmod(int(torch.isfinite(z).flatten().byte().argmin()), z.shape[1])
        place = f"row {row}{'' if is_one_column(logits) else f', column {column}'}, from 0"
        raise expected(name, "finite", f"NaN or infinity in {place}{cure}")
    if z.dtype == torch.float64 and not math.isfinite(float(z.max()) - float(z.min())):
        raise expected(name, "less than 1.8e308 apart", f"{float(z.min()):g} and {float(z.max()):g}")
    if not is_one_column(logits) and abs(total - len(z)) <= ROUNDED * len(z) and are_probs(z):
        cure = "the logarithm of probabilities, clipped above 0, gives logits"
        raise expected(name, "logits, from before the softmax", f"rows in [0, 1] that sum to 1; {cure}")
    return z


def are_probs(z: Tensor) -> bool:
    """Whether rows, two or more and not all one-hot, look like a softmax. Logits that do, by chance: add a constant."""
    return len(z) > 1 and could_be_probs(z) and not bool(((z == 0) | (z == 1)).all())


def could_be_probs(z: Tensor) -> bool:
    """Whether rows lie in [0, 1] and sum to 1, as a row of logits may by chance."""
    off = min(TWO_DIGITS * z.shape[1], ROUNDED)
    return bool(((z >= 0) & (z <= 1)).all()) and bool(((z.sum(1) - 1.0).abs() <= off).all())


def check_not_sigmoids(name: str, z: Tensor) -> None:
    """Refuse to fit on probabilities in one column; ``z`` are its two columns. A batch of real ones may look so."""
    if len(z) >= 20 and bool(((z[:, 1] >= 0) & (z[:, 1] <= 1)).all()):  # so many logits are not, but by chance
        cure = "a probability p has the logit ln(p / (1 - p)); logits z that are there by chance, the columns 0 and z"
        raise expected(name, "logits, from before the sigmoid", f"one column of numbers in [0, 1]; {cure}")


def check_held_out(
    logits: object, labels: object, names: tuple[str, str] = ("logits", "labels")
) -> tuple[Tensor, Tensor]:
    """(N, K) logits and their (N,) labels; ``names`` are those by which the caller knows them."""
    z = check_logits(logits, names[0])
    if is_one_column(logits):
        check_not_sigmoids(names[0], z)
    return z, check_labels(labels, len(z), z.shape[1], z.device, names[1])


def scan_probs(probs: object, name: str = "probs") -> tuple[Tensor, Tensor]:
    """(N, K) probabilities, in [0, 1] and with rows that sum to 1; and the (N,) largest of each row, in one pass."""
    given = to_tensor(name, probs)
    p = _check_matrix(name, two_columns(given, probs=True), probs)
    tolerance = SUM_TOLERANCE + torch.finfo(given.dtype).eps
    slices = blocks(len(p), p.shape[1], p.element_size(), 4 * BLOCK_BYTES if p.device.type == "cpu" else 1 << 30)
    low, total, high = (p.new_empty(n) for n in (len(slices), len(p), len(p)))
    for i, block in enumerate(slices):
        rows = p[block]
        torch.amin(rows, (0, 1), out=low[i])
        torch.sum(rows, 1, out=total[block])
        torch.amax(rows, 1, out=high[block])
    error = total.sub_(1.0).abs_().max().item()
    if not (low.min().item() >= 0.0 and error <= tolerance):  # NaN fails too
        ends = float(low.min()), float(high.max())
        if not (ends[0] >= 0.0 and ends[1] <= 1.0 + tolerance):
            percent = ends[0] >= 0 and float((total - 99.0).abs().max()) < 1.0
            softmax = "logits become probabilities by the softmax, (N,) by the sigmoid"
            cure = "divide percent by 100" if percent else softmax
            got = "NaN" if ends[0] != ends[0] else f"{ends[0] if ends[0] < 0 else ends[1]}; {cure}"
            raise expected(name, "in [0, 1]", got)
        many = "; scores of many labels a row go to calibkit.evaluate or calibkit.report, with labels (N, K)"
        cure = "; divide rounded rows by their sums" if error <= ROUNDED else many
        raise expected(name, "rows that sum to 1", f"a row that is off by {error:.3g}{cure}")
    return p, high


def check_int(name: str, value: object, low: int, high: int | None = None) -> int:
    """An integer >= ``low``, or in [low, high)."""
    number = int(value) if isinstance(value, Integral) and not isinstance(value, bool) else None
    if number is None or number < low or (high is not None and number >= high):
        raise expected(name, f"an integer >= {low}" if high is None else f"an integer in [{low}, {high})", repr(value))
    return number


def check_bins(n_bins: object) -> int:
    """A number of bins, of which there is no use for more than ``MOST_BINS``."""
    return check_count("n_bins", n_bins, 1, MOST_BINS)


def check_draws(name: str, value: object, low: int = 1) -> int:
    """How many resamples or simulated sets; 10**30 of them would take all memory."""
    return check_count(name, value, low, 1 << 20)


def check_count(name: str, value: object, low: int, most: int) -> int:
    """An integer from ``low`` to ``most``, which is far beyond all use."""
    number = check_int(name, value, low)
    if number > most:
        raise expected(name, f"at most {most:,}", number)
    return number


def check_label(name: str, value: object) -> int:
    """An integer that an int64 label can equal."""
    return check_int(name, value, -(2**63), 2**63)


def check_real(
    name: str, value: object, low: float = -np.inf, high: float = np.inf, *, open_low: bool = False
) -> float:
    """A finite number in [low, high], or in (low, high] if ``open_low``."""
    try:
        number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
    except OverflowError:  # an integer or a fraction beyond any float
        number = math.inf
    if not (math.isfinite(number) and low <= number <= high) or (open_low and number == low):
        raise expected(name, f"a number in {'(' if open_low else '['}{low}, {high}]", repr(value))
    return number


def check_flag(name: str, value: object) -> bool:
    """True or False; no number, text or array counts as one of them."""
    if not isinstance(value, bool | np.bool_):
        raise expected(name, "True or False", repr(value))
    return bool(value)


def check_texts(name: str, value: object) -> list[str]:
    """A list of text; one text alone is none."""
    found: list[Any] = list(cast(Any, value)) if np.iterable(value) and not isinstance(value, str) else [None]
    if not all(isinstance(each, str) for each in found):
        raise expected(name, "a list of text", repr(value))
    return found


def check_choice(name: str, value: object, choices: Collection[T]) -> T:
    """One of ``choices``."""
    try:
        known = value in frozenset(choices)
    except TypeError:  # what cannot be hashed, a list or an array, is none of them
        known = False
    if not known:
        raise expected(name, f"one of {', '.join(map(str, choices))}", repr(value))
    return cast(T, value)
