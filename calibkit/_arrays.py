"""Arrays that numpy does not read by itself, scores of two classes in one column, and passes over rows in blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

BLOCK_BYTES = 1 << 20  # stays in cache while it is worked on


def n_masked(x: object, deepest: int = 64) -> int:
    """Masked entries of an array, or of those in a list, where numpy would take them for data."""
    if isinstance(x, list | tuple) and deepest:  # numpy goes no deeper
        return sum(n_masked(each, deepest - 1) for each in x)
    return int(np.ma.getmaskarray(x).sum()) if isinstance(x, np.ma.MaskedArray) else 0


def detached(x: Any) -> Any:
    """A list with its tensors without gradients, which numpy refuses; what is no list as it is."""
    if isinstance(x, list | tuple):
        return [detached(each) for each in x]
    return x.detach() if isinstance(x, Tensor) else x


def collected(x: Any) -> Any:
    """A lazy table, as a LazyFrame of polars, with its numbers; whatever else as it is."""
    return x.collect() if hasattr(x, "collect_schema") and hasattr(x, "collect") else x


def of_own_types(x: Any, array: np.ndarray) -> np.ndarray:
    """The numbers of a table whose types are pandas' own, "Float64" or "double[pyarrow]", in place of its objects.

    Whatever else stays the ``array`` that numpy made of it. ValueError where an integer is missing.
    """
    types = [getattr(of, "numpy_dtype", of) for of in np.ravel(getattr(x, "dtypes", ()))]
    if not types or not all(isinstance(of, np.dtype) and of.kind in "fiu" for of in types):
        return array
    return x.to_numpy(dtype=np.result_type(*types))


def numbered(names: Sequence[object]) -> list[str]:
    """Texts that are one word with different numbers, by these numbers, as 10 comes after 2; of others none.

    Example:
        >>> numbered(["class_0", "class_10", "class_2"]), numbered(["0", "cat"])
        (['class_0', 'class_2', 'class_10'], [])
    """
    texts = [name for name in names if isinstance(name, str)]
    word = texts[0].rstrip("0123456789") if texts else ""
    ends = [text[len(word) :] for text in texts if text.startswith(word)]
    numbers = {int(end): word + end for end in ends if end.isdecimal()}
    return [numbers[number] for number in sorted(numbers)] if len(numbers) == len(names) else []


def is_one_column(scores: Any) -> bool:
    """Whether scores have the shape (N,) or (N, 1), and so are of the second of two classes."""
    shape = np.shape(detached(scores))
    return len(shape) == 1 or (len(shape) == 2 and shape[1] == 1)


def two_columns(z: Tensor, *, probs: bool) -> Tensor:
    """(N, 2) of scores (N,) or (N, 1): 1 - p and p of a probability p, 0 and z of a logit z; others as they are.

    Example:
        >>> two_columns(torch.tensor([0.25, 1.0]), probs=True).tolist()
        [[0.75, 0.25], [0.0, 1.0]]
    """
    if not is_one_column(z) or not z.is_floating_point():
        return z
    z = (z.float() if z.element_size() < 4 else z).reshape(-1)
    return torch.stack([(1 - z).clamp(min=0) if probs else torch.zeros_like(z), z], 1)


def as_given(probs: Tensor, scores: Any) -> Tensor:
    """(N, K) probabilities in the shape of the scores that they are of: one column has those of class 1."""
    return probs[:, 1].reshape(np.shape(detached(scores))) if is_one_column(scores) else probs


def blocks(n_rows: int, n_columns: int, itemsize: int, block_bytes: int = BLOCK_BYTES) -> list[slice]:
    """Row slices whose (rows, n_columns) block fits in ``block_bytes``, so that a pass over it stays in cache."""
    step = max(1, block_bytes // max(1, n_columns * itemsize))
    return [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]


def row_blocks(logits: Tensor, itemsize: int = 8, n_rows: int | None = None) -> list[slice]:
    """Slices for a pass over all rows (or ``n_rows``): blocks that stay in cache on a CPU, of 16 MB on a GPU."""
    block_bytes = BLOCK_BYTES if logits.device.type == "cpu" else 16 << 20
    return blocks(len(logits) if n_rows is None else n_rows, logits.shape[1], itemsize, block_bytes)
