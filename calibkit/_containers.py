"""What numpy does not read by itself: masks, tensors with gradients in lists, tables of pandas' own types."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor


def n_masked(x: object, deepest: int = 64) -> int:
    """Masked entries of an array, or of those in a list, where numpy would take them for data."""
    if isinstance(x, list | tuple) and deepest:  # numpy goes no deeper
        return sum(n_masked(each, deepest - 1) for each in x)
    return int(np.ma.getmaskarray(x).sum()) if isinstance(x, np.ma.MaskedArray) else 0


def detached(x: object) -> object:
    """A list with its tensors without gradients, which numpy refuses; what is no list as it is."""
    if isinstance(x, list | tuple):
        return [detached(each) for each in x]
    return x.detach() if isinstance(x, Tensor) else x


def of_own_types(x: Any, array: np.ndarray) -> np.ndarray:
    """The numbers of a table whose types are pandas' own, "Float64" or "double[pyarrow]", in place of its objects.

    Whatever else stays the ``array`` that numpy made of it. ValueError where an integer is missing.
    """
    types = [getattr(of, "numpy_dtype", of) for of in np.ravel(getattr(x, "dtypes", ()))]
    if not types or not all(isinstance(of, np.dtype) and of.kind in "fiu" for of in types):
        return array
    return x.to_numpy(dtype=np.result_type(*types))
