"""The one border: arrays come in as numpy or torch, and are checked here once.

Kernels behind this border are pure functions on tensors and check nothing. Every message has one wording:
``Expected `x` to be ..., but got ...``.
"""

from __future__ import annotations

import warnings
from numbers import Integral, Real

import numpy as np
import torch
from torch import Tensor

from calibkit._blocks import BLOCK_BYTES, blocks

Array = np.ndarray | Tensor

#: Rows of probabilities must sum to 1 within this plus the machine epsilon of their dtype, which is what rounding to
#: half precision costs (float32 softmax over 1,000 classes errs by about 1e-6).
SUM_TOLERANCE = 1e-4


def expected(name: str, want: str, got: object) -> ValueError:
    """The one error, to be raised: `expected("n_bins", "an integer larger than 0", n_bins)`."""
    return ValueError(f"Expected `{name}` to be {want}, but got {got}")


def to_tensor(name: str, x: object) -> Tensor:
    """numpy, torch or a nested list as a tensor, without a copy where memory can be shared."""
    if isinstance(x, Tensor):
        return x.detach()
    try:
        array = np.asarray(x)
        if array.dtype == object:
            raise TypeError
        if not array.dtype.isnative:
            array = array.astype(array.dtype.newbyteorder("="))
        if any(stride < 0 for stride in array.strides):
            array = array.copy()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The given NumPy array is not writable", UserWarning)  # memory maps
            return torch.from_numpy(array)
    except (TypeError, ValueError):
        raise expected(name, "a numpy array, a torch tensor or nested numbers", type(x).__name__) from None


def like(x: Tensor, template: object) -> Array:
    """``x`` as numpy unless ``template`` is a tensor."""
    return x if isinstance(template, Tensor) else x.cpu().numpy()


def check_integers(name: str, x: object, n_rows: int) -> Tensor:
    """(N,) integers, one a row, of whatever integer type."""
    y = to_tensor(name, x)
    if y.ndim != 1 or len(y) != n_rows:
        raise expected(name, f"of shape ({n_rows},), one a row", f"shape {tuple(y.shape)}")
    if y.is_floating_point() or y.is_complex() or y.dtype == torch.bool:
        raise expected(name, "integers", f"dtype {y.dtype}")
    return y


def check_labels(labels: object, n_rows: int, n_classes: int, device: torch.device, name: str = "labels") -> Tensor:
    """(N,) int64 labels in [0, K) on ``device``."""
    y = check_integers(name, labels, n_rows).to(device, torch.int64)
    low, high = (int(v) for v in torch.aminmax(y))
    if low < 0 or high >= n_classes:
        raise expected(name, f"in [0, {n_classes})", low if low < 0 else high)
    return y


def _check_matrix(name: str, z: Tensor) -> Tensor:
    if z.ndim != 2:
        raise expected(name, "of shape (N, K)", f"shape {tuple(z.shape)}")
    if not z.is_floating_point():
        raise expected(name, "floating point", f"dtype {z.dtype}")
    if z.shape[0] == 0 or z.shape[1] < 2:
        raise expected(name, "of shape (N, K) with N >= 1 and K >= 2", f"shape {tuple(z.shape)}")
    return z if z.dtype in (torch.float32, torch.float64) else z.float()


def check_logits(logits: object, labels: object | None = None) -> tuple[Tensor, Tensor | None]:
    """(N, K) finite logits, float32 or float64 as given (half precision becomes float32), and their labels."""
    z = _check_matrix("logits", to_tensor("logits", logits))
    # A finite sum means every entry is finite; only a non-finite one (it may be an overflow) needs the second look.
    if not torch.isfinite(z.sum()) and not all(bool(torch.isfinite(z[b]).all()) for b in blocks(*z.shape, 8)):
        raise expected("logits", "finite", "NaN or infinity")
    return z, None if labels is None else check_labels(labels, *z.shape, z.device)


def scan_probs(probs: object) -> tuple[Tensor, Tensor]:
    """(N, K) probabilities, in [0, 1] and with rows that sum to 1; and the (N,) largest of each row, in one pass."""
    given = to_tensor("probs", probs)
    p = _check_matrix("probs", given)
    tolerance = SUM_TOLERANCE + torch.finfo(given.dtype).eps
    slices = blocks(*p.shape, p.element_size(), 4 * BLOCK_BYTES if p.device.type == "cpu" else 1 << 30)
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
            raise expected("probs", "in [0, 1]", "NaN" if ends[0] != ends[0] else (ends[0] if ends[0] < 0 else ends[1]))
        raise expected("probs", "rows that sum to 1", f"a row that is off by {error:.3g}")
    return p, high


def check_probs(probs: object, labels: object | None = None) -> tuple[Tensor, Tensor | None]:
    """(N, K) probabilities: in [0, 1], rows that sum to 1; and their labels."""
    p, _ = scan_probs(probs)
    return p, None if labels is None else check_labels(labels, *p.shape, p.device)


def check_int(name: str, value: object, low: int, high: int | None = None) -> int:
    """An integer >= ``low``, or in [low, high)."""
    if (
        not isinstance(value, Integral)
        or isinstance(value, bool)
        or value < low
        or (high is not None and value >= high)
    ):
        raise expected(name, f"an integer >= {low}" if high is None else f"an integer in [{low}, {high})", repr(value))
    return int(value)


def check_real(
    name: str, value: object, low: float = -np.inf, high: float = np.inf, *, open_low: bool = False
) -> float:
    """A finite number in [low, high], or in (low, high] if ``open_low``."""
    ok = isinstance(value, Real) and not isinstance(value, bool) and np.isfinite(value) and low <= value <= high
    if not ok or (open_low and value == low):
        raise expected(name, f"a number in {'(' if open_low else '['}{low}, {high}]", repr(value))
    return float(value)


def check_choice(name: str, value: object, choices) -> object:
    """One of ``choices``."""
    if value not in tuple(choices):  # a tuple, so that what cannot be hashed is told apart too
        raise expected(name, f"one of {', '.join(map(str, choices))}", repr(value))
    return value
