"""How judgements are saved."""

from __future__ import annotations

import json
import math
import os
from itertools import chain
from pathlib import Path
from typing import Any

from calibkit._files import write_text
from calibkit.judging.network import Row

FILES = ("judge.html", "judge.json")


def save(folder: str | os.PathLike, html: str, facts: dict) -> tuple[Path, ...]:
    """Write judge.html and judge.json into a folder; returns their paths."""
    texts = (html, json.dumps(facts, indent=1, allow_nan=False))
    return tuple(write_text(Path(folder) / name, text) for name, text in zip(FILES, texts, strict=True))


def is_whole(row: Row) -> bool:
    """Whether a row that was read back holds numbers as one that was judged does.

    Example:
        >>> is_whole(Row("mine.npz"))  # nothing was measured
        False
    """
    texts = (row.network, row.error, row.test_set, *row.strata, *row.left_out.values(), *row.properties.values())
    less = [numbers for of in row.less.values() for numbers in of.values() if numbers is not None]
    values = [value for value in row.values.values() if value is not None]
    return (
        all(isinstance(text, str) for text in texts)
        and isinstance(row.strata, tuple)
        and type(row.keeps) is bool
        and (len(row.sizes), len(row.seconds)) == (3, 2)
        and all(type(size) is int for size in row.sizes)
        and all(len(numbers) == 4 for numbers in less)
        and all(type(x) in (int, float) for x in chain(row.seconds, [row.changed], values, *less))
    )


def plain(x: Any) -> Any:
    """What JSON can hold: named tuples as dicts, others as lists, and None for what is not finite.

    Example:
        >>> from calibkit.metrics.comparison import Estimate
        >>> plain({"a": Estimate(math.nan, 0.0, 1.0), "b": (1.0, math.inf)})
        {'a': {'value': None, 'low': 0.0, 'high': 1.0}, 'b': [1.0, None]}
    """
    x = x._asdict() if hasattr(x, "_asdict") else x
    if isinstance(x, dict):
        return {name: plain(part) for name, part in x.items()}
    if isinstance(x, list | tuple):
        return [plain(part) for part in x]
    return None if isinstance(x, float) and not math.isfinite(x) else x
