"""Passes over (N, K) arrays in blocks of rows: what is worked on stays in cache, and little memory lives at a time."""

from __future__ import annotations

from torch import Tensor

BLOCK_BYTES = 1 << 20


def blocks(n_rows: int, n_columns: int, itemsize: int, block_bytes: int = BLOCK_BYTES) -> list[slice]:
    """Row slices whose (rows, n_columns) block fits in ``block_bytes``, so that a pass over it stays in cache."""
    step = max(1, block_bytes // max(1, n_columns * itemsize))
    return [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]


def row_blocks(logits: Tensor, itemsize: int = 8, n_rows: int | None = None) -> list[slice]:
    """Slices for a pass over all rows (or ``n_rows``): blocks that stay in cache on a CPU, of 16 MB on a GPU."""
    block_bytes = BLOCK_BYTES if logits.device.type == "cpu" else 16 << 20
    return blocks(len(logits) if n_rows is None else n_rows, logits.shape[1], itemsize, block_bytes)
