"""How judgements are saved."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

from calibkit._files import write_atomic

FILES = ("judge.html", "judge.json")


def save(folder: str | os.PathLike, html: str, facts: dict) -> tuple[Path, ...]:
    """Write judge.html and judge.json into a folder; returns their paths."""
    texts = (html, json.dumps(facts, indent=1, allow_nan=False))
    return tuple(write(Path(folder) / name, text) for name, text in zip(FILES, texts, strict=True))


def write(path: Path, text: str) -> Path:
    """Write a text file in one step."""
    return write_atomic(path, lambda stream: stream.write(text.encode("utf-8", "backslashreplace")))


def plain(x: dict) -> dict:
    """Numbers by name, in dicts and lists; None for what is not finite.

    Example:
        >>> plain({"a": {"value": math.nan, "low": [1.0, math.inf]}})
        {'a': {'value': None, 'low': [1.0, None]}}
    """
    return {name: _plain(part) for name, part in x.items()}


def _plain(x: object) -> object:
    if isinstance(x, dict):
        return plain(x)
    if isinstance(x, list):
        return [_plain(part) for part in x]
    return x if not isinstance(x, float) or math.isfinite(x) else None
