"""Keys: how results, files and the command line name a loss or a method, with its options, in one line of text."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from typing import TypeVar

from calibkit._checks import expected

Made = TypeVar("Made")


def parse_key(key: str) -> tuple[str, dict, str | None, dict]:
    """A loss or method key as (name, options, objective, options of the objective).

    Raises:
        ValueError: the text is no key.

    Example:
        >>> parse_key("ets:cls normalization=cm")
        ('ets', {}, 'cls', {'normalization': 'cm'})
        >>> parse_key("mbls margin=0")
        ('mbls', {'margin': 0}, None, {})
    """
    parts = []
    for part in key.split(":"):
        name, *options = part.split() or [""]
        pairs = [option.partition("=") for option in options]
        if not name.isidentifier() or not all(o.isidentifier() and eq and value for o, eq, value in pairs):
            raise expected("key", "NAME [OPTION=VALUE ...][:OBJECTIVE [OPTION=VALUE ...]]", repr(key))
        parts.append((name, {option: _literal(value) for option, _, value in pairs}))
    if len(parts) > 2:
        raise expected("key", "of at most one objective", repr(key))
    return (*parts[0], *(parts[1] if len(parts) == 2 else (None, {})))


def _literal(text: str) -> object:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def make(cls: Callable[..., Made], what: str, options: dict) -> Made:
    """``cls(**options)``; an option that it does not have raises ValueError, in the one wording, with those it has."""
    known = inspect.signature(cls).parameters
    takes_more = any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values())
    for option in options:
        if option not in known and not takes_more:
            raise expected(what, f"with options among {', '.join(known)}", option)
    return cls(**options)
